package schedule

// score sets found.totals to the weighted sums of the scores of the nodes that were found for a pod of a
// class, and returns them.
func (s *State) score(p *PodInfo, c *class, found *candidates) []int64 {
	size := len(found.nodes)
	if cap(found.totals) < size {
		found.totals, found.scores = make([]int64, len(s.order)), make([]int64, len(s.order))
	}
	found.totals, found.scores = found.totals[:size], found.scores[:size]
	for i, row := range found.rows {
		found.totals[i] = c.base[row]
	}
	for i := range c.columns {
		column := &c.columns[i]
		if column.alike {
			continue
		}
		for j, row := range found.rows {
			found.scores[j] = column.scores[row]
		}
		column.normalize(found.scores)
		found.add(column.weight)
	}
	for i, w := range s.profileOf(p).Priorities {
		if _, ok := w.Priority.(ClassPriority); !ok && s.scoreBy(i, p, found.nodes, found.scores) {
			found.add(max(1, w.Weight))
		}
	}
	return found.totals
}

// add adds the scores to the totals.
func (c *candidates) add(weight int64) {
	for i, score := range c.scores {
		c.totals[i] += weight * min(max(score, 0), MaxScore)
	}
}

// scoreBy sets scores to those of nodes by the priority with an index in the pod's profile. It returns false if
// the priority does not prefer any of them.
func (s *State) scoreBy(i int, p *PodInfo, nodes []*NodeInfo, scores []int64) bool {
	profile := s.profileOf(p)
	priority := profile.Priorities[i].Priority
	score := func(n *NodeInfo) int64 { return priority.Score(p, n) }
	switch q := priority.(type) {
	case Surveyor:
		profile.asked.surveyed[i]++
		score = q.Survey(p, view{s}, nodes)
	case ClassPriority:
		profile.asked.surveyed[i]++
		score = q.ScoreClass(p, view{s})
	}
	if score == nil {
		return false
	}
	for k, n := range nodes {
		scores[k] = score(n)
	}
	profile.asked.scored[i] += uint64(len(nodes))
	if n, ok := priority.(Normalizer); ok {
		n.Normalize(scores)
	}
	return true
}
