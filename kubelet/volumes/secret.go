package volumes

import (
	"context"
	"io/fs"

	corev1 "k8s.io/api/core/v1"
)

func secretVolume(s Sources) Plugin {
	return projection{"kubernetes.io/secret", true, func(v *corev1.Volume) *corev1.ProjectedVolumeSource {
		if v.Secret == nil {
			return nil
		}
		source := &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: v.Secret.SecretName}, Items: v.Secret.Items, Optional: v.Secret.Optional,
		}
		return &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{Secret: source}}, DefaultMode: v.Secret.DefaultMode}
	}, s}
}

func projectSecret(ctx context.Context, s Sources, v *Volume, p *corev1.VolumeProjection, mode fs.FileMode, files *content) (bool, error) {
	if p.Secret == nil {
		return false, nil
	}
	secret, err := s.Secret(ctx, v.Pod.Namespace, p.Secret.Name, p.Secret.Optional)
	if secret == nil || err != nil {
		return true, err
	}
	return true, pick(secret.Data, nil, p.Secret.Items, p.Secret.Optional, mode, files)
}
