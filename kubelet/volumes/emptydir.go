package volumes

import (
	"context"
	"fmt"
	"io/fs"
	"os"

	corev1 "k8s.io/api/core/v1"
)

// emptyDir is a directory that any user of the pod may write to.
type emptyDir struct{}

func (emptyDir) Name() string                   { return "kubernetes.io/empty-dir" }
func (emptyDir) Supports(v *corev1.Volume) bool { return v.EmptyDir != nil }

func (emptyDir) SetUp(_ context.Context, v *Volume) (string, error) {
	source := v.Spec.EmptyDir
	memory := source.Medium == corev1.StorageMediumMemory
	if source.Medium != corev1.StorageMediumDefault && !memory {
		return "", fmt.Errorf("medium %q is not supported by this kubelet", source.Medium)
	}
	var size int64
	if source.SizeLimit != nil {
		size = source.SizeLimit.Value()
	}
	if err := MakeDirectory(v.Directory, memory, size, 0o777); err != nil {
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
