// Package batch describes the kinds of the API group batch to an API server:
// how each is defaulted, validated, changed, shown in a table and selected.
//
//	config.Resources = append(config.Resources, batch.Resources()...)
//
// A job's selector is made of its UID and its name: both must be set before
// PrepareForCreate runs.
package batch

import "github.com/planekit/planekit/apiserver"

// Resources returns the kinds of the group. The slice belongs to the caller.
func Resources() []apiserver.Resource {
	return []apiserver.Resource{
		CronJobs(),
		Jobs(),
	}
}
