package predicates

import (
	"slices"

	"github.com/planekit/planekit/schedule"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// PodAffinity refuses nodes on which a pod would break its required affinity or anti-affinity to other
// pods, or the required anti-affinity of a pod that is there already.
func PodAffinity() schedule.Predicate { return podAffinity{} }

type podAffinity struct{}

// The order is that in which a node is checked, as in Kubernetes.
var (
	apartFromWanted  = schedule.RefuseAlways("node(s) didn't match pod affinity rules")
	besideUnwanted   = schedule.Refuse("node(s) didn't match pod anti-affinity rules")
	unwantedByOthers = schedule.Refuse("node(s) didn't satisfy existing pods anti-affinity rules")
)

func (podAffinity) Name() string { return "InterPodAffinity" }

// Filter implements [schedule.Predicate]. Of one node alone nothing can be said.
func (podAffinity) Filter(*schedule.PodInfo, *schedule.NodeInfo) schedule.Verdict {
	return schedule.Fits
}

// Compile implements [schedule.Compiler].
func (podAffinity) Compile(*schedule.PodInfo) func(*schedule.NodeInfo) schedule.Verdict { return nil }

// Prepare implements [schedule.Preparer].
func (podAffinity) Prepare(p *schedule.PodInfo, c schedule.Cluster) func(*schedule.NodeInfo) schedule.Verdict {
	closed := make(domains) // to p, by other pods
	for other, n := range c.PodsWithAffinity() {
		for i := range other.Affinity.RequiredAnti {
			if t := &other.Affinity.RequiredAnti[i]; t.Matches(p.Pod, c) {
				closed.add(n.Node, t.TopologyKey)
			}
		}
	}
	var required, anti []schedule.AffinityTerm
	if p.Affinity != nil {
		required, anti = p.Affinity.Required, p.Affinity.RequiredAnti
	}
	if len(closed)+len(required)+len(anti) == 0 {
		return nil
	}
	wanted, unwanted := make(domains), make(domains)
	if len(required) > 0 {
		each(required, c, func(n *schedule.NodeInfo) {
			for i := range required {
				wanted.add(n.Node, required[i].TopologyKey)
			}
		})
	}
	for i := range anti {
		each(anti[i:i+1], c, func(n *schedule.NodeInfo) { unwanted.add(n.Node, anti[i].TopologyKey) })
	}
	// The first of pods that want to be together may go anywhere where there are such domains.
	first := len(wanted) == 0 && matchesAll(required, p.Pod, c)
	return func(n *schedule.NodeInfo) schedule.Verdict {
		for i := range required {
			key := required[i].TopologyKey
			if _, ok := n.Node.Labels[key]; !ok || !first && !wanted.has(n.Node, key) {
				return apartFromWanted
			}
		}
		switch {
		case unwanted.hasAny(n.Node):
			return besideUnwanted
		case closed.hasAny(n.Node):
			return unwantedByOthers
		}
		return schedule.Fits
	}
}

// Wakes implements [schedule.Waker]: nodes, namespaces, and pods that p wants or does not want beside it,
// or that did not want p.
func (podAffinity) Wakes(p *schedule.PodInfo, e schedule.Event) bool {
	old, now, ok := schedule.Changed[*schedule.PodInfo](e)
	if !ok {
		return nodes(e) || isNamespace(e)
	}
	// Which namespaces a selector matches is not known here.
	concerns := func(terms []schedule.AffinityTerm, pod *corev1.Pod) bool {
		return slices.ContainsFunc(terms, func(t schedule.AffinityTerm) bool {
			return t.Selector.Matches(labels.Set(pod.Labels)) && (t.NamespaceSelector != nil || slices.Contains(t.Namespaces, pod.Namespace))
		})
	}
	for _, other := range []*schedule.PodInfo{old, now} {
		switch {
		case other == nil:
		case p.Affinity != nil && (concerns(p.Affinity.Required, other.Pod) || concerns(p.Affinity.RequiredAnti, other.Pod)),
			other.Affinity != nil && concerns(other.Affinity.RequiredAnti, p.Pod):
			return true
		}
	}
	return false
}

func isNamespace(e schedule.Event) bool {
	_, _, ok := schedule.Changed[*corev1.Namespace](e)
	return ok
}

// each calls f for each node with a pod that matches all terms.
func each(terms []schedule.AffinityTerm, c schedule.Cluster, f func(*schedule.NodeInfo)) {
	if t := &terms[0]; len(terms) == 1 && t.NamespaceSelector == nil {
		for _, namespace := range t.Namespaces {
			for n := range c.Count(namespace, t.Selector).Nodes() {
				f(n)
			}
		}
		return
	}
	for n := range c.Nodes() {
		for _, other := range n.Pods {
			if matchesAll(terms, other.Pod, c) {
				f(n)
				break
			}
		}
	}
}

func matchesAll(terms []schedule.AffinityTerm, pod *corev1.Pod, c schedule.Cluster) bool {
	for i := range terms {
		if !terms[i].Matches(pod, c) {
			return false
		}
	}
	return true
}

// domains are values of labels of nodes, by the key of the label.
type domains map[string]map[string]struct{}

// add adds the domain of a node, if it is in one.
func (d domains) add(n *corev1.Node, key string) {
	value, ok := n.Labels[key]
	if !ok {
		return
	}
	if d[key] == nil {
		d[key] = make(map[string]struct{})
	}
	d[key][value] = struct{}{}
}

// has reports whether the domain of a node is among those of key.
func (d domains) has(n *corev1.Node, key string) bool {
	value, ok := n.Labels[key]
	if !ok {
		return false
	}
	_, ok = d[key][value]
	return ok
}

// hasAny reports whether a node is in one of the domains.
func (d domains) hasAny(n *corev1.Node) bool {
	for key := range d {
		if d.has(n, key) {
			return true
		}
	}
	return false
}
