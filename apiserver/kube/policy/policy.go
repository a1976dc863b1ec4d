// Package policy describes the kinds of the API group policy to an API server:
// how each is defaulted, validated, changed, shown in a table and selected.
//
//	config.Resources = append(config.Resources, policy.Resources()...)
//
// The eviction of a pod, which a budget limits, is a subresource in package core.
package policy

import "github.com/planekit/planekit/apiserver"

// Resources returns the kinds of the group. The slice belongs to the caller.
func Resources() []apiserver.Resource {
	return []apiserver.Resource{
		PodDisruptionBudgets(),
	}
}
