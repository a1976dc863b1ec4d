package schedule

// score sets s.totals to the weighted sums of the scores of the nodes in s.feasible.
func (s *State) score(p *PodInfo) {
	size := len(s.feasible)
	if cap(s.totals) < size {
		s.totals, s.scores = make([]int64, size), make([]int64, size)
	}
	s.totals, s.scores = s.totals[:size], s.scores[:size]
	clear(s.totals)
	for _, w := range s.priorities {
		if !rank(w.Priority, p, view{s}, s.feasible, s.scores) {
			continue
		}
		weight := max(1, w.Weight)
		for i, score := range s.scores {
			s.totals[i] += weight * min(max(score, 0), MaxScore)
		}
	}
}

// rank sets scores to those of nodes by one priority. It returns false if the priority does not prefer
// any of them.
func rank(priority Priority, p *PodInfo, c Cluster, nodes []*NodeInfo, scores []int64) bool {
	score := func(n *NodeInfo) int64 { return priority.Score(p, n) }
	if s, ok := priority.(Surveyor); ok {
		if score = s.Survey(p, c, nodes); score == nil {
			return false
		}
	}
	for i, n := range nodes {
		scores[i] = score(n)
	}
	if n, ok := priority.(Normalizer); ok {
		n.Normalize(scores)
	}
	return true
}
