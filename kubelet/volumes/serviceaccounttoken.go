package volumes

import (
	"context"
	"io/fs"

	corev1 "k8s.io/api/core/v1"
)

func projectToken(ctx context.Context, s Sources, v *Volume, p *corev1.VolumeProjection, mode fs.FileMode, files map[string]File) (bool, error) {
	if p.ServiceAccountToken == nil {
		return false, nil
	}
	token, err := s.Token(ctx, v.Pod, v.Spec.Name, p.ServiceAccountToken)
	if err != nil {
		return true, err
	}
	files[p.ServiceAccountToken.Path] = v.private([]byte(token), mode)
	return true, nil
}
