// Package priorities contains priorities with the formulas of the kube-scheduler's scores.
//
//	schedule.Config{Priorities: priorities.Default()}
//
// All are stateless and safe for concurrent use.
package priorities

import (
	"github.com/planekit/planekit/schedule"
	corev1 "k8s.io/api/core/v1"
)

// Default returns the priorities of the kube-scheduler's default profile, with its weights.
func Default() []schedule.Weighted { return DefaultSpreading(schedule.SpreadDefaults{}) }

// DefaultSpreading is Default with topology spread constraints for pods that have none.
func DefaultSpreading(defaults schedule.SpreadDefaults) []schedule.Weighted {
	return []schedule.Weighted{
		{Priority: Taints(), Weight: 3},
		{Priority: NodeAffinity(), Weight: 2},
		{Priority: LeastAllocated(), Weight: 1},
		{Priority: TopologySpread(defaults), Weight: 2},
		{Priority: PodAffinity(), Weight: 2},
		{Priority: BalancedAllocation(), Weight: 1},
		{Priority: ImageLocality(), Weight: 1},
	}
}

// survey is a priority that first looks at the pod, and at the cluster if it must.
type survey struct {
	name string
	// score returns nil if all nodes are alike.
	score     func(*schedule.PodInfo, schedule.Cluster, []*schedule.NodeInfo) func(*schedule.NodeInfo) int64
	normalize func(scores []int64)
}

func (s survey) Name() string { return s.name }

// Score implements [schedule.Priority]. It is not called: see [schedule.Surveyor].
func (survey) Score(*schedule.PodInfo, *schedule.NodeInfo) int64 { return 0 }

// Survey implements [schedule.Surveyor].
func (s survey) Survey(p *schedule.PodInfo, c schedule.Cluster, nodes []*schedule.NodeInfo) func(*schedule.NodeInfo) int64 {
	return s.score(p, c, nodes)
}

// Normalize implements [schedule.Normalizer].
func (s survey) Normalize(scores []int64) { s.normalize(scores) }

// byClass is a priority that needs only the pod's class and the node.
type byClass struct {
	name string
	// score returns nil if all nodes are alike.
	score func(*schedule.PodInfo, schedule.Cluster) func(*schedule.NodeInfo) int64
}

func (b byClass) Name() string { return b.name }

// Score implements [schedule.Priority]. A State does not call it: see [schedule.ClassPriority].
func (b byClass) Score(p *schedule.PodInfo, n *schedule.NodeInfo) int64 {
	if score := b.score(p, nil); score != nil {
		return score(n)
	}
	return 0
}

// ScoreClass implements [schedule.ClassPriority].
func (b byClass) ScoreClass(p *schedule.PodInfo, c schedule.Cluster) func(*schedule.NodeInfo) int64 {
	return b.score(p, c)
}

// normalized is a priority by class whose scores are normalised.
type normalized struct {
	byClass
	normalize func(scores []int64)
}

// Normalize implements [schedule.Normalizer].
func (n normalized) Normalize(scores []int64) { n.normalize(scores) }

// asShareOfMost makes the highest score MaxScore.
func asShareOfMost(scores []int64) {
	if most := highest(scores); most > 0 {
		for i := range scores {
			scores[i] = scores[i] * schedule.MaxScore / most
		}
	}
}

// fewestIsBest makes the highest score 0, and 0 MaxScore.
func fewestIsBest(scores []int64) {
	asShareOfMost(scores)
	for i := range scores {
		scores[i] = schedule.MaxScore - scores[i]
	}
}

func highest(scores []int64) int64 {
	var most int64
	for _, score := range scores {
		most = max(most, score)
	}
	return most
}

// preferred returns the preferred node affinity of a pod.
func preferred(pod *corev1.Pod) []corev1.PreferredSchedulingTerm {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return nil
	}
	return pod.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
}
