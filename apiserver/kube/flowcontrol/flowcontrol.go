// Package flowcontrol describes the kinds of the API group flowcontrol.apiserver.k8s.io to an API server:
// how each is defaulted, validated, changed, shown in a table and selected.
//
//	config.Resources = append(config.Resources, flowcontrol.Resources()...)
//
// Package apiserver/flowcontrol acts on the objects.
package flowcontrol

import "github.com/planekit/planekit/apiserver"

// Resources returns the kinds of the group. The slice belongs to the caller.
func Resources() []apiserver.Resource {
	return []apiserver.Resource{
		FlowSchemas(),
		PriorityLevelConfigurations(),
	}
}
