package schedule

// maxTopologies bounds the topologies that a State keeps.
const maxTopologies = 64

// A Topology divides the nodes into domains by the value of one label. It is valid until a node comes, goes,
// or changes its labels.
type Topology struct {
	of []int32 // the domain of each row, or none
	// domains and unlabeled are the numbers of domains and of nodes without the label.
	domains, unlabeled int
	stale              bool
}

// noDomain is the domain of a node without the label.
const noDomain = -1

// Size returns the number of domains. They are numbered from 0.
func (t *Topology) Size() int { return t.domains }

// Unlabeled returns the number of nodes without the label.
func (t *Topology) Unlabeled() int { return t.unlabeled }

// Domain returns the domain of a node; ok is false if the node does not have the label.
func (t *Topology) Domain(n *NodeInfo) (domain int, ok bool) {
	domain = int(t.of[n.position])
	return domain, domain != noDomain
}

// topology returns the topology of a label.
func (s *State) topology(key string) *Topology {
	if t := s.topologies[key]; t != nil {
		return t
	}
	if len(s.topologies) == maxTopologies {
		s.dropTopologies()
	}
	t := &Topology{of: make([]int32, len(s.order))}
	ids := make(map[string]int32)
	for row, n := range s.order {
		value, ok := n.Node.Labels[key]
		if !ok {
			t.of[row] = noDomain
			t.unlabeled++
			continue
		}
		id, known := ids[value]
		if !known {
			id = int32(len(ids))
			ids[value] = id
		}
		t.of[row] = id
	}
	t.domains = len(ids)
	s.topologies[key] = t
	return t
}

// dropTopologies makes all topologies stale.
func (s *State) dropTopologies() {
	for _, t := range s.topologies {
		t.stale = true
	}
	clear(s.topologies)
}

// current returns the domain of a node, unless the topology is stale.
func (t *Topology) current(n *NodeInfo) (domain int, ok bool) {
	if t.stale || n.Node == nil {
		return noDomain, false
	}
	return t.Domain(n)
}
