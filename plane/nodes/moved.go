package nodes

import (
	"context"
	"net/netip"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/plane"
)

// DeleteMoved deletes the Nodes whose range of pod addresses is outside pods. The range of a Node cannot
// be changed: its kubelet registers it again. Call it before Start when plane.Config.PodCIDR is another
// than in the last run on the same store.
func DeleteMoved(ctx context.Context, p *plane.Plane, pods netip.Prefix) error {
	nodes := typed.Nodes(p.Client())
	list, _, err := nodes.List(ctx, "", metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, node := range list {
		own, err := netip.ParsePrefix(node.Spec.PodCIDR)
		if err != nil || pods.Contains(own.Addr()) {
			continue
		}
		if err := nodes.Delete(ctx, "", node.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}
