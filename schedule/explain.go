package schedule

import (
	"cmp"
	"slices"
)

// NodeExplanation says what a decision about a pod makes of one node.
type NodeExplanation struct {
	Node string
	// Predicate is the name of the first predicate that refuses the node, and Verdict its answer.
	// Predicate is empty if none does.
	Predicate string
	Verdict   Verdict
	// Scores holds the score of each priority, in their order, from 0 to MaxScore and without its weight.
	// It is nil for a node that is refused, and if no other node fits.
	Scores []int64
	// Total is the weighted sum of the scores.
	Total int64
}

// Explain says what Decide makes of each node for a pod: first those that fit, the best ones first, and
// then the others, both by name. Decide chooses one of the nodes with the highest total, or the one that is
// reserved for the pod. Explain changes nothing, and the random generator neither.
func (s *State) Explain(p *PodInfo) []NodeExplanation {
	f := filters{state: s, pod: p}
	var nodes []*NodeInfo
	var fit, unfit []NodeExplanation
	for _, n := range s.order {
		v, predicate := s.judge(&f, n)
		if !v.OK() {
			unfit = append(unfit, NodeExplanation{Node: n.Node.Name, Predicate: s.profileOf(p).Predicates[predicate].Name(), Verdict: v})
			continue
		}
		nodes = append(nodes, n)
		fit = append(fit, NodeExplanation{Node: n.Node.Name})
	}
	if len(fit) > 1 {
		s.explainScores(p, nodes, fit)
	}
	byName := func(a, b NodeExplanation) int {
		return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(a.Node, b.Node))
	}
	slices.SortFunc(fit, byName)
	slices.SortFunc(unfit, byName)
	return append(fit, unfit...)
}

// explainScores sets the scores of nodes.
func (s *State) explainScores(p *PodInfo, infos []*NodeInfo, nodes []NodeExplanation) {
	scores := make([]int64, len(nodes))
	for k, w := range s.profileOf(p).Priorities {
		if !s.scoreBy(k, p, infos, scores) {
			clear(scores)
		}
		for i := range nodes {
			score := min(max(scores[i], 0), MaxScore)
			nodes[i].Scores = append(nodes[i].Scores, score)
			nodes[i].Total += max(1, w.Weight) * score
		}
	}
}
