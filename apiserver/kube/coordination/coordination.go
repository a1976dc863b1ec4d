// Package coordination describes the kinds of the API group coordination.k8s.io to an API server:
// how each is defaulted, validated, changed, shown in a table and selected.
//
//	config.Resources = append(config.Resources, coordination.Resources()...)
//
// Leases have no status: their holders write the spec.
package coordination

import "github.com/planekit/planekit/apiserver"

// Resources returns the kinds of the group. The slice belongs to the caller.
func Resources() []apiserver.Resource {
	return []apiserver.Resource{
		Leases(),
	}
}
