package schedule

import (
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
)

// State is the core of a scheduler: nodes, their pods, and decisions. It has no clock and does no
// IO; the same calls with the same seed give the same decisions. It must be used by one goroutine
// at a time.
type State struct {
	predicates []Predicate
	priorities []Weighted
	rand       *rand.Rand

	// nodes also contains missing nodes with pods (NodeInfo.Node is nil), because pods and nodes
	// are reported in any order.
	nodes map[string]*NodeInfo
	// order holds the existing nodes.
	order []*NodeInfo
	pods  map[string]place
}

// place is the position of a pod.
type place struct {
	pod     *PodInfo
	node    string
	assumed bool
}

// NewState returns a State without nodes. seed seeds the random choice between equal nodes.
func NewState(predicates []Predicate, priorities []Weighted, seed uint64) *State {
	return &State{
		predicates: predicates, priorities: priorities,
		rand:  rand.New(rand.NewPCG(seed, seed)),
		nodes: make(map[string]*NodeInfo), pods: make(map[string]place),
	}
}

// SetNode adds or updates a node.
func (s *State) SetNode(node *corev1.Node) {
	n := s.node(node.Name)
	if n.Node == nil {
		n.position = len(s.order)
		s.order = append(s.order, n)
	}
	n.set(node)
}

// RemoveNode removes a node. Its pods are kept in case it returns.
func (s *State) RemoveNode(name string) {
	n := s.nodes[name]
	if n == nil || n.Node == nil {
		return
	}
	last := s.order[len(s.order)-1]
	s.order[n.position], last.position = last, n.position
	s.order = s.order[:len(s.order)-1]
	n.Node = nil
	s.drop(name, n)
}

func (s *State) node(name string) *NodeInfo {
	n := s.nodes[name]
	if n == nil {
		n = &NodeInfo{Pods: make(map[string]*PodInfo)}
		s.nodes[name] = n
	}
	return n
}

// drop removes a node that neither exists nor has pods.
func (s *State) drop(name string, n *NodeInfo) {
	if n.Node == nil && len(n.Pods) == 0 {
		delete(s.nodes, name)
	}
}

// SetPod adds or updates a pod. A pod without a node, or that has ended, uses no capacity, unless
// it is assumed: the event of its bind may be late. SetPod reports whether capacity was freed.
func (s *State) SetPod(p *PodInfo) (freed bool) {
	old, known := s.pods[p.Key]
	takes := p.Pod.Spec.NodeName != "" && !ended(p.Pod)
	if !takes && known && old.assumed && old.pod.Pod.UID == p.Pod.UID && !ended(p.Pod) {
		return false
	}
	if known {
		s.take(p.Key)
	}
	if takes {
		s.put(place{pod: p, node: p.Pod.Spec.NodeName})
	}
	return known && !takes
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// RemovePod removes a pod, including an assumed one. It reports whether capacity was freed.
func (s *State) RemovePod(key string) (freed bool) {
	_, known := s.pods[key]
	if known {
		s.take(key)
	}
	return known
}

// Assume charges pod against node before the bind is confirmed, so that the next decision sees the
// capacity as used. If the bind fails, the caller must call Forget; otherwise only the end of the
// pod frees that capacity.
func (s *State) Assume(p *PodInfo, node string) {
	if _, known := s.pods[p.Key]; known {
		s.take(p.Key)
	}
	s.put(place{pod: p, node: node, assumed: true})
}

// Forget undoes an assumption. It does nothing if the bind was confirmed meanwhile, or another pod
// has the same name.
func (s *State) Forget(p *PodInfo) {
	if known, ok := s.pods[p.Key]; ok && known.assumed && known.pod.Pod.UID == p.Pod.UID {
		s.take(p.Key)
	}
}

// Placed returns the node of a pod, assumed or not.
func (s *State) Placed(key string) (node string, ok bool) {
	p, ok := s.pods[key]
	return p.node, ok
}

func (s *State) put(p place) {
	s.pods[p.pod.Key] = p
	s.node(p.node).add(p.pod)
}

func (s *State) take(key string) {
	p := s.pods[key]
	delete(s.pods, key)
	n := s.nodes[p.node]
	n.remove(p.pod)
	s.drop(p.node, n)
}

// Decide returns the best node for a pod, or why it fits none. It changes only the random
// generator; see Assume.
func (s *State) Decide(p *PodInfo) (node string, err *FitError) {
	filters := s.compile(p)
	var best *NodeInfo
	var bestScore int64
	var ties int64
	var reasons map[string]int
nodes:
	for _, n := range s.order {
		for _, filter := range filters {
			if v := filter(n); !v.OK() {
				if reasons == nil {
					reasons = make(map[string]int)
				}
				for _, r := range v.Reasons {
					reasons[r]++
				}
				continue nodes
			}
		}
		score := s.score(p, n)
		switch {
		case best == nil || score > bestScore:
			best, bestScore, ties = n, score, 1
		case score == bestScore:
			// Reservoir sampling: each of n ties is chosen with probability 1/n.
			if ties++; s.rand.Int64N(ties) == 0 {
				best = n
			}
		}
	}
	if best == nil {
		return "", &FitError{Pod: p.Key, Nodes: len(s.order), Reasons: reasons}
	}
	return best.Node.Name, nil
}

// compile returns the checks to make for each node.
func (s *State) compile(p *PodInfo) []func(*NodeInfo) Verdict {
	filters := make([]func(*NodeInfo) Verdict, 0, len(s.predicates))
	for _, predicate := range s.predicates {
		filter := func(n *NodeInfo) Verdict { return predicate.Filter(p, n) }
		if c, ok := predicate.(Compiler); ok {
			filter = c.Compile(p)
		}
		if filter != nil {
			filters = append(filters, filter)
		}
	}
	return filters
}

func (s *State) score(p *PodInfo, n *NodeInfo) int64 {
	var sum int64
	for _, w := range s.priorities {
		sum += max(1, w.Weight) * min(max(w.Score(p, n), 0), MaxScore)
	}
	return sum
}
