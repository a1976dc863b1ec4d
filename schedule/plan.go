package schedule

import (
	"cmp"
	"container/heap"
	"slices"

	policyv1 "k8s.io/api/policy/v1"
)

// plan says what a pod must preempt on one node, or why that does not help.
type plan struct {
	Preemption
	cost
	reasons []string
}

// cost orders plans.
type cost struct {
	violations, victims int32 // how many
	highest             int32 // the priority of the most important victim
	sum                 int64 // of the weights of the priorities
	start               int64 // the first start among the victims with the highest priority; see started
}

// newPlan returns the plan of a preemption, which has victims.
func newPlan(p Preemption) plan {
	first := p.Victims[0] // they are in the order of their priorities and starts
	one := plan{Preemption: p, cost: cost{violations: int32(p.Violations), highest: priority(first), victims: int32(len(p.Victims)), start: started(first)}}
	for _, v := range p.Victims {
		one.sum += weight(priority(v))
	}
	return one
}

// comparePlans orders plans: the better one is less.
func comparePlans(a, b *plan) int {
	return cmp.Or(a.cost.compare(&b.cost), cmp.Compare(a.Node, b.Node))
}

func (a *cost) compare(b *cost) int {
	return cmp.Or(
		cmp.Compare(a.violations, b.violations),
		cmp.Compare(a.highest, b.highest),
		cmp.Compare(a.sum, b.sum),
		cmp.Compare(a.victims, b.victims),
		cmp.Compare(b.start, a.start),
	)
}

// plans holds what is known of the plan of each node, by row. The rows are small and without pointers, because a
// decision looks at all of them.
type plans struct {
	rows []planRow
	// made are the plans that were made.
	made []*plan
}

// planRow says what is known of a plan, and its cost.
type planRow struct {
	cost
	stage stage
}

// stage says what is known of a plan.
type stage uint8

const (
	unknown stage = iota
	bounded       // the cost is at least what the row says, and there may be no plan
	useless       // there is no plan, but the reasons are not known
	helpful       // the plan is made
	refuted       // there is no plan, and the reasons are known
)

func newPlans(nodes int) *plans { return &plans{make([]planRow, nodes), make([]*plan, nodes)} }

// forget forgets what is known of a row.
func (p *plans) forget(row int) { p.rows[row], p.made[row] = planRow{}, nil }

// set keeps the plan of a row.
func (p *plans) set(row int, one plan) {
	p.made[row] = &one
	if p.rows[row] = (planRow{one.cost, helpful}); one.reasons != nil {
		p.rows[row].stage = refuted
	}
}

// planner makes the plans for a pod. Those of a class of pods are kept until the node changes.
type planner struct {
	*State
	pod      *PodInfo
	class    *class
	budgets  []budget
	measures []func(*NodeInfo) Resources
	plans    *plans
	// global says that what the pod needs may depend on pods on other nodes, or on more than pods. local are
	// then the checks that need only the node.
	global bool
	local  []filter
	trial  nodeTrial
	// own are the rows of the plans that hold only for this pod.
	own []int
}

func (s *State) newPlanner(p *PodInfo, budgets []*policyv1.PodDisruptionBudget) *planner {
	c := s.class(p)
	pl := &planner{State: s, pod: p, class: c, budgets: s.selectors.of(budgets), measures: s.measures(p)}
	if len(s.compileOwn(p))+len(s.prepare(p)) > 0 {
		pl.global, pl.local, pl.plans = true, s.compile(p), newPlans(len(s.order))
		return pl
	}
	if c.plans == nil || !slices.Equal(c.budgets, budgets) {
		c.plans, c.budgets = newPlans(len(s.order)), slices.Clone(budgets)
	}
	pl.plans, pl.trial.checks, pl.trial.measures = c.plans, c.checks, pl.measures
	return pl
}

// done ends the use of the plans by one decision.
func (pl *planner) done() {
	for _, row := range pl.own {
		pl.plans.forget(row)
	}
}

// cheapest returns the best plan, or nil if there is none. It makes only those that may be the best by their
// bounds.
func (pl *planner) cheapest(unfit *FitError) *plan {
	best, lowest := -1, -1 // the rows of the best plan and of the lowest bound
	for row := range pl.plans.rows {
		switch pl.bound(row) {
		case helpful:
			best = pl.better(best, row, unfit)
		case bounded:
			lowest = pl.better(lowest, row, unfit)
		}
	}
	if lowest >= 0 && pl.less(lowest, best) {
		best = pl.makeBetter(best, lowest)
	}
	// A bound is mostly what the plan costs, so that few others may be better.
	queue := planQueue{planner: pl}
	for row := range pl.plans.rows {
		if pl.plans.rows[row].stage == bounded && pl.less(row, best) && unfit.extenderKeeps(pl.order[row]) == "" {
			queue.rows = append(queue.rows, row)
		}
	}
	heap.Init(&queue)
	for queue.Len() > 0 && pl.less(queue.rows[0], best) {
		best = pl.makeBetter(best, heap.Pop(&queue).(int))
	}
	if best < 0 {
		return nil
	}
	return pl.plans.made[best]
}

