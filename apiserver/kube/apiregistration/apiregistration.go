// Package apiregistration describes the kinds of the API group apiregistration.k8s.io to an API server:
// how each is defaulted, validated, changed, shown in a table and selected.
//
//	config.Resources = append(config.Resources, apiregistration.Resources()...)
//
// Package apiserver/aggregate acts on the objects.
package apiregistration

import "github.com/planekit/planekit/apiserver"

// Resources returns the kinds of the group. The slice belongs to the caller.
func Resources() []apiserver.Resource {
	return []apiserver.Resource{
		APIServices(),
	}
}
