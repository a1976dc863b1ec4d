// Package apps describes the kinds of the API group apps to an API server:
// how each is defaulted, validated, changed, shown in a table and selected.
//
//	config.Resources = append(config.Resources, apps.Resources()...)
//
// Package reconcile/controllers acts on the objects.
package apps

import "github.com/planekit/planekit/apiserver"

// Resources returns the kinds of the group. The slice belongs to the caller.
func Resources() []apiserver.Resource {
	return []apiserver.Resource{
		ControllerRevisions(),
		DaemonSets(),
		Deployments(),
		ReplicaSets(),
		StatefulSets(),
	}
}
