package volumes

import (
	"context"
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
	if err := MakeDirectory(v.Directory, memory, e.size(v), modeOf(memory)); err != nil {
		return "", err
	}
	if group := v.FSGroup(); group != nil {
		if err := os.Chown(v.Directory, -1, int(*group)); err != nil {
			return "", err
		}
		return v.Directory, os.Chmod(v.Directory, 0o777|fs.ModeSetgid)
	}
	return v.Directory, nil
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
