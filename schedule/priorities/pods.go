package priorities

import (
	"math"

	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/internal/spread"
	corev1 "k8s.io/api/core/v1"
)

// hardAffinityWeight is the weight of a required affinity of a pod that is on a node, for a pod that it
// would like beside it. The value is kube-scheduler's.
const hardAffinityWeight = 1

// PodAffinity prefers nodes near pods that the pod prefers, or that prefer it, and far from those of
// preferred anti-affinity.
func PodAffinity() schedule.Priority { return PodAffinityWeighted(hardAffinityWeight) }

// PodAffinityWeighted is PodAffinity with the weight, from 0 to 100, of the required affinity of the pods
// that are on nodes: hardPodAffinityWeight in the configuration of the kube-scheduler.
func PodAffinityWeighted(hard int64) schedule.Priority { return podAffinity(hard, false) }

// PodAffinityOwn is PodAffinityWeighted that scores only for pods with preferred affinity or anti-affinity of
// their own: ignorePreferredTermsOfExistingPods in the configuration of the kube-scheduler.
func PodAffinityOwn(hard int64) schedule.Priority { return podAffinity(hard, true) }

func podAffinity(hard int64, own bool) schedule.Priority {
	return survey{"InterPodAffinity", func(p *schedule.PodInfo, c schedule.Cluster, _ []*schedule.NodeInfo) func(*schedule.NodeInfo) int64 {
		if own && (p.Affinity == nil || len(p.Affinity.Preferred) == 0) {
			return nil
		}
		weights := make(domainWeights)
		for other, n := range c.PodsWithAffinity() {
			weights.add(other.Affinity.Preferred, 0, p, n, c)
			weights.add(other.Affinity.Required, hard, p, n, c)
		}
		if p.Affinity != nil && len(p.Affinity.Preferred) > 0 {
			for n := range c.Nodes() {
				for _, other := range n.Pods {
					weights.add(p.Affinity.Preferred, 0, other, n, c)
				}
			}
		}
		if len(weights) == 0 {
			return nil
		}
		return weights.of
	}, overRange}
}

// domainWeights holds the weights of domains, by label and value.
type domainWeights map[string]map[string]int64

// add adds the weights of the terms that match pod to the domains of a node. Terms without a weight have
// that of hard.
func (d domainWeights) add(terms []schedule.AffinityTerm, hard int64, pod *schedule.PodInfo, n *schedule.NodeInfo, c schedule.Cluster) {
	for i := range terms {
		t := &terms[i]
		value, ok := n.Node.Labels[t.TopologyKey]
		weight := t.Weight + hard
		if !ok || weight == 0 || !t.Matches(pod.Pod, c) {
			continue
		}
		if d[t.TopologyKey] == nil {
			d[t.TopologyKey] = make(map[string]int64)
		}
		d[t.TopologyKey][value] += weight
	}
}

// of returns the sum of the weights of a node's domains.
func (d domainWeights) of(n *schedule.NodeInfo) int64 {
	var sum int64
	for key, values := range d {
		if value, ok := n.Node.Labels[key]; ok {
			sum += values[value]
		}
	}
	return sum
}

// overRange makes the lowest score 0 and the highest MaxScore.
func overRange(scores []int64) {
	low, high := int64(math.MaxInt64), int64(math.MinInt64)
	for _, score := range scores {
		low, high = min(low, score), max(high, score)
	}
	for i := range scores {
		if high == low {
			scores[i] = 0
		} else {
			scores[i] = int64(schedule.MaxScore * (float64(scores[i]-low) / float64(high-low)))
		}
	}
}

// ignored is the score of a node that constraints say nothing about.
const ignored = -1

// TopologySpread prefers nodes in domains with few pods that the topology spread constraints with
// ScheduleAnyway count. defaults are for pods without constraints.
func TopologySpread(defaults schedule.SpreadDefaults) schedule.Priority {
	return survey{"PodTopologySpread", func(p *schedule.PodInfo, c schedule.Cluster, nodes []*schedule.NodeInfo) func(*schedule.NodeInfo) int64 {
		list, own := spread.Of(p.Pod, corev1.ScheduleAnyway, defaults)
		if len(list) == 0 {
			return nil
		}
		tallies := make([]tally, len(list))
		for i := range list {
			tallies[i] = newTally(&list[i], list, own, nodes, c)
		}
		return func(n *schedule.NodeInfo) int64 {
			if own && !spread.HaveKeys(list, n.Node) {
				return ignored
			}
			var sum float64
			for i := range tallies {
				if domain, ok := n.Node.Labels[list[i].Key]; ok {
					sum += float64(tallies[i].pods(n, domain))*tallies[i].weight + float64(list[i].MaxSkew-1)
				}
			}
			return int64(math.Round(sum))
		}
	}, fewestInDomain}
}

// tally holds the pods in the domains of one constraint.
type tally struct {
	pods func(n *schedule.NodeInfo, domain string) int64
	// weight lets a constraint with few domains count as much as one with many.
	weight float64
}

// newTally counts the pods in the domains that nodes are in.
func newTally(constraint *spread.Constraint, all []spread.Constraint, own bool, nodes []*schedule.NodeInfo, c schedule.Cluster) tally {
	on := constraint.Pods(c)
	if constraint.Key == corev1.LabelHostname {
		size := 0
		for _, n := range nodes {
			if !own || spread.HaveKeys(all, n.Node) {
				size++
			}
		}
		return tally{func(n *schedule.NodeInfo, _ string) int64 { return on(n) }, logOf(size)}
	}
	domains := make(map[string]int64)
	for _, n := range nodes {
		if !own || spread.HaveKeys(all, n.Node) {
			domains[n.Node.Labels[constraint.Key]] = 0
		}
	}
	for n := range c.Nodes() {
		domain := n.Node.Labels[constraint.Key]
		if _, wanted := domains[domain]; wanted && (!own || spread.HaveKeys(all, n.Node)) && constraint.Counts(n.Node) {
			domains[domain] += on(n)
		}
	}
	return tally{func(_ *schedule.NodeInfo, domain string) int64 { return domains[domain] }, logOf(len(domains))}
}

func logOf(domains int) float64 { return math.Log(float64(domains + 2)) }

// fewestInDomain makes the lowest score MaxScore, and scores of nodes that are ignored 0.
func fewestInDomain(scores []int64) {
	low, high := int64(math.MaxInt64), int64(0)
	for _, score := range scores {
		if score != ignored {
			low, high = min(low, score), max(high, score)
		}
	}
	for i, score := range scores {
		switch {
		case score == ignored:
			scores[i] = 0
		case high == 0:
			scores[i] = schedule.MaxScore
		default:
			scores[i] = schedule.MaxScore * (high + low - score) / high
		}
	}
}
