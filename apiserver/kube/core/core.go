// Package core describes the kinds of the core API group to an API server: how each is
// defaulted, validated, changed, shown in a table and selected.
//
//	config.Resources = append(config.Resources, core.Resources(core.Config{})...)
//
// A service gets its cluster IPs and node ports from the ranges of [Config] when it is stored.
// [apiserver.Allocation] describes how two servers never give the same one twice. The addresses are
// not shown as IPAddress objects.
//
// All functions are pure, except that of an eviction, which changes a PodDisruptionBudget.
package core

import "github.com/planekit/planekit/apiserver"

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
