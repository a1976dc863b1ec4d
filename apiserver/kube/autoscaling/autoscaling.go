// Package autoscaling describes the kinds of the API group autoscaling to an API server: how each is
// defaulted, validated, changed, shown in a table and converted between its versions.
//
//	config.Resources = append(config.Resources, autoscaling.Resources()...)
//
// HorizontalPodAutoscalers are stored in v2 and served in v1 too. What v1 has no field for is kept in
// annotations, as in kube-apiserver.
package autoscaling

import "github.com/planekit/planekit/apiserver"

// Resources returns the kinds of the group. The slice belongs to the caller.
func Resources() []apiserver.Resource {
	return []apiserver.Resource{
		HorizontalPodAutoscalers(),
	}
}
