package volumes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	corev1 "k8s.io/api/core/v1"
)

// emptyDir is a directory that any user of the pod may write to.
type emptyDir struct {
	memoryLimit func(*corev1.Pod) int64 // see Sources.MemoryLimit
}

func (emptyDir) Name() string                   { return "kubernetes.io/empty-dir" }
func (emptyDir) Supports(v *corev1.Volume) bool { return v.EmptyDir != nil }

func (e emptyDir) SetUp(_ context.Context, v *Volume) (string, error) {
	source := v.Spec.EmptyDir
	memory := source.Medium == corev1.StorageMediumMemory
	if source.Medium != corev1.StorageMediumDefault && !memory {
		return "", fmt.Errorf("medium %q is not supported by this kubelet", source.Medium)
	}
	return v.Directory, e.create(v, memory)
}

// create makes the directory of a volume, with its owner and mode, unless it is there. Afterwards
// both are the containers' to change.
func (e emptyDir) create(v *Volume, memory bool) error {
	mode, group := modeOf(memory), -1
	if g := v.FSGroup(); g != nil {
		mode, group = mode|fs.ModeSetgid, int(*g)
	}
	if memory && os.Geteuid() == 0 {
		return e.mount(v, group)
	}
	if _, err := os.Lstat(v.Directory); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// A directory with that name has its owner and mode, also after a crash.
	next := v.Directory + ".new"
	if err := os.RemoveAll(next); err != nil {
		return err
	}
	if err := os.MkdirAll(next, 0o755); err != nil {
		return err
	}
	if group >= 0 {
		if err := os.Chown(next, -1, group); err != nil {
			return err
		}
	}
	if err := os.Chmod(next, mode); err != nil {
		return err
	}
	return os.Rename(next, v.Directory)
}

// mount mounts the volume in memory, unless it is mounted.
func (e emptyDir) mount(v *Volume, group int) error {
	if err := os.MkdirAll(v.Directory, 0o755); err != nil {
		return err
	}
	if mounted, err := isMountPoint(v.Directory); mounted || err != nil {
		return err
	}
	options := "mode=1777"
	if group >= 0 {
		options = fmt.Sprintf("mode=3777,gid=%d", group)
	}
	if size := e.size(v); size > 0 {
		options += fmt.Sprintf(",size=%d", size)
	}
	if err := mountMemory(v.Directory, options); err != nil {
		return fmt.Errorf("mount tmpfs: %w", err)
	}
	return nil
}

// size returns the size of a volume in memory: the smaller of its own limit and the memory that the
// pod can use.
func (e emptyDir) size(v *Volume) (size int64) {
	if e.memoryLimit != nil {
		size = e.memoryLimit(v.Pod)
	}
	if own := v.Spec.EmptyDir.SizeLimit; own != nil && own.Value() > 0 && (own.Value() <= size || size <= 0) {
		size = own.Value()
	}
	return size
}
