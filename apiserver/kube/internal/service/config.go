// Package service describes the kind Service to an API server: how it is defaulted, validated, changed
// and shown, and how its cluster IPs and node ports are allocated.
//
//	r := service.Resource(service.Config{})
//
// All functions are pure. [apiserver.Allocation] describes how two servers never give the same address
// or port twice.
package service

import (
	"net/netip"

	"github.com/planekit/planekit/apiserver/kube/internal/check"
	corev1 "k8s.io/api/core/v1"
)

// Config has the ranges that services allocate from. Zero is useful.
type Config struct {
	// CIDRs are the ranges of cluster IPs, at most one of each IP family. Services without a
	// preference use the first. Empty means 10.96.0.0/12, as with kubeadm.
	CIDRs []netip.Prefix
	// NodePorts is the range of node ports. Zero means 30000 to 32767.
	NodePorts PortRange
}

// PortRange is from First to Last, both included.
type PortRange struct{ First, Last int32 }

func (c Config) withDefaults() Config {
	if len(c.CIDRs) == 0 {
		c.CIDRs = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}
	}
	if c.NodePorts == (PortRange{}) {
		c.NodePorts = PortRange{30000, 32767}
	}
	return c
}

// cidr returns the range of a family, the zero Prefix where there is none.
func (c Config) cidr(family corev1.IPFamily) netip.Prefix {
	for _, p := range c.CIDRs {
		if check.FamilyOf(p.Addr().String()) == family {
			return p
		}
	}
	return netip.Prefix{}
}
