package predicates

import (
	"maps"
	"slices"
	"strings"

	"github.com/planekit/planekit/schedule"
	corev1 "k8s.io/api/core/v1"
)

// Fit refuses nodes without enough of a resource that the pod requests, or without room for another
// pod. The reasons name all of them.
func Fit() schedule.Predicate { return FitIgnoring(Ignored{}) }

// Ignored are extended resources of which a node need not have enough, because another component looks after
// them. Other resources, such as cpu, are never ignored.
type Ignored struct {
	// Names are the names of resources, and Groups the parts of names before the slash.
	Names, Groups []string
}

// has reports whether a resource is ignored.
func (i Ignored) has(name corev1.ResourceName) bool {
	group, _, extended := strings.Cut(string(name), "/")
	if !extended || strings.HasSuffix(group, "kubernetes.io") || strings.HasPrefix(group, corev1.DefaultResourceRequestsPrefix) {
		return false
	}
	return slices.Contains(i.Names, string(name)) || slices.Contains(i.Groups, group)
}

// FitIgnoring is Fit without some extended resources.
func FitIgnoring(ignored Ignored) schedule.Predicate {
	return compiled{"NodeResourcesFit", nodesAndDepartures, func(p *schedule.PodInfo) func(*schedule.NodeInfo) schedule.Verdict {
		extended := slices.DeleteFunc(slices.Sorted(maps.Keys(p.Requests.Extended)), ignored.has)
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
