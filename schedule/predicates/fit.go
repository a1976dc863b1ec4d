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
	var short []string
	if int64(len(n.Pods))+1 > n.AllocatablePods {
		short = append(short, "Too many pods")
	}
	// A resource that is not requested is never short, even on an overcommitted node.
	lacks := func(want, all, taken int64) bool { return want > 0 && want > all-taken }
	if lacks(p.Requests.MilliCPU, n.Allocatable.MilliCPU, n.Requested.MilliCPU) {
		short = append(short, "Insufficient cpu")
	}
	if lacks(p.Requests.Memory, n.Allocatable.Memory, n.Requested.Memory) {
		short = append(short, "Insufficient memory")
	}
	if lacks(p.Requests.EphemeralStorage, n.Allocatable.EphemeralStorage, n.Requested.EphemeralStorage) {
		short = append(short, "Insufficient ephemeral-storage")
	}
	for _, name := range extended {
		if lacks(p.Requests.Extended[name], n.Allocatable.Extended[name], n.Requested.Extended[name]) {
			short = append(short, "Insufficient "+string(name))
		}
	}
	return schedule.Refuse(short...)
}
