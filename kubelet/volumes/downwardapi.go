package volumes

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
)

func downwardVolume(s Sources) Plugin {
	return projection{"kubernetes.io/downward-api", true, func(v *corev1.Volume) *corev1.ProjectedVolumeSource {
		if v.DownwardAPI == nil {
			return nil
		}
		source := &corev1.DownwardAPIProjection{Items: v.DownwardAPI.Items}
		return &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{DownwardAPI: source}}, DefaultMode: v.DownwardAPI.DefaultMode}
	}, s}
}

func projectDownward(_ context.Context, s Sources, v *Volume, p *corev1.VolumeProjection, mode fs.FileMode, files *content) (bool, error) {
	if p.DownwardAPI == nil {
		return false, nil
	}
	for _, item := range p.DownwardAPI.Items {
		var value string
		var err error
		switch {
		case item.FieldRef != nil:
			value, err = s.Field(v.Pod, item.FieldRef.FieldPath)
		case item.ResourceFieldRef != nil:
			value, err = s.ResourceField(v.Pod, item.ResourceFieldRef)
		default:
			err = fmt.Errorf("file %q has no source", item.Path)
		}
		if err == nil {
			err = files.add(filepath.Clean(item.Path), []byte(value), itemMode(item.Mode, mode))
		}
		if err != nil {
			return true, err
		}
	}
	return true, nil
}
