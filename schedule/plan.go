package schedule

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	policyv1 "k8s.io/api/policy/v1"
)

// plan says what a pod must preempt on one node, or why that does not help.
type plan struct {
	Preemption
	cost
	reasons []string
	stage   stage
}

// stage says what is known of a plan.
type stage uint8

const (
	unknown stage = iota
	bounded       // the cost is at least what it says, and there may be no plan
	useless       // there is no plan, but the reasons are not known
	made
)

// cost orders plans.
type cost struct {
	violations int
	highest    int32     // the priority of the most important victim
	sum        int64     // of the weights of the priorities
	victims    int       // how many
	start      time.Time // the first start among the victims with the highest priority
}

// newPlan returns the plan of a preemption, which has victims.
func newPlan(p Preemption) plan {
	first := p.Victims[0] // they are in the order of their priorities and starts
	one := plan{Preemption: p, cost: cost{violations: p.Violations, highest: priority(first), victims: len(p.Victims), start: started(first)}, stage: made}
	for _, v := range p.Victims {
		one.sum += weight(priority(v))
	}
	return one
}

// comparePlans orders plans: the better one is less.
func comparePlans(a, b *plan) int {
	return cmp.Or(
		cmp.Compare(a.violations, b.violations),
		cmp.Compare(a.highest, b.highest),
		cmp.Compare(a.sum, b.sum),
		cmp.Compare(a.victims, b.victims),
		b.start.Compare(a.start),
		cmp.Compare(a.Node, b.Node),
	)
}

// planner makes the plans for a pod. Those of a class of pods are kept until the node changes.
type planner struct {
	*State
	pod      *PodInfo
	class    *class
	budgets  []budget
	measures []func(*NodeInfo) Resources
	plans    []plan // by row
	// global says that what the pod needs may depend on pods on other nodes, or on more than pods. local are
	// then the checks that need only the node.
	global bool
	local  []filter
	trial  nodeTrial
	// forget are the plans that hold only for this pod.
	forget []*plan
}

func (s *State) newPlanner(p *PodInfo, budgets []*policyv1.PodDisruptionBudget) *planner {
	c := s.class(p)
	pl := &planner{State: s, pod: p, class: c, budgets: s.selectors.of(budgets), measures: s.measures(p)}
	if len(s.compileOwn(p))+len(s.prepare(p)) > 0 {
		pl.global, pl.local, pl.plans = true, s.compile(p), make([]plan, len(s.order))
		return pl
	}
	if len(c.plans) != len(s.order) || !slices.Equal(c.budgets, budgets) {
		c.plans, c.budgets = make([]plan, len(s.order)), slices.Clone(budgets)
	}
	pl.plans, pl.trial.checks = c.plans, c.checks
	return pl
}

// done ends the use of the plans by one decision.
func (pl *planner) done() {
	for _, one := range pl.forget {
		one.stage = unknown
	}
}

// cheapest returns the best plan, or nil if there is none. It makes only those that may be the best by their
// bounds.
func (pl *planner) cheapest(unfit *FitError) (best *plan) {
	var queue planQueue
	for row := range pl.plans {
		if one := pl.bound(row); one.stage == made && one.reasons == nil && unfit.extenderKeeps(pl.order[row]) == "" {
			best = better(best, one)
		}
	}
	for row := range pl.plans {
		one := &pl.plans[row]
		if one.stage == bounded && (best == nil || comparePlans(one, best) < 0) && unfit.extenderKeeps(pl.order[row]) == "" {
			queue = append(queue, queuedPlan{one, row})
		}
	}
	heap.Init(&queue)
	for len(queue) > 0 && (best == nil || comparePlans(queue[0].plan, best) < 0) {
		if one := pl.make(heap.Pop(&queue).(queuedPlan).row); one.reasons == nil {
			best = better(best, one)
		}
	}
	return best
}

// better returns the better one of two plans, of which best may be nil.
func better(best, one *plan) *plan {
	if best == nil || comparePlans(one, best) < 0 {
		return one
	}
	return best
}

// planQueue is a heap of plans, the one with the lowest bound first.
type planQueue []queuedPlan

type queuedPlan struct {
	*plan
	row int
}

func (q planQueue) Len() int           { return len(q) }
func (q planQueue) Less(i, j int) bool { return comparePlans(q[i].plan, q[j].plan) < 0 }
func (q planQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *planQueue) Push(x any)        { *q = append(*q, x.(queuedPlan)) }
func (q *planQueue) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	*q = (*q)[:last]
	return x
}

// bound returns the plan of a row, of which at least a bound is known.
func (pl *planner) bound(row int) *plan {
	one, n := &pl.plans[row], pl.order[row]
	if one.stage != unknown {
		return one
	}
	if !pl.global && len(pl.guests[n.Node.Name]) == 0 {
		if v := pl.class.refuse(pl.order).rows[row].Verdict; v.Lasting || v.All {
			*one = plan{reasons: reasonUnhelpful, stage: made}
			return one
		}
	}
	c, ok := bound(n.byPriority().levels, priority(pl.pod), shortage(pl.measures, n))
	if !ok {
		*one = plan{stage: useless}
		return one
	}
	*one = plan{cost: c, stage: bounded}
	one.Node = n.Node.Name
	return one
}

// make returns the plan of a row.
func (pl *planner) make(row int) *plan {
	one, n := &pl.plans[row], pl.order[row]
	if one.stage == made {
		return one
	}
	if pl.global {
		*one = pl.plan(n, newStateTrial(pl.State, pl.pod, n, pl.local))
		return one
	}
	guests := pl.guestsBefore(pl.pod, n)
	if pl.mindsGuests(pl.pod, n, guests) {
		*one = pl.plan(n, newStateTrial(pl.State, pl.pod, n, pl.compile(pl.pod)))
		pl.forget = append(pl.forget, one)
		return one
	}
	pl.trial.reset(n, guests)
	*one = pl.plan(n, &pl.trial)
	if pl.State.guests[n.Node.Name][pl.pod.Key] != nil {
		// For a pod that the node is reserved for, it is another node than for other pods of the class.
		pl.forget = append(pl.forget, one)
	}
	return one
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
		return plan{reasons: reasonUnhelpful, stage: made}
	}
	lower := n.byPriority().below(priority(pl.pod))
	if len(lower) == 0 {
		return plan{reasons: reasonNoVictims, stage: made}
	}
	defer pl.try()()
	for _, one := range lower {
		t.remove(one)
	}
	defer t.end()
	if v := t.judge(); !v.OK() {
		return plan{reasons: v.Reasons, stage: made}
	}
	var found Preemption
	// Spare those whose budgets are spent before the others, and in each group the most important first.
	violating, harmless := splitByBudgets(lower, pl.budgets)
	for i, one := range slices.Concat(violating, harmless) {
		t.restore(one)
		if t.judge().OK() {
			continue
		}
		t.remove(one)
		found.Victims = append(found.Victims, one)
		if i < len(violating) {
			found.Violations++
		}
	}
	if len(found.Victims) == 0 {
		return plan{reasons: reasonNoVictims, stage: made} // the node has room by now
	}
	slices.SortFunc(found.Victims, compareImportance)
	found.Node = n.Node.Name
	return newPlan(found)
}

// The reasons why preemption does not help on a node.
const (
	unhelpful = "Preemption is not helpful for scheduling"
	noVictims = "No preemption victims found for incoming pod"
)

var reasonUnhelpful, reasonNoVictims = []string{unhelpful}, []string{noVictims}
