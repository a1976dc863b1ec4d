package predicates

import (
	"maps"
	"slices"

	"github.com/planekit/planekit/schedule"
	corev1 "k8s.io/api/core/v1"
)

// Fit refuses nodes without enough of a resource that the pod requests, or without room for another
// pod. The reasons name all of them.
func Fit() schedule.Predicate {
	return compiled{"NodeResourcesFit", nodesAndDepartures, func(p *schedule.PodInfo) func(*schedule.NodeInfo) schedule.Verdict {
		extended := slices.Sorted(maps.Keys(p.Requests.Extended))
		return func(n *schedule.NodeInfo) schedule.Verdict { return fit(p, n, extended) }
	}}
}

func fit(p *schedule.PodInfo, n *schedule.NodeInfo, extended []corev1.ResourceName) schedule.Verdict {
	var v schedule.Verdict
	if int64(len(n.Pods))+1 > n.AllocatablePods {
		v.Reasons = append(v.Reasons, "Too many pods")
	}
	check := func(name corev1.ResourceName, want, all, taken int64) {
		// A resource that is not requested is never short, even on an overcommitted node.
		if want > 0 && want > all-taken {
			v.Reasons = append(v.Reasons, "Insufficient "+string(name))
			v.Lasting = v.Lasting || want > all
		}
	}
	check(corev1.ResourceCPU, p.Requests.MilliCPU, n.Allocatable.MilliCPU, n.Requested.MilliCPU)
	check(corev1.ResourceMemory, p.Requests.Memory, n.Allocatable.Memory, n.Requested.Memory)
	check(corev1.ResourceEphemeralStorage, p.Requests.EphemeralStorage, n.Allocatable.EphemeralStorage, n.Requested.EphemeralStorage)
	for _, name := range extended {
		check(name, p.Requests.Extended[name], n.Allocatable.Extended[name], n.Requested.Extended[name])
	}
	return v
}