// better returns row if it is less than best and no extender keeps its node, and best otherwise.
func (pl *planner) better(best, row int, unfit *FitError) int {
	if pl.less(row, best) && unfit.extenderKeeps(pl.order[row]) == "" {
		return row
	}
	return best
}

// makeBetter makes the plan of row, and returns the row of the better one of it and the plan of best.
func (pl *planner) makeBetter(best, row int) int {
	if pl.make(row).reasons == nil && pl.less(row, best) {
		return row
	}
	return best
}

// less reports whether the cost of row a is less than that of row b. Any is less than that of no row, -1.
func (pl *planner) less(a, b int) bool {
	if b < 0 {
		return true
	}
	c := pl.plans.rows[a].compare(&pl.plans.rows[b].cost)
	return c < 0 || c == 0 && pl.order[a].Node.Name < pl.order[b].Node.Name
}

// planQueue is a heap of rows, the one with the lowest bound first.
type planQueue struct {
	*planner
	rows []int
}

func (q *planQueue) Len() int           { return len(q.rows) }
func (q *planQueue) Less(i, j int) bool { return q.less(q.rows[i], q.rows[j]) }
func (q *planQueue) Swap(i, j int)      { q.rows[i], q.rows[j] = q.rows[j], q.rows[i] }
func (q *planQueue) Push(x any)         { q.rows = append(q.rows, x.(int)) }
func (q *planQueue) Pop() any {
	last := len(q.rows) - 1
	row := q.rows[last]
	q.rows = q.rows[:last]
	return row
}

// bound returns what is known of the plan of a row, which is at least a bound.
func (pl *planner) bound(row int) stage {
	one := &pl.plans.rows[row]
	if one.stage != unknown {
		return one.stage
	}
	n := pl.order[row]
	one.stage = useless
	if !pl.global && (len(pl.guests) == 0 || len(pl.guests[n.Node.Name]) == 0) {
		if v := &pl.class.refuse(pl.order).rows[row].Verdict; v.Lasting || v.All {
			return useless
		}
	}
	if c, ok := n.ladder.bound(priority(pl.pod), shortage(pl.measures, n)); ok {
		one.cost, one.stage = c, bounded
	}
	return one.stage
}

// make returns the plan of a row.
func (pl *planner) make(row int) *plan {
	if pl.plans.made[row] != nil {
		return pl.plans.made[row]
	}
	n := pl.order[row]
	guests := pl.guestsBefore(pl.pod, n)
	switch {
	case pl.global:
		pl.plans.set(row, pl.plan(n, newStateTrial(pl.State, pl.pod, n, pl.local)))
	case pl.mindsGuests(pl.pod, n, guests):
		pl.plans.set(row, pl.plan(n, newStateTrial(pl.State, pl.pod, n, pl.compile(pl.pod))))
		pl.own = append(pl.own, row)
	default:
		pl.trial.reset(n, guests)
		pl.plans.set(row, pl.plan(n, &pl.trial))
		if pl.State.guests[n.Node.Name][pl.pod.Key] != nil {
			// For a pod that the node is reserved for, it is another node than for other pods of the class.
			pl.own = append(pl.own, row)
		}
	}
	return pl.plans.made[row]
}

// mindsGuests reports whether p needs more than the node once guests are on it.
func (s *State) mindsGuests(p *PodInfo, n *NodeInfo, guests []*PodInfo) bool {
	if len(guests) == 0 {
		return false
	}
	defer s.host(n, guests)()
	return len(s.prepare(p)) > 0
}

// plan returns what the pod must preempt on a node, or why that does not help.
func (pl *planner) plan(n *NodeInfo, t trial) plan {
	if v := t.judge(); v.Lasting || v.All {
		return plan{reasons: reasonUnhelpful}
	}
	lower := n.ladder.below(priority(pl.pod))
	if len(lower) == 0 {
		return plan{reasons: reasonNoVictims}
	}
	defer pl.try()()
	t.clear(lower)
	defer t.end()
	if v := t.judge(); !v.OK() {
		return plan{reasons: v.Reasons}
	}
	var found Preemption
	// Spare those whose budgets are spent before the others, and in each group the most important first.
	violating, harmless := splitByBudgets(lower, pl.budgets)
	for _, one := range violating {
		if !t.restore(one) {
			found.Victims = append(found.Victims, one)
		}
	}
	found.Violations = len(found.Victims)
	for _, one := range harmless {
		if !t.restore(one) {
			found.Victims = append(found.Victims, one)
		}
	}
	if len(found.Victims) == 0 {
		return plan{reasons: reasonNoVictims} // the node has room by now
	}
	if found.Violations > 0 {
		slices.SortFunc(found.Victims, compareImportance)
	}
	found.Node = n.Node.Name
	return newPlan(found)
}

// The reasons why preemption does not help on a node.
const (
	unhelpful = "Preemption is not helpful for scheduling"
	noVictims = "No preemption victims found for incoming pod"
)

var reasonUnhelpful, reasonNoVictims = []string{unhelpful}, []string{noVictims}
