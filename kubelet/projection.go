package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
)

// file is one file of a projected volume.
type file struct {
	data []byte
	mode fs.FileMode
}

// projection converts config map, secret and downward API volumes to projected volumes, of which
// they are special cases.
func projection(v *corev1.Volume) (plugin string, sources []corev1.VolumeProjection, mode *int32) {
	switch {
	case v.ConfigMap != nil:
		return "configmap", []corev1.VolumeProjection{{ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: v.ConfigMap.LocalObjectReference, Items: v.ConfigMap.Items, Optional: v.ConfigMap.Optional,
		}}}, v.ConfigMap.DefaultMode
	case v.Secret != nil:
		return "secret", []corev1.VolumeProjection{{Secret: &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: v.Secret.SecretName}, Items: v.Secret.Items, Optional: v.Secret.Optional,
		}}}, v.Secret.DefaultMode
	case v.DownwardAPI != nil:
		return "downward-api", []corev1.VolumeProjection{{DownwardAPI: &corev1.DownwardAPIProjection{Items: v.DownwardAPI.Items}}}, v.DownwardAPI.DefaultMode
	}
	return "projected", v.Projected.Sources, v.Projected.DefaultMode
}

// project returns the files of a projected volume by their paths.
func (k *Kubelet) project(ctx context.Context, pod *corev1.Pod, volume string, sources []corev1.VolumeProjection, defaultMode *int32) (map[string]file, error) {
	mode := fs.FileMode(0o644)
	if defaultMode != nil {
		mode = fs.FileMode(*defaultMode)
	}
	files := map[string]file{}
	for i := range sources {
		if err := k.projectSource(ctx, pod, volume, &sources[i], mode, files); err != nil {
			return nil, err
		}
	}
	for path := range files {
		// Check this even for objects that were never validated: files must not leave the volume.
		if !filepath.IsLocal(path) {
			return nil, fmt.Errorf("path %q leaves the volume", path)
		}
	}
	return files, nil
}

func (k *Kubelet) projectSource(ctx context.Context, pod *corev1.Pod, volume string, s *corev1.VolumeProjection, mode fs.FileMode, files map[string]file) error {
	switch {
	case s.ConfigMap != nil:
		m, err := k.configMap(ctx, pod.Namespace, s.ConfigMap.Name, s.ConfigMap.Optional)
		if m == nil || err != nil {
			return err
		}
		data := map[string][]byte{}
		for key, value := range m.Data {
			data[key] = []byte(value)
		}
		for key, value := range m.BinaryData {
			data[key] = value
		}
		return pick(data, s.ConfigMap.Items, isTrue(s.ConfigMap.Optional), mode, files)
	case s.Secret != nil:
		secret, err := k.secret(ctx, pod.Namespace, s.Secret.Name, s.Secret.Optional)
		if secret == nil || err != nil {
			return err
		}
		return pick(secret.Data, s.Secret.Items, isTrue(s.Secret.Optional), mode, files)
	case s.DownwardAPI != nil:
		return k.projectDownward(pod, s.DownwardAPI.Items, mode, files)
	case s.ServiceAccountToken != nil:
		token, err := k.token(ctx, pod, volume, s.ServiceAccountToken)
		if err != nil {
			return err
		}
		// Only the container's user may read it, which may be any user unless a group is set.
		files[s.ServiceAccountToken.Path] = file{data: []byte(token), mode: 0o644}
		return nil
	}
	return errors.New("unsupported source of a projected volume")
}

// pick adds the selected keys, or all if none are selected, to files.
func pick(data map[string][]byte, items []corev1.KeyToPath, optional bool, mode fs.FileMode, files map[string]file) error {
	if len(items) == 0 {
		for key, value := range data {
			files[key] = file{data: value, mode: mode}
		}
	}
	for _, item := range items {
		value, ok := data[item.Key]
		if !ok && optional {
			continue
		}
		if !ok {
			return fmt.Errorf("references non-existent config key: %s", item.Key)
		}
		files[filepath.Clean(item.Path)] = file{data: value, mode: itemMode(item.Mode, mode)}
	}
	return nil
}

func itemMode(own *int32, otherwise fs.FileMode) fs.FileMode {
	if own != nil {
		return fs.FileMode(*own)
	}
	return otherwise
}

func (k *Kubelet) projectDownward(pod *corev1.Pod, items []corev1.DownwardAPIVolumeFile, mode fs.FileMode, files map[string]file) error {
	for _, item := range items {
		var value string
		var err error
		switch {
		case item.FieldRef != nil:
			value, err = podField(pod, item.FieldRef.FieldPath, k.config)
		case item.ResourceFieldRef != nil:
			value, err = resourceField(pod, nil, item.ResourceFieldRef, k.capacity())
		default:
			err = fmt.Errorf("file %q has no source", item.Path)
		}
		if err != nil {
			return err
		}
		files[filepath.Clean(item.Path)] = file{data: []byte(value), mode: itemMode(item.Mode, mode)}
	}
	return nil
}
