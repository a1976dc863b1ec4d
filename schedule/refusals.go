package schedule

import "maps"

// refusals holds why the checks of a class refuse each node, and counts that.
type refusals struct {
	rows []refusal
	tally
}

// refusal is the answer of one predicate about one node.
type refusal struct {
	Verdict
	predicate int
}

// tally counts refusals.
type tally struct {
	reasons    map[string]int
	predicates map[int]int
	// lasting and all count those with Verdict.Lasting or All, and those with All.
	lasting, all int
}

func newTally() tally { return tally{reasons: make(map[string]int), predicates: make(map[int]int)} }

// add counts a refusal sign times. A verdict that fits counts nothing.
func (t *tally) add(r refusal, sign int) {
	if r.OK() {
		return
	}
	for _, reason := range r.Reasons {
		addTo(t.reasons, reason, sign)
	}
	addTo(t.predicates, r.predicate, sign)
	if r.Lasting || r.All {
		t.lasting += sign
	}
	if r.All {
		t.all += sign
	}
}

func addTo[K comparable](counts map[K]int, k K, n int) {
	if counts[k] += n; counts[k] == 0 {
		delete(counts, k)
	}
}

// set replaces the refusal of a row.
func (r *refusals) set(row int, now refusal) {
	r.add(r.rows[row], -1)
	r.add(now, 1)
	r.rows[row] = now
}

// refuse begins to keep the refusals of a class, if it does not yet.
func (c *class) refuse(order []*NodeInfo) *refusals {
	if c.refusals == nil {
		c.refusals = &refusals{make([]refusal, len(order)), newTally()}
		for row, n := range order {
			v, predicate := firstRefusal(c.checks, n)
			c.refusals.set(row, refusal{v, predicate})
		}
	}
	return c.refusals
}

func (s *State) newFitError(p *PodInfo) *FitError {
	return &FitError{Pod: p.Key, Nodes: len(s.order), pod: p, local: s.compile(p)}
}

// unfit returns why a pod of a class fits no node.
func (s *State) unfit(p *PodInfo, c *class) *FitError {
	err := s.newFitError(p)
	if len(c.nodes) == 0 && len(s.compileOwn(p)) == 0 {
		if known := c.refuse(s.order); known.all == 0 {
			err.count(s.withGuests(p, known))
			return err
		}
	}
	s.judgeAll(err)
	return err
}

// judgeAll returns the nodes that accept the pod of an error, which counts the others.
func (s *State) judgeAll(err *FitError) (accepting []*NodeInfo) {
	f := filters{state: s, pod: err.pod, local: err.local, isCompiled: true}
	t := newTally()
	for _, n := range s.order {
		v, predicate := s.judge(&f, n)
		if v.OK() {
			accepting = append(accepting, n)
		}
		if v.All {
			err.Whole = v.Reasons[0]
		}
		t.add(refusal{v, predicate}, 1)
	}
	err.count(t)
	return accepting
}

// withGuests returns the tally of a class for a pod, which nodes that are reserved for other pods may refuse
// for other reasons.
func (s *State) withGuests(p *PodInfo, known *refusals) tally {
	t := known.tally
	t.reasons, t.predicates = maps.Clone(t.reasons), maps.Clone(t.predicates)
	f := filters{state: s, pod: p}
	for name := range s.guests {
		if n := s.nodes[name]; n != nil && n.Node != nil {
			v, predicate := s.judge(&f, n)
			t.add(known.rows[n.position], -1)
			t.add(refusal{v, predicate}, 1)
		}
	}
	return t
}

// count sets the fields of an error that count.
func (e *FitError) count(t tally) {
	e.Reasons, e.lasting = t.reasons, t.lasting
	for predicate := range t.predicates {
		e.by.add(predicate)
	}
}
