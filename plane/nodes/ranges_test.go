package nodes_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/nodes"
)

// TestRanges checks that nodes for which there is no range of pod addresses are refused, and do not wait
// for one.
func TestRanges(t *testing.T) {
	p, err := plane.New(plane.Config{
		PodCIDR: netip.MustParsePrefix("10.9.0.0/23"), Parts: []plane.Part{nodes.InMemory(t.TempDir(), 3)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "nodes: 3 nodes, but PodCIDR 10.9.0.0/23 has ranges for 2") {
		t.Error(err)
	}
}
