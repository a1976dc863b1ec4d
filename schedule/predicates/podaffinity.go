package predicates

import (
	"maps"
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

// ForClass implements [schedule.ClassPredicate].
func (podAffinity) ForClass(*schedule.PodInfo) bool { return true }

// Filter implements [schedule.Predicate]. Of one node alone nothing can be said.
func (podAffinity) Filter(*schedule.PodInfo, *schedule.NodeInfo) schedule.Verdict {
	return schedule.Fits
}

// Compile implements [schedule.Compiler].
func (podAffinity) Compile(*schedule.PodInfo) func(*schedule.NodeInfo) schedule.Verdict { return nil }

// Prepare implements [schedule.Preparer].
func (podAffinity) Prepare(p *schedule.PodInfo, c schedule.Cluster) func(*schedule.NodeInfo) schedule.Verdict {
	closed := make(domains) // to p, by other pods
	for t := range c.Terms(schedule.RequiredAnti) {
		if t.Matches(p.Pod, c) {
			set := closed.of(t.TopologyKey, c)
			for domain, pods := range t.In(set.topology) {
				set.add(domain, pods > 0)
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
	wanted.addPods(required, c)
	for i := range anti {
		unwanted.addPods(anti[i:i+1], c)
	}
	// The first of pods that want to be together may go anywhere where there are such domains.
	first := wanted.isEmpty() && matchesAll(required, p.Pod, c)
	places := make([]*domainSet, len(required))
	for i := range required {
		places[i] = wanted.of(required[i].TopologyKey, c)
	}
	unwantedSets, closedSets := slices.Collect(maps.Values(unwanted)), slices.Collect(maps.Values(closed))
	return func(n *schedule.NodeInfo) schedule.Verdict {
		for _, set := range places {
			if domain, ok := set.topology.Domain(n); !ok || !first && !set.in[domain] {
				return apartFromWanted
			}
		}
		switch {
		case inAny(unwantedSets, n):
			return besideUnwanted
		case inAny(closedSets, n):
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

func matchesAll(terms []schedule.AffinityTerm, pod *corev1.Pod, c schedule.Cluster) bool {
	for i := range terms {
		if !terms[i].Matches(pod, c) {
			return false
		}
	}
	return true
}

// domains are sets of domains by the key of their topology.
type domains map[string]*domainSet

// domainSet is a set of domains of one topology.
type domainSet struct {
	topology *schedule.Topology
	in       []bool
	size     int
}

// add adds a domain, if has is true.
func (s *domainSet) add(domain int, has bool) {
	if has && !s.in[domain] {
		s.in[domain] = true
		s.size++
	}
}

// of returns the set of a topology.
func (d domains) of(key string, c schedule.Cluster) *domainSet {
	if d[key] == nil {
		t := c.Topology(key)
		d[key] = &domainSet{topology: t, in: make([]bool, t.Size())}
	}
	return d[key]
}

// addPods adds the domains, of the topology of each term, of a pod that matches all terms.
func (d domains) addPods(terms []schedule.AffinityTerm, c schedule.Cluster) {
	if len(terms) == 1 && terms[0].NamespaceSelector == nil {
		set := d.of(terms[0].TopologyKey, c)
		for _, namespace := range terms[0].Namespaces {
			for domain, m := range c.Count(namespace, terms[0].Selector).In(set.topology) {
				set.add(domain, m.Pods > 0)
			}
		}
		return
	}
	if len(terms) == 0 {
		return
	}
	for n := range c.Nodes() {
		for _, other := range n.Pods {
			if !matchesAll(terms, other.Pod, c) {
				continue
			}
			for i := range terms {
				set := d.of(terms[i].TopologyKey, c)
				if domain, ok := set.topology.Domain(n); ok {
					set.add(domain, true)
				}
			}
			break
		}
	}
}

// isEmpty reports whether there is no domain.
func (d domains) isEmpty() bool {
	for _, set := range d {
		if set.size > 0 {
			return false
		}
	}
	return true
}

// inAny reports whether a node is in one of the domains of sets.
func inAny(sets []*domainSet, n *schedule.NodeInfo) bool {
	for _, set := range sets {
		if domain, ok := set.topology.Domain(n); ok && set.in[domain] {
			return true
		}
	}
	return false
}
