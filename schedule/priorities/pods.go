package priorities

import (
	"maps"
	"math"
	"slices"

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
		for t := range c.Terms(schedule.Preferred) {
			weights.addTerm(t, t.Weight, p, c)
		}
		if hard != 0 {
			for t := range c.Terms(schedule.Required) {
				weights.addTerm(t, hard, p, c)
			}
		}
		if p.Affinity != nil {
			for i := range p.Affinity.Preferred {
				weights.addPods(&p.Affinity.Preferred[i], c)
			}
		}
		if len(weights) == 0 {
			return nil
		}
		return weights.sum()
	}, overRange}
}

// domainWeights holds the weights of domains by the key of their topology.
type domainWeights map[string]*domainWeight

// domainWeight holds the weight of each domain of one topology.
type domainWeight struct {
	topology *schedule.Topology
	weights  []int64
}

// in returns the weights of a topology.
func (d domainWeights) in(key string, c schedule.Cluster) *domainWeight {
	if d[key] == nil {
		t := c.Topology(key)
		d[key] = &domainWeight{t, make([]int64, t.Size())}
	}
	return d[key]
}

// addTerm adds weight to the domains of each pod with a term, if the term matches the new pod.
func (d domainWeights) addTerm(t *schedule.TermCount, weight int64, p *schedule.PodInfo, c schedule.Cluster) {
	if !t.Matches(p.Pod, c) {
		return
	}
	w := d.in(t.TopologyKey, c)
	for domain, pods := range t.In(w.topology) {
		w.weights[domain] += weight * int64(pods)
	}
}

// addPods adds the weight of a term to the domains of each pod that it matches.
func (d domainWeights) addPods(t *schedule.AffinityTerm, c schedule.Cluster) {
	w := d.in(t.TopologyKey, c)
	if t.NamespaceSelector == nil {
		for _, namespace := range t.Namespaces {
			for domain, m := range c.Count(namespace, t.Selector).In(w.topology) {
				w.weights[domain] += t.Weight * int64(m.Pods)
			}
		}
		return
	}
	for n := range c.Nodes() {
		domain, ok := w.topology.Domain(n)
		if !ok {
			continue
		}
		for _, other := range n.Pods {
			if t.Matches(other.Pod, c) {
				w.weights[domain] += t.Weight
			}
		}
	}
}

// sum returns the sum of the weights of a node's domains.
func (d domainWeights) sum() func(*schedule.NodeInfo) int64 {
	all := slices.Collect(maps.Values(d))
	return func(n *schedule.NodeInfo) int64 {
		var sum int64
		for _, w := range all {
			if domain, ok := w.topology.Domain(n); ok {
				sum += w.weights[domain]
			}
		}
		return sum
	}
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
		partial := own && !spread.AllHaveKeys(list, c)
		return func(n *schedule.NodeInfo) int64 {
			if partial && !spread.HaveKeys(list, n.Node) {
				return ignored
			}
			var sum float64
			for i := range tallies {
				if domain, ok := tallies[i].topology.Domain(n); ok {
					sum += float64(tallies[i].pods(n, domain))*tallies[i].weight + float64(list[i].MaxSkew-1)
				}
			}
			return int64(math.Round(sum))
		}
	}, fewestInDomain}
}

// tally holds the pods in the domains of one constraint.
type tally struct {
	topology *schedule.Topology
	pods     func(n *schedule.NodeInfo, domain int) int64
	// weight lets a constraint with few domains count as much as one with many.
	weight float64
}

// newTally counts the pods in the domains that nodes are in.
func newTally(constraint *spread.Constraint, all []spread.Constraint, own bool, nodes []*schedule.NodeInfo, c schedule.Cluster) tally {
	t := tally{topology: c.Topology(constraint.Key)}
	if constraint.Key == corev1.LabelHostname {
		on := constraint.On(t.topology, c)
		t.pods = func(n *schedule.NodeInfo, _ int) int64 { return on(n) }
		t.weight = logOf(countWithKeys(all, own, nodes, c))
		return t
	}
	keys := all
	if !own {
		keys = nil
	}
	pods, _ := constraint.In(t.topology, keys, c)
	t.pods = func(_ *schedule.NodeInfo, domain int) int64 { return pods[domain] }
	t.weight = logOf(countDomains(t.topology, all, own, nodes, c))
	return t
}

// countWithKeys returns how many nodes have the labels of all constraints; all if they need not.
func countWithKeys(all []spread.Constraint, own bool, nodes []*schedule.NodeInfo, c schedule.Cluster) int {
	if !own || spread.AllHaveKeys(all, c) {
		return len(nodes)
	}
	size := 0
	for _, n := range nodes {
		if spread.HaveKeys(all, n.Node) {
			size++
		}
	}
	return size
}

// countDomains returns in how many domains the nodes are that have the labels of all constraints. If they need
// not, those without the label are a domain too.
func countDomains(t *schedule.Topology, all []spread.Constraint, own bool, nodes []*schedule.NodeInfo, c schedule.Cluster) int {
	partial := own && !spread.AllHaveKeys(all, c)
	in, size, unlabeled := make([]bool, t.Size()), 0, 0
	for _, n := range nodes {
		if partial && !spread.HaveKeys(all, n.Node) {
			continue
		}
		domain, ok := t.Domain(n)
		switch {
		case !ok:
			unlabeled = 1
		case !in[domain]:
			in[domain] = true
			size++
		}
	}
	return size + unlabeled
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
