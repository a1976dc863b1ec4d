// Package networking describes the kinds of the API group networking.k8s.io to an API server:
// how each is defaulted, validated, changed, shown in a table and selected.
//
//	config.Resources = append(config.Resources, networking.Resources()...)
//
// The addresses of services are IPAddresses of ServiceCIDRs; package core describes how a service gets
// one.
package networking

import "github.com/planekit/planekit/apiserver"

// Resources returns the kinds of the group. The slice belongs to the caller.
func Resources() []apiserver.Resource {
	return []apiserver.Resource{
		IngressClasses(),
		Ingresses(),
		IPAddresses(),
		NetworkPolicies(),
		ServiceCIDRs(),
	}
}
