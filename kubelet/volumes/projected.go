package volumes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
)

// projection is a type of volume with files of one or several sources.
type projection struct {
	name string
	// memory keeps the files off the disk.
	memory bool
	// of returns a volume as a projected one, of which it is a special case; nil if it has another
	// type.
	of      func(*corev1.Volume) *corev1.ProjectedVolumeSource
	sources Sources
}

func projectedVolume(s Sources) Plugin {
	return projection{"kubernetes.io/projected", true, func(v *corev1.Volume) *corev1.ProjectedVolumeSource { return v.Projected }, s}
}

func (p projection) Name() string                   { return p.name }
func (p projection) Supports(v *corev1.Volume) bool { return p.of(v) != nil }

func (p projection) SetUp(ctx context.Context, v *Volume) (string, error) {
	files, err := p.project(ctx, v, p.of(v.Spec))
	if err != nil {
		return "", err
	}
	memory := p.memory && os.Geteuid() == 0
	mode := modeOf(memory)
	if v.FSGroup() != nil {
		mode |= fs.ModeSetgid // as WriteAtomically sets it
	}
	if err := MakeDirectory(v.Directory, memory, 0, mode); err != nil {
		return "", err
	}
	return v.Directory, WriteAtomically(v.Directory, files, v.FSGroup())
}

// project returns the files of a projected volume by their paths.
func (p projection) project(ctx context.Context, v *Volume, projected *corev1.ProjectedVolumeSource) (map[string]File, error) {
	mode := fs.FileMode(0o644)
	if projected.DefaultMode != nil {
		mode = fs.FileMode(*projected.DefaultMode)
	}
	files := &content{volume: v, files: map[string]File{}}
	for i := range projected.Sources {
		if err := p.projectSource(ctx, v, &projected.Sources[i], mode, files); err != nil {
			return nil, err
		}
	}
	return files.files, nil
}

// projectors are the types of sources. Each adds the files of a source to files, or reports that
// the source has another type.
var projectors = []func(ctx context.Context, s Sources, v *Volume, p *corev1.VolumeProjection, mode fs.FileMode, files *content) (mine bool, err error){
	projectConfigMap, projectSecret, projectDownward, projectToken, projectBundle,
}

func (p projection) projectSource(ctx context.Context, v *Volume, source *corev1.VolumeProjection, mode fs.FileMode, files *content) error {
	for _, project := range projectors {
		if mine, err := project(ctx, p.sources, v, source, mode, files); mine {
			return err
		}
	}
	return errors.New("unsupported source of a projected volume")
}

// pick adds the selected keys, or all if none are selected, to files.
func pick[T string | []byte](data map[string]T, more map[string][]byte, items []corev1.KeyToPath, optional *bool, mode fs.FileMode, files *content) error {
	if len(items) == 0 {
		for key, value := range data {
			if err := files.add(key, []byte(value), mode); err != nil {
				return err
			}
		}
		for key, value := range more {
			if err := files.add(key, value, mode); err != nil {
				return err
			}
		}
	}
	for _, item := range items {
		add := func(value []byte) error {
			return files.add(filepath.Clean(item.Path), value, itemMode(item.Mode, mode))
		}
		var err error
		if value, ok := more[item.Key]; ok {
			err = add(value)
		} else if value, ok := data[item.Key]; ok {
			err = add([]byte(value))
		} else if optional == nil || !*optional {
			err = fmt.Errorf("references non-existent config key: %s", item.Key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func itemMode(own *int32, otherwise fs.FileMode) fs.FileMode {
	if own != nil {
		return fs.FileMode(*own)
	}
	return otherwise
}
