package schedule

import (
	"iter"

	"k8s.io/apimachinery/pkg/labels"
)

// maxCounts bounds the counts that a State keeps up to date. When there are more, the one that was not
// asked for the longest is dropped, and counted again when it is needed.
const maxCounts = 256

// PodCount says how many pods of one namespace, with labels that a selector matches, are on each node.
type PodCount struct {
	namespace string
	selector  labels.Selector
	nodes     map[*NodeInfo]Matching
	// domains holds the sums over the nodes of each domain of some topologies.
	domains map[*Topology][]Matching
	used    uint64 // when the count was last asked for, in calls
}

// Matching is the number of pods on a node that a selector matches.
type Matching struct {
	// Pods are all of them, and Ending those that are being deleted.
	Pods, Ending int32
}

func (m *Matching) add(other Matching) { m.Pods, m.Ending = m.Pods+other.Pods, m.Ending+other.Ending }

// On returns the number of matching pods on a node.
func (c *PodCount) On(n *NodeInfo) Matching { return c.nodes[n] }

// Nodes yields the nodes with matching pods, in no particular order.
func (c *PodCount) Nodes() iter.Seq2[*NodeInfo, Matching] {
	return func(yield func(*NodeInfo, Matching) bool) {
		for n, m := range c.nodes {
			if n.Node != nil && !yield(n, m) {
				return
			}
		}
	}
}

// In returns the number of matching pods in each domain of a topology. The caller must not change it.
func (c *PodCount) In(t *Topology) []Matching {
	if sums, ok := c.domains[t]; ok {
		return sums
	}
	for other := range c.domains {
		if other.stale {
			delete(c.domains, other)
		}
	}
	sums := make([]Matching, t.domains)
	for n, m := range c.Nodes() {
		if domain, ok := t.Domain(n); ok {
			sums[domain].add(m)
		}
	}
	if c.domains == nil {
		c.domains = make(map[*Topology][]Matching)
	}
	c.domains[t] = sums
	return sums
}

// add counts a pod sign times on a node.
func (c *PodCount) add(p *PodInfo, n *NodeInfo, sign int) {
	if p.Pod.Namespace != c.namespace || !c.selector.Matches(labels.Set(p.Pod.Labels)) {
		return
	}
	one := Matching{Pods: int32(sign)}
	if p.Pod.DeletionTimestamp != nil {
		one.Ending = one.Pods
	}
	for t, sums := range c.domains {
		if domain, ok := t.current(n); ok {
			sums[domain].add(one)
		}
	}
	m := c.nodes[n]
	m.add(one)
	if m.Pods == 0 {
		delete(c.nodes, n)
		return
	}
	c.nodes[n] = m
}

// counts are the counts of a State by namespace and the text of the selector.
type counts struct {
	byNamespace map[string]map[string]*PodCount
	size        int
	calls       uint64
}

// get returns a count, which it makes of all pods on nodes if there is none yet.
func (c *counts) get(namespace string, selector labels.Selector, s *State) *PodCount {
	if _, selectable := selector.Requirements(); !selectable {
		return &PodCount{} // it selects nothing, and its text is that of one that selects everything
	}
	c.calls++
	text := selector.String()
	if known := c.byNamespace[namespace][text]; known != nil {
		known.used = c.calls
		return known
	}
	if c.size == maxCounts {
		c.dropOldest()
	}
	count := &PodCount{namespace: namespace, selector: selector, nodes: make(map[*NodeInfo]Matching), used: c.calls}
	for _, p := range s.pods {
		count.add(p.pod, s.nodes[p.node], 1)
	}
	if c.byNamespace[namespace] == nil {
		if c.byNamespace == nil {
			c.byNamespace = make(map[string]map[string]*PodCount)
		}
		c.byNamespace[namespace] = make(map[string]*PodCount)
	}
	c.byNamespace[namespace][text] = count
	c.size++
	return count
}

// dropOldest removes the count that was not asked for the longest.
func (c *counts) dropOldest() {
	var oldest *PodCount
	for _, all := range c.byNamespace {
		for _, count := range all {
			if oldest == nil || count.used < oldest.used {
				oldest = count
			}
		}
	}
	all := c.byNamespace[oldest.namespace]
	if delete(all, oldest.selector.String()); len(all) == 0 {
		delete(c.byNamespace, oldest.namespace)
	}
	c.size--
}

// update counts a pod sign times on a node.
func (c *counts) update(p *PodInfo, n *NodeInfo, sign int) {
	for _, count := range c.byNamespace[p.Pod.Namespace] {
		count.add(p, n, sign)
	}
}
