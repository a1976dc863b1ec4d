package nodes_test

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/plane/nodes"
	"github.com/planekit/planekit/plane/planetest"
)

// TestDeleteMoved: Nodes with addresses inside the range stay.
func TestDeleteMoved(t *testing.T) {
	p := planetest.Start(t).Plane
	api := typed.Nodes(p.Client())
	for name, pods := range map[string]string{"moved": "10.1.0.0/24", "here": "10.2.0.0/24"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDR: pods, PodCIDRs: []string{pods}}}
		if _, err := api.Create(t.Context(), node); err != nil {
			t.Fatal(err)
		}
	}
	if err := nodes.DeleteMoved(t.Context(), p, netip.MustParsePrefix("10.2.0.0/16")); err != nil {
		t.Fatal(err)
	}
	left, _, err := api.List(t.Context(), "", metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 1 || left[0].Name != "here" {
		t.Errorf("%d Nodes are left, want the one with addresses in the range", len(left))
	}
}
