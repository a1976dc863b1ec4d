package schedule

import (
	"maps"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
)

// State is the core of a scheduler: nodes, their pods, and decisions. It has no clock and does no
// IO; the same calls with the same seed give the same decisions. It must be used by one goroutine
// at a time.
//
// The methods that change it return the event of the change, for [State.Helps].
type State struct {
	profiles []Profile // at least one
	rand     *rand.Rand

	// nodes also contains missing nodes with pods (NodeInfo.Node is nil), because pods and nodes
	// are reported in any order.
	nodes map[string]*NodeInfo
	// order holds the existing nodes.
	order      []*NodeInfo
	pods       map[string]place
	namespaces map[string]*corev1.Namespace
	// priorityOf counts the pods on nodes by their priority.
	priorityOf map[int32]int
	// terms counts the pods on nodes that have an Affinity by its terms.
	terms      terms
	counts     counts
	topologies map[string]*Topology
	// images is the number of nodes that have an image.
	images map[string]int
	// guests are the pods that a node is reserved for, by node and key, and nominees their nodes.
	guests   map[string]map[string]*PodInfo
	nominees map[string]string
	// selectors keeps the selectors of disruption budgets.
	selectors budgetCache

	// classes keep what was found out for pods that are alike.
	classes   map[classKey]*class
	decisions uint64
	// layout changes when all rows must be made again. Changes of a node are the rows changedRows, the first of
	// which is the change firstChange.
	layout, firstChange uint64
	changedRows         []int32
	// trying says that pods are put on nodes and taken from them only to look at the effect.
	trying bool

	// scoring, if not nil, is called when the nodes that a pod fits are known and scores are next.
	scoring func()

	// found are the nodes that a decision chooses from: all of a class, or those that are left of them.
	// They are kept to save allocations.
	found     candidates
	nodesLeft []*NodeInfo
	rowsLeft  []int32
}

// place is the position of a pod.
type place struct {
	pod     *PodInfo
	node    string
	assumed bool
	evicted bool // it may not say so itself yet
}

// NewState returns a State without nodes. seed seeds the random choice between equal nodes.
func NewState(predicates []Predicate, priorities []Weighted, seed uint64) *State {
	return &State{
		profiles: countEvaluations([]Profile{{Predicates: predicates, Priorities: priorities}}),
		rand:     rand.New(rand.NewPCG(seed, seed)),
		nodes:    make(map[string]*NodeInfo), pods: make(map[string]place),
		namespaces: make(map[string]*corev1.Namespace),
		priorityOf: make(map[int32]int),
		topologies: make(map[string]*Topology),
		images:     make(map[string]int),
		guests:     make(map[string]map[string]*PodInfo),
		nominees:   make(map[string]string),
		classes:    make(map[classKey]*class),
		layout:     1,
	}
}

// SetNode adds or updates a node.
func (s *State) SetNode(node *corev1.Node) Event {
	n := s.node(node.Name)
	old, images := n.Node, n.Images
	if n.Node == nil {
		n.position = len(s.order)
		s.order = append(s.order, n)
	}
	n.set(node)
	if !maps.Equal(images, n.Images) {
		s.countImages(images, -1)
		s.countImages(n.Images, 1)
		s.rescore()
	}
	if old == nil || !maps.Equal(old.Labels, node.Labels) {
		s.relayout()
	}
	s.touch(n)
	return change(old, node, n)
}

// RemoveNode removes a node. Its pods are kept in case it returns.
func (s *State) RemoveNode(name string) Event {
	n := s.nodes[name]
	if n == nil || n.Node == nil {
		return none
	}
	last := s.order[len(s.order)-1]
	s.order[n.position], last.position = last, n.position
	s.order = s.order[:len(s.order)-1]
	old := n.Node
	s.countImages(n.Images, -1)
	n.Node, n.Images = nil, nil
	s.relayout()
	s.drop(name, n)
	return change(old, nil, n)
}

// SetNamespace adds or updates a namespace.
func (s *State) SetNamespace(namespace *corev1.Namespace) Event {
	old := s.namespaces[namespace.Name]
	s.namespaces[namespace.Name] = namespace
	return change(old, namespace)
}

// RemoveNamespace removes a namespace.
func (s *State) RemoveNamespace(name string) Event {
	old := s.namespaces[name]
	delete(s.namespaces, name)
	return change(old, nil)
}

func (s *State) countImages(images map[string]int64, sign int) {
	for name := range images {
		if s.images[name] += sign; s.images[name] == 0 {
			delete(s.images, name)
		}
	}
}

func (s *State) node(name string) *NodeInfo {
	n := s.nodes[name]
	if n == nil {
		n = &NodeInfo{Pods: make(map[string]*PodInfo), ladder: &ladder{}}
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
// it is assumed: the event of its bind may be late.
func (s *State) SetPod(p *PodInfo) Event {
	s.renewGuest(p)
	old, known := s.pods[p.Key]
	takes := p.Pod.Spec.NodeName != "" && !ended(p.Pod)
	switch {
	case !takes && known && old.assumed && old.pod.Pod.UID == p.Pod.UID && !ended(p.Pod):
		return none
	case takes:
		s.Withdraw(p.Key)
		return s.put(place{pod: p, node: p.Pod.Spec.NodeName, evicted: old.evicted && old.pod.Pod.UID == p.Pod.UID})
	}
	return s.RemovePod(p.Key)
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// RemovePod removes a pod, including an assumed one.
func (s *State) RemovePod(key string) Event {
	p, known := s.pods[key]
	if !known {
		return none
	}
	return change(p.pod, nil, s.take(key))
}

// Assume charges pod against node before the bind is confirmed, so that the next decision sees the
// capacity as used. If the bind fails, the caller must call Forget; otherwise only the end of the
// pod frees that capacity.
func (s *State) Assume(p *PodInfo, node string) Event {
	s.Withdraw(p.Key)
	return s.put(place{pod: p, node: node, assumed: true})
}

// Forget undoes an assumption. It does nothing if the bind was confirmed meanwhile, or another pod
// has the same name.
func (s *State) Forget(p *PodInfo) Event {
	if known, ok := s.pods[p.Key]; ok && known.assumed && known.pod.Pod.UID == p.Pod.UID {
		return s.RemovePod(p.Key)
	}
	return none
}

// Placed returns the node of a pod, assumed or not.
func (s *State) Placed(key string) (node string, ok bool) {
	p, ok := s.pods[key]
	return p.node, ok
}

// put adds a pod, or moves or updates it.
func (s *State) put(p place) Event {
	var before *NodeInfo
	old, known := s.pods[p.pod.Key]
	if known {
		before = s.take(p.pod.Key)
	}
	s.pods[p.pod.Key] = p
	n := s.node(p.node)
	n.add(p.pod)
	s.touch(n)
	s.counts.update(p.pod, n, 1)
	s.terms.update(p.pod, n, 1)
	s.priorityOf[priority(p.pod)]++
	if before == nil || old.node == p.node {
		return change(old.pod, p.pod, n)
	}
	return change(old.pod, p.pod, n, before)
}

// take removes a pod from its node, which it returns.
func (s *State) take(key string) *NodeInfo {
	p := s.pods[key]
	delete(s.pods, key)
	n := s.nodes[p.node]
	n.remove(p.pod)
	s.touch(n)
	s.counts.update(p.pod, n, -1)
	s.terms.update(p.pod, n, -1)
	if s.priorityOf[priority(p.pod)]--; s.priorityOf[priority(p.pod)] == 0 {
		delete(s.priorityOf, priority(p.pod))
	}
	s.drop(p.node, n)
	return n
}
