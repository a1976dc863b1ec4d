// Package scheduling describes the kinds of the API group scheduling.k8s.io to an API server:
// how each is defaulted, validated, changed, shown in a table and selected.
//
//	config.Resources = append(config.Resources, scheduling.Resources()...)
//
// [SystemPriorityClasses] are those that every cluster begins with.
package scheduling

import "github.com/planekit/planekit/apiserver"

// Resources returns the kinds of the group. The slice belongs to the caller.
func Resources() []apiserver.Resource {
	return []apiserver.Resource{
		PriorityClasses(),
	}
}
