package policy

import (
	"time"

	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/predicates"
	"github.com/planekit/planekit/schedule/priorities"
	corev1 "k8s.io/api/core/v1"
)

// arguments are the arguments of all plugins of one profile.
type arguments struct {
	// ignored are the resources that NodeResourcesFit does not look at.
	ignored predicates.Ignored
	// strategy is how NodeResourcesFit, or RequestedToCapacityRatio, scores.
	strategy strategy
	// balanced are the resources of NodeResourcesBalancedAllocation; none means cpu and memory.
	balanced []priorities.Resource
	// enforced and preferred are the added affinity of NodeAffinity.
	enforced  *corev1.NodeSelector
	preferred []corev1.PreferredSchedulingTerm
	// hardWeight and onlyOwn are those of InterPodAffinity: see priorities.PodAffinityOwn.
	hardWeight int64
	onlyOwn    bool
	// constraints are the default ones of PodTopologySpread; nil means those of Kubernetes.
	constraints []corev1.TopologySpreadConstraint
	// bindTimeout is how long VolumeBinding waits.
	bindTimeout time.Duration
	// labels are the labels that a Policy names.
	labels nodeLabels
}

// nodeLabels are the labels of nodes that the arguments of a Policy name, in the order of the file.
type nodeLabels struct {
	// present must be on a node, and absent must not. A node is better with one of likes and without one of
	// dislikes.
	present, absent, likes, dislikes []string
	// together are the labels whose values the pods of a service share, and apart those by which they spread.
	together, apart []string
}

// defaultArguments returns Kubernetes' defaults.
func defaultArguments() arguments {
	return arguments{strategy: strategy{kind: leastAllocated}, hardWeight: 1, bindTimeout: 10 * time.Minute}
}

// spread returns the constraints of pods that have none.
func (a *arguments) spread(parts *Parts) schedule.SpreadDefaults {
	return schedule.SpreadDefaults{Constraints: a.constraints, Selector: parts.Together}
}

// The kinds of strategies.
const (
	leastAllocated           = "LeastAllocated"
	mostAllocated            = "MostAllocated"
	requestedToCapacityRatio = "RequestedToCapacityRatio"
)

// strategy is how nodes are scored by what is requested of them.
type strategy struct {
	kind string
	// resources may be empty: cpu and memory.
	resources []priorities.Resource
	// shape is for requestedToCapacityRatio.
	shape []priorities.Point
}

func (s *strategy) priority() schedule.Priority {
	switch s.kind {
	case mostAllocated:
		return priorities.MostAllocated(s.resources...)
	case requestedToCapacityRatio:
		return priorities.RequestedToCapacityRatio(s.shape, s.resources...)
	}
	return priorities.LeastAllocated(s.resources...)
}
