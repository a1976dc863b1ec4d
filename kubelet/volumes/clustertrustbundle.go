package volumes

import (
	"context"
	"errors"
	"io/fs"

	corev1 "k8s.io/api/core/v1"
)

func projectBundle(_ context.Context, s Sources, v *Volume, p *corev1.VolumeProjection, mode fs.FileMode, files *content) (bool, error) {
	b := p.ClusterTrustBundle
	if b == nil {
		return false, nil
	}
	if s.TrustBundles == nil {
		return true, errors.New("ClusterTrustBundle projection is not supported in static kubelet mode")
	}
	optional := b.Optional != nil && *b.Optional
	var anchors []byte
	var err error
	switch {
	case b.Name != nil:
		anchors, err = s.TrustBundles.ByName(*b.Name, optional)
	case b.SignerName != nil:
		anchors, err = s.TrustBundles.BySigner(*b.SignerName, b.LabelSelector, optional)
	default:
		err = errors.New("ClusterTrustBundle projection requires either name or signerName to be set")
	}
	if err != nil {
		return true, err
	}
	return true, files.put(b.Path, v.private(anchors, mode))
}
