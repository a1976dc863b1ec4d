package schedule

// TermKind says what a pod makes of the pods that a term of its affinity selects.
type TermKind int

// The kinds of terms.
const (
	Required TermKind = iota
	RequiredAnti
	Preferred
	termKinds
)

// of returns the terms of a kind.
func (k TermKind) of(a *Affinity) []AffinityTerm {
	switch k {
	case Required:
		return a.Required
	case RequiredAnti:
		return a.RequiredAnti
	default:
		return a.Preferred
	}
}

// A TermCount says where the pods are that have one term of affinity.
type TermCount struct {
	AffinityTerm
	nodes map[*NodeInfo]int32
	// topology and domains hold the sums over the nodes of each domain, once they were asked for.
	topology *Topology
	domains  []int32
}

// In returns the number of pods with the term in each domain of the topology of its TopologyKey. The caller
// must not change it.
func (c *TermCount) In(t *Topology) []int32 {
	if c.topology == t {
		return c.domains
	}
	c.topology, c.domains = t, make([]int32, t.domains)
	for n, pods := range c.nodes {
		if domain, ok := t.current(n); ok {
			c.domains[domain] += pods
		}
	}
	return c.domains
}

// add counts a pod sign times on a node.
func (c *TermCount) add(n *NodeInfo, sign int32) {
	if c.nodes[n] += sign; c.nodes[n] == 0 {
		delete(c.nodes, n)
	}
	if c.topology == nil {
		return
	}
	if domain, ok := c.topology.current(n); ok {
		c.domains[domain] += sign
	}
}

// terms holds the terms of the pods on nodes, by kind and by what says that they are the same.
type terms [termKinds]map[string]*TermCount

// update counts the terms of a pod sign times on a node.
func (t *terms) update(p *PodInfo, n *NodeInfo, sign int32) {
	if p.Affinity == nil {
		return
	}
	for kind := range termKinds {
		for _, term := range kind.of(p.Affinity) {
			c := t[kind][term.id]
			if c == nil {
				if t[kind] == nil {
					t[kind] = make(map[string]*TermCount)
				}
				c = &TermCount{AffinityTerm: term, nodes: make(map[*NodeInfo]int32)}
				t[kind][term.id] = c
			}
			if c.add(n, sign); len(c.nodes) == 0 {
				delete(t[kind], term.id)
			}
		}
	}
}
