package main

import (
	"net/netip"
	"testing"
)

// TestNetworkNotice: the program says where services have no effect.
func TestNetworkNotice(t *testing.T) {
	for _, c := range []struct {
		role, runtime string
		nodes         int
		machines      bool
		want          string
	}{
		{roleAll, "fake", 3, false, simulatedNotice},
		{roleAll, "containerd", 1, false, sharedNotice},
		{roleAll, "containerd", 3, true, ""},
		{roleAll, "containerd", 0, false, ""},
		{roleServer, "fake", 0, false, ""},
		{roleNode, "containerd", 1, false, ""},
		{roleNode, "fake", 1, false, joinedNotice},
	} {
		program := &cluster{options: options{role: c.role, nodes: c.nodes}, runtime: c.runtime}
		if c.machines {
			program.gateway = netip.MustParseAddr("10.199.0.1")
		}
		if got := program.networkNotice(); got != c.want {
			t.Errorf("networkNotice() with role %s, runtime %s, %d nodes, machines %t = %q, want %q",
				c.role, c.runtime, c.nodes, c.machines, got, c.want)
		}
	}
}
