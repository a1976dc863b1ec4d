// Package discovery describes the kinds of the API group discovery.k8s.io to an API server:
// how each is defaulted, validated, changed, shown in a table and selected.
//
//	config.Resources = append(config.Resources, discovery.Resources()...)
//
// Package reconcile/controllers writes the objects for services with a selector.
package discovery

import "github.com/planekit/planekit/apiserver"

// Resources returns the kinds of the group. The slice belongs to the caller.
func Resources() []apiserver.Resource {
	return []apiserver.Resource{
		EndpointSlices(),
	}
}
