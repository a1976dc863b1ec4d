// Package events describes the kinds of the API group events.k8s.io to an API server:
// how each is defaulted, validated, changed, shown in a table and selected.
//
//	config.Resources = append(config.Resources, events.Resources()...)
//
// Its Events are those of the core group in another shape: both groups serve the same stored objects.
package events

import "github.com/planekit/planekit/apiserver"

// Resources returns the kinds of the group. The slice belongs to the caller.
func Resources() []apiserver.Resource {
	return []apiserver.Resource{
		Events(),
	}
}
