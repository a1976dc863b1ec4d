package schedule

import "slices"

// Decide returns the best node for a pod, or why it fits none. It changes only the random
// generator; see Assume.
func (s *State) Decide(p *PodInfo) (node string, err *FitError) {
	f := filters{state: s, pod: p}
	if n := s.nominated(&f); n != nil {
		return n.Node.Name, nil
	}
	c := s.class(p)
	found := s.find(c, &f)
	if len(found.nodes) == 0 {
		return "", s.unfit(p, c)
	}
	if len(found.nodes) == 1 {
		return found.nodes[0].Node.Name, nil
	}
	if s.scoring != nil {
		s.scoring()
	}
	return found.nodes[s.best(s.score(p, c, found))].Node.Name, nil
}

// candidates are the nodes that a decision chooses from, and their rows and scores.
type candidates struct {
	nodes  []*NodeInfo
	rows   []int32
	totals []int64
	// scores has room for those of one priority.
	scores []int64
}

// find returns the nodes that a pod fits.
func (s *State) find(c *class, f *filters) *candidates {
	found := &s.found
	found.nodes, found.rows = c.nodes, c.rows
	own := s.compileOwn(f.pod)
	var prepared []filter
	isPrepared := false
	nodes, rows := s.nodesLeft[:0], s.rowsLeft[:0]
	for i, n := range c.nodes {
		if v, _ := firstRefusal(own, n); !v.OK() {
			continue
		}
		if !isPrepared {
			prepared, isPrepared = s.prepare(f.pod), true
			if len(own)+len(prepared)+len(s.guests) == 0 {
				return found
			}
		}
		if v, _ := firstRefusal(prepared, n); !v.OK() {
			continue
		}
		if len(s.guests) > 0 && s.guests[n.Node.Name] != nil {
			if v, _ := s.judge(f, n); !v.OK() {
				continue
			}
		}
		nodes, rows = append(nodes, n), append(rows, c.rows[i])
	}
	found.nodes, found.rows, s.nodesLeft, s.rowsLeft = nodes, rows, nodes, rows
	return found
}

// best returns the index of the highest of totals. Of several, each has the same chance.
func (s *State) best(totals []int64) int {
	most, ties := slices.Max(totals), int64(0)
	for _, total := range totals {
		if total == most {
			ties++
		}
	}
	skip := int64(0)
	if ties > 1 {
		skip = s.rand.Int64N(ties)
	}
	for i, total := range totals {
		if total != most {
			continue
		}
		if skip == 0 {
			return i
		}
		skip--
	}
	return 0 // not reached
}

// filter is the check of nodes by one predicate.
type filter struct {
	check     func(*NodeInfo) Verdict
	predicate int // in the predicates of the pod's profile
	asked     *uint64
}

// filters are the checks of one decision.
type filters struct {
	state *State
	pod   *PodInfo
	// local are the checks that need only the node; see locals.
	local      []filter
	isCompiled bool
	// prepared needs the cluster; it is set from the first node on that passes local.
	prepared   []filter
	isPrepared bool
}

// locals returns the checks that need only the node.
func (f *filters) locals() []filter {
	if !f.isCompiled {
		f.local, f.isCompiled = f.state.compile(f.pod), true
	}
	return f.local
}

// judge returns the verdict of the first predicate that refuses a node, and its index.
func (f *filters) judge(n *NodeInfo) (v Verdict, predicate int) {
	if v, predicate = firstRefusal(f.locals(), n); !v.OK() {
		return v, predicate
	}
	if !f.isPrepared {
		f.prepared, f.isPrepared = f.state.prepare(f.pod), true
	}
	return firstRefusal(f.prepared, n)
}

func firstRefusal(list []filter, n *NodeInfo) (v Verdict, predicate int) {
	for _, filter := range list {
		*filter.asked++
		if v := filter.check(n); !v.OK() {
			return v, filter.predicate
		}
	}
	return Fits, 0
}

// refusers are the predicates that refused a node, as indexes into the predicates of its profile.
type refusers []int

func (r *refusers) add(predicate int) {
	if !slices.Contains(*r, predicate) {
		*r = append(*r, predicate)
	}
}

// compile returns the check of one predicate that needs only the node; nil if the pod fits all nodes.
func compile(predicate Predicate, p *PodInfo) func(*NodeInfo) Verdict {
	if c, ok := predicate.(Compiler); ok {
		return c.Compile(p)
	}
	return func(n *NodeInfo) Verdict { return predicate.Filter(p, n) }
}

// compile returns the checks that need only the node.
func (s *State) compile(p *PodInfo) []filter {
	profile := s.profileOf(p)
	list := make([]filter, 0, len(profile.Predicates))
	for i, predicate := range profile.Predicates {
		if check := compile(predicate, p); check != nil {
			list = append(list, filter{check, i, &profile.asked.filtered[i]})
		}
	}
	return list
}

// compileOwn returns those that a class of pods does not have in common.
func (s *State) compileOwn(p *PodInfo) []filter {
	var list []filter
	profile := s.profileOf(p)
	for i, predicate := range profile.Predicates {
		if forClass(predicate, p) {
			continue
		}
		if check := compile(predicate, p); check != nil {
			list = append(list, filter{check, i, &profile.asked.filtered[i]})
		}
	}
	return list
}

// prepare returns the checks that need the cluster.
func (s *State) prepare(p *PodInfo) []filter {
	var list []filter
	profile := s.profileOf(p)
	for i, predicate := range profile.Predicates {
		if c, ok := predicate.(Preparer); ok {
			profile.asked.prepared[i]++
			if check := c.Prepare(p, view{s}); check != nil {
				list = append(list, filter{check, i, &profile.asked.filtered[i]})
			}
		}
	}
	return list
}
