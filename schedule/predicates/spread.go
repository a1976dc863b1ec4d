package predicates

import (
	"math"

	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/internal/spread"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// TopologySpread refuses nodes on which a pod would break one of its topology spread constraints with
// DoNotSchedule. defaults are for pods without constraints.
func TopologySpread(defaults schedule.SpreadDefaults) schedule.Predicate {
	return topologySpread{defaults}
}

type topologySpread struct{ defaults schedule.SpreadDefaults }

var (
	uneven    = schedule.Refuse("node(s) didn't match pod topology spread constraints")
	unlabeled = schedule.RefuseAlways("node(s) didn't match pod topology spread constraints (missing required label)")
)

func (topologySpread) Name() string { return "PodTopologySpread" }

// ForClass implements [schedule.ClassPredicate]. The default constraints depend on labels and the controller.
func (topologySpread) ForClass(*schedule.PodInfo) bool { return true }

// Filter implements [schedule.Predicate]. Of one node alone nothing can be said.
func (topologySpread) Filter(*schedule.PodInfo, *schedule.NodeInfo) schedule.Verdict {
	return schedule.Fits
}

// Compile implements [schedule.Compiler].
func (topologySpread) Compile(*schedule.PodInfo) func(*schedule.NodeInfo) schedule.Verdict {
	return nil
}

// Prepare implements [schedule.Preparer].
func (s topologySpread) Prepare(p *schedule.PodInfo, c schedule.Cluster) func(*schedule.NodeInfo) schedule.Verdict {
	list, _ := spread.Of(p.Pod, corev1.DoNotSchedule, s.defaults)
	if len(list) == 0 {
		return nil
	}
	domains := make([]skew, len(list))
	for i := range list {
		domains[i] = newSkew(p, &list[i], list, c)
	}
	return func(n *schedule.NodeInfo) schedule.Verdict {
		for i := range domains {
			domain, ok := domains[i].topology.Domain(n)
			switch {
			case !ok:
				return unlabeled
			case domains[i].pods[domain] > domains[i].most:
				return uneven
			}
		}
		return schedule.Fits
	}
}

// skew says which domains of a constraint have room for a pod.
type skew struct {
	topology *schedule.Topology
	pods     []int64 // by domain
	most     int64   // the pods that a domain may have before the new one comes
}

func newSkew(p *schedule.PodInfo, constraint *spread.Constraint, all []spread.Constraint, c schedule.Cluster) skew {
	s := skew{topology: c.Topology(constraint.Key)}
	var counts []bool
	s.pods, counts = constraint.In(s.topology, all, c)
	least, domains := int64(math.MaxInt32), 0
	for domain, pods := range s.pods {
		if counts[domain] {
			least = min(least, pods)
			domains++
		}
	}
	if domains < constraint.MinDomains {
		least = 0
	}
	s.most = least + constraint.MaxSkew
	if constraint.Selector.Matches(labels.Set(p.Pod.Labels)) {
		s.most--
	}
	return s
}

// Wakes implements [schedule.Waker]: nodes, and pods that a constraint counts.
func (s topologySpread) Wakes(p *schedule.PodInfo, e schedule.Event) bool {
	if nodes(e) {
		return true
	}
	old, now, ok := schedule.Changed[*schedule.PodInfo](e)
	if !ok {
		return false
	}
	list, _ := spread.Of(p.Pod, corev1.DoNotSchedule, s.defaults)
	for _, other := range []*schedule.PodInfo{old, now} {
		if other == nil || other.Pod.Namespace != p.Pod.Namespace {
			continue
		}
		for i := range list {
			if list[i].Selector.Matches(labels.Set(other.Pod.Labels)) {
				return true
			}
		}
	}
	return false
}
