package volumes

import (
	"context"

	corev1 "k8s.io/api/core/v1"
)

// image is the type of volumes that are images. The kubelet pulls them before it starts containers, and
// the runtime mounts them, so that there is nothing to set up and no path on the host.
type image struct{}

func (image) Name() string { return "kubernetes.io/image" }

func (image) Supports(v *corev1.Volume) bool { return v.Image != nil }

func (image) SetUp(context.Context, *Volume) (string, error) { return "", nil }
