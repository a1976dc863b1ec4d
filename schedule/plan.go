package schedule

import (
	"cmp"
	"math"
	"slices"
	"time"

	policyv1 "k8s.io/api/policy/v1"
)

// plan says what a pod must preempt on one node, or why that does not help.
type plan struct {
	Preemption
	reasons []string
	known   bool

	// The fields below are what plans are compared by.
	highest int32     // the priority of the most important victim
	sum     int64     // of the priorities
	start   time.Time // the first start among the victims with the highest priority
}

// plansFor returns a plan for each row. Those of a class of pods are kept until the node changes.
func (s *State) plansFor(p *PodInfo, budgets []*policyv1.PodDisruptionBudget) []plan {
	c := s.class(p)
	if len(s.compileOwn(p))+len(s.prepare(p)) > 0 {
		// What p needs may depend on pods on other nodes, or on more than pods.
		plans := make([]plan, len(s.order))
		local := s.compile(p)
		for row, n := range s.order {
			plans[row] = s.plan(p, n, newStateTrial(s, p, n, local), budgets)
		}
		return plans
	}
	if len(c.plans) != len(s.order) || !slices.Equal(c.budgets, budgets) {
		c.plans, c.budgets = make([]plan, len(s.order)), slices.Clone(budgets)
	}
	t := &nodeTrial{checks: c.checks}
	for row, n := range s.order {
		if c.plans[row].known {
			continue
		}
		guests := s.guestsBefore(p, n)
		if s.mindsGuests(p, n, guests) {
			c.plans[row] = s.plan(p, n, newStateTrial(s, p, n, s.compile(p)), budgets)
			continue
		}
		t.reset(n, guests)
		c.plans[row] = s.plan(p, n, t, budgets)
		// For a pod that the node is reserved for, it is another node than for other pods of the class.
		c.plans[row].known = s.guests[n.Node.Name][p.Key] == nil
	}
	return c.plans
}

// mindsGuests reports whether p needs more than the node once guests are on it.
func (s *State) mindsGuests(p *PodInfo, n *NodeInfo, guests []*PodInfo) bool {
	if len(guests) == 0 {
		return false
	}
	defer s.host(n, guests)()
	return len(s.prepare(p)) > 0
}

// plan returns what p must preempt on a node, or why that does not help.
func (s *State) plan(p *PodInfo, n *NodeInfo, t trial, budgets []*policyv1.PodDisruptionBudget) plan {
	if v := t.judge(); v.Lasting || v.All {
		return plan{reasons: []string{unhelpful}}
	}
	var lower []*PodInfo
	for _, other := range n.Pods {
		if priority(other) < priority(p) {
			lower = append(lower, other)
		}
	}
	if len(lower) == 0 {
		return plan{reasons: []string{noVictims}}
	}
	slices.SortFunc(lower, compareImportance)
	defer s.try()()
	for _, one := range lower {
		t.remove(one)
	}
	defer t.end()
	if v := t.judge(); !v.OK() {
		return plan{reasons: v.Reasons}
	}
	var made Preemption
	// Spare those whose budgets are spent before the others, and in each group the most important first.
	violating, harmless := splitByBudgets(lower, budgets)
	for i, one := range append(violating, harmless...) {
		t.restore(one)
		if t.judge().OK() {
			continue
		}
		t.remove(one)
		made.Victims = append(made.Victims, one)
		if i < len(violating) {
			made.Violations++
		}
	}
	if len(made.Victims) == 0 {
		return plan{reasons: []string{noVictims}} // the node has room by now
	}
	slices.SortFunc(made.Victims, compareImportance)
	made.Node = n.Node.Name
	return newPlan(made)
}

// newPlan returns the plan of a preemption, which has victims.
func newPlan(p Preemption) plan {
	first := p.Victims[0] // they are in the order of their priorities and starts
	made := plan{Preemption: p, highest: priority(first), start: started(first)}
	for _, v := range p.Victims {
		// Each counts, also one with a negative priority.
		made.sum += int64(priority(v)) + math.MaxInt32 + 1
	}
	return made
}

// comparePlans orders plans: the better one is less.
func comparePlans(a, b *plan) int {
	return cmp.Or(
		cmp.Compare(a.Violations, b.Violations),
		cmp.Compare(a.highest, b.highest),
		cmp.Compare(a.sum, b.sum),
		cmp.Compare(len(a.Victims), len(b.Victims)),
		b.start.Compare(a.start),
		cmp.Compare(a.Node, b.Node),
	)
}
