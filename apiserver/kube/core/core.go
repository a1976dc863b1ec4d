// Package core describes the kinds of the core API group to an API server: how each is
// defaulted, validated, changed, shown in a table and selected.
//
//	config.Resources = append(config.Resources, core.Resources(core.Config{})...)
//
// A service gets its cluster IPs and node ports from the ranges of [Config] when it is stored.
// [apiserver.Allocation] describes how two servers never give the same one twice. If package
// networking is served too, each address is an IPAddress, and addresses come from all ServiceCIDRs
// that are ready. The ServiceCIDR kubernetes takes the place of the configured range.
//
// All functions are pure, except that of an eviction, which changes a PodDisruptionBudget.
package core

import (
	"net/netip"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/service"
)

// Config describes a cluster to the resources. Zero is useful.
type Config struct {
	// ServiceCIDRs are the ranges of cluster IPs, at most one of each IP family. Services
	// without a preference use the first. Empty means 10.96.0.0/12, as with kubeadm.
	ServiceCIDRs []netip.Prefix
	// NodePorts is the range of node ports. Zero means 30000 to 32767.
	NodePorts PortRange
}

// PortRange is from First to Last, both included.
type PortRange struct{ First, Last int32 }

// Services returns the resource of the kind Service, which allocates from the ranges of c.
func Services(c Config) apiserver.Resource {
	return service.Resource(service.Config{CIDRs: c.ServiceCIDRs, NodePorts: service.PortRange(c.NodePorts)})
}

// Resources returns the kinds of the group. The slice belongs to the caller.
func Resources(c Config) []apiserver.Resource {
	return []apiserver.Resource{
		ConfigMaps(),
		Endpoints(),
		Events(),
		LimitRanges(),
		Namespaces(),
		Nodes(),
		PersistentVolumeClaims(),
		PersistentVolumes(),
		Pods(),
		PodTemplates(),
		ReplicationControllers(),
		ResourceQuotas(),
		Secrets(),
		ServiceAccounts(),
		Services(c),
	}
}
