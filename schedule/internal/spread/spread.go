// Package spread has what the predicate and the priority of topology spread constraints share.
// https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/
package spread

import (
	"github.com/planekit/planekit/internal/selector"
	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/internal/nodematch"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Constraint is one topology spread constraint of a pod.
type Constraint struct {
	MaxSkew  int64
	Key      string // the label whose values are the domains
	Selector labels.Selector
	// MinDomains is the number of domains below which a further, empty one is assumed.
	MinDomains int

	pod           *corev1.Pod
	matchesNode   func(*corev1.Node) bool // nil: every node counts
	honoursTaints bool
}

// Of returns the constraints of a pod with the given action. own is true if they are the pod's, or those
// of defaults that were given: then a node counts only if it has the labels of all of them.
func Of(pod *corev1.Pod, action corev1.UnsatisfiableConstraintAction, defaults schedule.SpreadDefaults) (list []Constraint, own bool) {
	if own := pod.Spec.TopologySpreadConstraints; len(own) > 0 {
		if schedule.TooManyTerms(pod) {
			return nil, true // it fits no node
		}
		for i := range own {
			if own[i].WhenUnsatisfiable == action {
				list = append(list, newConstraint(pod, &own[i], selectorOf(pod, &own[i])))
			}
		}
		return list, true
	}
	if defaults.Selector == nil {
		return nil, true
	}
	given, own := defaults.Constraints, defaults.Constraints != nil
	if !own {
		given = builtIn
	}
	var together labels.Selector
	for i := range given {
		if given[i].WhenUnsatisfiable != action {
			continue
		}
		if together == nil {
			if together = defaults.Selector(pod); together == nil || together.Empty() {
				return nil, true
			}
		}
		list = append(list, newConstraint(pod, &given[i], together))
	}
	return list, own
}

// builtIn are the default constraints of Kubernetes.
var builtIn = []corev1.TopologySpreadConstraint{
	{TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, MaxSkew: 3},
	{TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway, MaxSkew: 5},
}

func newConstraint(pod *corev1.Pod, c *corev1.TopologySpreadConstraint, pods labels.Selector) Constraint {
	made := Constraint{MaxSkew: int64(c.MaxSkew), Key: c.TopologyKey, Selector: pods, MinDomains: 1, pod: pod}
	if c.MinDomains != nil {
		made.MinDomains = int(*c.MinDomains)
	}
	if c.NodeAffinityPolicy == nil || *c.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor {
		made.matchesNode = nodematch.Required(&pod.Spec)
	}
	made.honoursTaints = c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor
	return made
}

// selectorOf returns the selector of a constraint, with the pod's values of MatchLabelKeys. A selector
// that is invalid, or missing, selects nothing.
func selectorOf(pod *corev1.Pod, c *corev1.TopologySpreadConstraint) labels.Selector {
	same := labels.Set{}
	for _, key := range c.MatchLabelKeys {
		if value, ok := pod.Labels[key]; ok {
			same[key] = value
		}
	}
	return selector.And(selector.OrNothing(c.LabelSelector), same)
}

// In returns how many pods that do not end, and that the constraint is about, are in each domain of a
// topology, and which domains have a node that counts for it. Only the nodes with the labels of all of keys
// count.
func (c *Constraint) In(t *schedule.Topology, keys []Constraint, cluster schedule.Cluster) (pods []int64, counts []bool) {
	pods, counts = make([]int64, t.Size()), make([]bool, t.Size())
	var matching *schedule.PodCount
	if !c.Selector.Empty() { // as in Kubernetes
		matching = cluster.Count(c.pod.Namespace, c.Selector)
	}
	if c.matchesNode == nil && !c.honoursTaints && (len(keys) < 2 || AllHaveKeys(keys, cluster)) {
		for domain := range counts {
			counts[domain] = true
		}
		if matching != nil {
			for domain, m := range matching.In(t) {
				pods[domain] = int64(m.Pods - m.Ending)
			}
		}
		return pods, counts
	}
	for n := range cluster.Nodes() {
		domain, ok := t.Domain(n)
		if !ok || !HaveKeys(keys, n.Node) || !c.Counts(n.Node) {
			continue
		}
		counts[domain] = true
		if matching != nil {
			m := matching.On(n)
			pods[domain] += int64(m.Pods - m.Ending)
		}
	}
	return pods, counts
}

// On returns how many pods that do not end, and that the constraint is about, are on each node that has the
// label of a topology.
func (c *Constraint) On(t *schedule.Topology, cluster schedule.Cluster) func(*schedule.NodeInfo) int64 {
	if c.Selector.Empty() {
		return func(*schedule.NodeInfo) int64 { return 0 }
	}
	matching := cluster.Count(c.pod.Namespace, c.Selector)
	if t.Size()+t.Unlabeled() != cluster.Size() { // two nodes have the same label
		return func(n *schedule.NodeInfo) int64 {
			m := matching.On(n)
			return int64(m.Pods - m.Ending)
		}
	}
	sums := matching.In(t)
	return func(n *schedule.NodeInfo) int64 {
		domain, _ := t.Domain(n)
		return int64(sums[domain].Pods - sums[domain].Ending)
	}
}

// Counts reports whether the pods on a node count for the constraint.
func (c *Constraint) Counts(n *corev1.Node) bool {
	return (c.matchesNode == nil || c.matchesNode(n)) && (!c.honoursTaints || nodematch.Admits(n, c.pod.Spec.Tolerations))
}

// AllHaveKeys reports whether all nodes have the labels of all constraints.
func AllHaveKeys(list []Constraint, c schedule.Cluster) bool {
	for i := range list {
		if c.Topology(list[i].Key).Unlabeled() > 0 {
			return false
		}
	}
	return true
}

// HaveKeys reports whether a node has the labels of all constraints.
func HaveKeys(list []Constraint, n *corev1.Node) bool {
	for i := range list {
		if _, ok := n.Labels[list[i].Key]; !ok {
			return false
		}
	}
	return true
}
