package volumes

import (
	"context"
	"io/fs"

	corev1 "k8s.io/api/core/v1"
)

func projectToken(ctx context.Context, s Sources, v *Volume, p *corev1.VolumeProjection, mode fs.FileMode, files *content) (bool, error) {
	if p.ServiceAccountToken == nil {
		return false, nil
	}
	token, err := s.Token(ctx, v.Pod, v.Spec.Name, p.ServiceAccountToken)
	if err != nil {
		return true, err
	}
	return true, files.put(p.ServiceAccountToken.Path, v.private([]byte(token), mode))
}
