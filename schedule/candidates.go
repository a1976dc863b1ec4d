package schedule

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

// candidate is a node that a pod can go to if extenders do not object.
type candidate struct {
	node *corev1.Node
	// reserved means that the node is reserved for the pod; see State.Nominate.
	reserved bool
	// score is the weighted sum of the scores.
	score int64
}

// candidates returns the nodes that accept a pod, without scores, in the order of their names. unfit counts
// the others.
func (s *State) candidates(p *PodInfo) (list []candidate, unfit *FitError) {
	unfit = s.newFitError(p)
	for _, n := range s.judgeAll(unfit) {
		list = append(list, candidate{node: n.Node, reserved: s.nominees[p.Key] == n.Node.Name})
	}
	slices.SortFunc(list, func(a, b candidate) int { return cmp.Compare(a.node.Name, b.node.Name) })
	return list, unfit
}

// rank returns those of the nodes that still exist and accept a pod, with the scores of the priorities.
func (s *State) rank(p *PodInfo, nodes []*corev1.Node) []candidate {
	f := filters{state: s, pod: p}
	var infos []*NodeInfo
	var scores []NodeExplanation
	for _, node := range nodes {
		if n := s.accepting(&f, node.Name); n != nil {
			infos = append(infos, n)
			scores = append(scores, NodeExplanation{Node: node.Name})
		}
	}
	if len(scores) > 1 {
		s.explainScores(p, infos, scores)
	}
	list := make([]candidate, 0, len(scores))
	for i, n := range infos {
		list = append(list, candidate{node: n.Node, score: scores[i].Total})
	}
	return list
}

// bestOf returns the node with the highest score that still accepts a pod. Ties are broken randomly.
func (s *State) bestOf(p *PodInfo, list []candidate) (node string, ok bool) {
	list = slices.Clone(list)
	s.rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	slices.SortStableFunc(list, func(a, b candidate) int { return cmp.Compare(b.score, a.score) })
	f := filters{state: s, pod: p}
	for _, c := range list {
		if s.accepting(&f, c.node.Name) != nil {
			return c.node.Name, true
		}
	}
	return "", false
}

// accepting returns a node by name if it exists and accepts the pod, and nil otherwise.
func (s *State) accepting(f *filters, name string) *NodeInfo {
	n := s.nodes[name]
	if n == nil || n.Node == nil {
		return nil
	}
	if v, _ := s.judge(f, n); !v.OK() {
		return nil
	}
	return n
}

// refuseExtended counts a node that an extender refuses.
func (e *FitError) refuseExtended(node string, v Verdict) {
	if e.Reasons == nil {
		e.Reasons = make(map[string]int)
	}
	if e.extended == nil {
		e.extended = make(map[string]bool)
	}
	for _, r := range v.Reasons {
		e.Reasons[r]++
	}
	if v.Lasting {
		e.lasting++
	}
	e.extended[node] = v.Lasting
}

// extenderKeeps returns why it does not help to preempt pods on a node: an extender refuses it, and it is
// not known whose end would change that. It returns "" if no extender does.
func (e *FitError) extenderKeeps(n *NodeInfo) string {
	if e.extended == nil {
		return ""
	}
	lasting, refused := e.extended[n.Node.Name]
	switch {
	case !refused:
		return ""
	case lasting:
		return unhelpful
	}
	return noVictims
}

// heartbeat reports whether an event changes nothing of a node but what every status of it changes.
func heartbeat(e Event) bool {
	old, now, ok := Changed[*corev1.Node](e)
	if !ok || old == nil || now == nil {
		return false
	}
	return maps.Equal(old.Labels, now.Labels) && maps.Equal(old.Annotations, now.Annotations) &&
		apiequality.Semantic.DeepEqual(old.Spec, now.Spec) &&
		apiequality.Semantic.DeepEqual(old.Status.Allocatable, now.Status.Allocatable) &&
		maps.Equal(conditions(old), conditions(now))
}

func conditions(n *corev1.Node) map[corev1.NodeConditionType]corev1.ConditionStatus {
	all := make(map[corev1.NodeConditionType]corev1.ConditionStatus, len(n.Status.Conditions))
	for _, c := range n.Status.Conditions {
		all[c.Type] = c.Status
	}
	return all
}
