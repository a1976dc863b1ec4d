package volumes

import (
	"context"
	"io/fs"

	corev1 "k8s.io/api/core/v1"
)

func projectToken(ctx context.Context, s Sources, v *Volume, p *corev1.VolumeProjection, _ fs.FileMode, files map[string]File) (bool, error) {
	if p.ServiceAccountToken == nil {
		return false, nil
	}
	token, err := s.Token(ctx, v.Pod, v.Spec.Name, p.ServiceAccountToken)
	if err != nil {
		return true, err
	}
	// Only the container's user may read it, which may be any user unless a group is set.
	files[p.ServiceAccountToken.Path] = File{Data: []byte(token), Mode: 0o644}
	return true, nil
}
