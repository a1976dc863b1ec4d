package volumes

import (
	"context"
	"io/fs"

	corev1 "k8s.io/api/core/v1"
)

func configMapVolume(s Sources) Plugin {
	return projection{"kubernetes.io/configmap", false, func(v *corev1.Volume) *corev1.ProjectedVolumeSource {
		if v.ConfigMap == nil {
			return nil
		}
		source := &corev1.ConfigMapProjection{
			LocalObjectReference: v.ConfigMap.LocalObjectReference, Items: v.ConfigMap.Items, Optional: v.ConfigMap.Optional,
		}
		return &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ConfigMap: source}}, DefaultMode: v.ConfigMap.DefaultMode}
	}, s}
}

func projectConfigMap(ctx context.Context, s Sources, v *Volume, p *corev1.VolumeProjection, mode fs.FileMode, files *content) (bool, error) {
	if p.ConfigMap == nil {
		return false, nil
	}
	m, err := s.ConfigMap(ctx, v.Pod.Namespace, p.ConfigMap.Name, p.ConfigMap.Optional)
	if m == nil || err != nil {
		return true, err
	}
	return true, pick(m.Data, m.BinaryData, p.ConfigMap.Items, p.ConfigMap.Optional, mode, files)
}
