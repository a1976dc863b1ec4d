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
	return resourcesFit{compiled{"NodeResourcesFit", nodesAndDepartures, func(p *schedule.PodInfo) func(*schedule.NodeInfo) schedule.Verdict {
		extended := ignored.without(p)
		return func(n *schedule.NodeInfo) schedule.Verdict { return fit(p, n, extended) }
	}}, ignored}
}

// without returns the extended resources of a pod that are not ignored.
func (i Ignored) without(p *schedule.PodInfo) []corev1.ResourceName {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(p.Requests.Extended)), i.has)
}

// resourcesFit is the predicate of FitIgnoring.
type resourcesFit struct {
	compiled
	ignored Ignored
}

// MeasureShortage implements [schedule.Measurer]. It does not say how many pods must leave.
func (f resourcesFit) MeasureShortage(p *schedule.PodInfo) func(*schedule.NodeInfo) schedule.Resources {
	extended := f.ignored.without(p)
	return func(n *schedule.NodeInfo) (short schedule.Resources) {
		short.MilliCPU = missing(p.Requests.MilliCPU, n.Allocatable.MilliCPU, n.Requested.MilliCPU)
		short.Memory = missing(p.Requests.Memory, n.Allocatable.Memory, n.Requested.Memory)
		short.EphemeralStorage = missing(p.Requests.EphemeralStorage, n.Allocatable.EphemeralStorage, n.Requested.EphemeralStorage)
		for _, name := range extended {
			if less := missing(p.Requests.Extended[name], n.Allocatable.Extended[name], n.Requested.Extended[name]); less > 0 {
				if short.Extended == nil {
					short.Extended = make(map[corev1.ResourceName]int64)
				}
				short.Extended[name] = less
			}
		}
		return short
	}
}

// missing returns how much of a resource must become free. A resource that is not requested is never missing.
func missing(want, all, taken int64) int64 {
	if want <= 0 {
		return 0
	}
	return max(0, want-(all-taken))
}

// What a node may have too little of, as bits.
const (
	shortOfPods = 1 << iota
	shortOfCPU
	shortOfMemory
	shortOfStorage
	shortages
)

// reasonsOf holds the reasons by the bits of what is short. They are made once, because most nodes of a busy
// cluster are refused for one of them.
var reasonsOf = func() (all [shortages][]string) {
	names := []string{"Too many pods", "Insufficient cpu", "Insufficient memory", "Insufficient ephemeral-storage"}
	for bits := range all {
		for i, name := range names {
			if bits&(1<<i) != 0 {
				all[bits] = append(all[bits], name)
			}
		}
	}
	return all
}()

func fit(p *schedule.PodInfo, n *schedule.NodeInfo, extended []corev1.ResourceName) schedule.Verdict {
	short, lasting := 0, false
	if int64(len(n.Pods))+1 > n.AllocatablePods {
		short = shortOfPods
	}
	check := func(bit int, want, all, taken int64) {
		// A resource that is not requested is never short, even on an overcommitted node.
		if want > 0 && want > all-taken {
			short |= bit
			lasting = lasting || want > all
		}
	}
	check(shortOfCPU, p.Requests.MilliCPU, n.Allocatable.MilliCPU, n.Requested.MilliCPU)
	check(shortOfMemory, p.Requests.Memory, n.Allocatable.Memory, n.Requested.Memory)
	check(shortOfStorage, p.Requests.EphemeralStorage, n.Allocatable.EphemeralStorage, n.Requested.EphemeralStorage)
	v := schedule.Verdict{Reasons: reasonsOf[short]}
	for _, name := range extended {
		want, all := p.Requests.Extended[name], n.Allocatable.Extended[name]
		if want > 0 && want > all-n.Requested.Extended[name] {
			v.Reasons = append(slices.Clip(v.Reasons), "Insufficient "+string(name))
			lasting = lasting || want > all
		}
	}
	v.Lasting = lasting
	return v
}
