package schedule

import (
	"cmp"
	"fmt"
	"maps"
	"math"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
)

// Preemption says which pods must end so that a pod of higher priority fits a node.
type Preemption struct {
	Node string
	// Victims have a lower priority than the pod. The most important one is first.
	Victims []*PodInfo
	// Violations counts the victims whose disruption budgets allow no further disruption.
	Violations int
}

// Preempt chooses a node on which a pod fits once pods of lower priority have ended, and the fewest and
// least important of them, as kube-scheduler does:
//
//   - fewest violations of disruption budgets;
//   - then the lowest priority of the most important victim;
//   - then the lowest sum of priorities;
//   - then the fewest victims;
//   - then the latest start of the most important victims;
//   - then the first by name.
//
// unfit is the error of Decide. If there is no such node, Preempt says why in unfit, and ok is false.
// Preempt considers all nodes. It changes nothing: see [State.Nominate] and [State.Evict].
func (s *State) Preempt(p *PodInfo, unfit *FitError, budgets []*policyv1.PodDisruptionBudget) (best Preemption, ok bool) {
	if !s.canPreempt(p, unfit) {
		return best, false
	}
	planner := s.newPlanner(p, budgets)
	defer planner.done()
	if one := planner.cheapest(unfit); one != nil {
		return one.Preemption, true
	}
	planner.all(unfit) // says why
	return best, false
}

// plansThatHelp returns one for each node where a pod fits once others have ended. If there is none, unfit
// says why.
func (s *State) plansThatHelp(p *PodInfo, unfit *FitError, budgets []*policyv1.PodDisruptionBudget) (list []*plan) {
	if !s.canPreempt(p, unfit) {
		return nil
	}
	planner := s.newPlanner(p, budgets)
	defer planner.done()
	return planner.all(unfit)
}

// canPreempt reports whether a pod may preempt others, and whether there are any. If not, unfit says why.
func (s *State) canPreempt(p *PodInfo, unfit *FitError) bool {
	if reason := s.mayNotPreempt(p); reason != "" {
		unfit.Preemption = "preemption: not eligible due to " + reason + "."
		return false
	}
	if s.hasLower(p) {
		return true
	}
	refused := FitError{Nodes: len(s.order), Reasons: make(map[string]int)}
	refused.Reasons[unhelpful] = unfit.lasting
	refused.Reasons[noVictims] = len(s.order) - unfit.lasting
	maps.DeleteFunc(refused.Reasons, func(_ string, nodes int) bool { return nodes == 0 })
	unfit.Preemption = "preemption: " + refused.Error()
	return false
}

// all returns the plans that help. If there is none, unfit says why.
func (pl *planner) all(unfit *FitError) (list []*plan) {
	refused := FitError{Nodes: len(pl.order), Reasons: make(map[string]int)}
	for row, n := range pl.order {
		if reason := unfit.extenderKeeps(n); reason != "" {
			refused.Reasons[reason]++
			continue
		}
		one := pl.make(row)
		for _, reason := range one.reasons {
			refused.Reasons[reason]++
		}
		if one.reasons == nil {
			list = append(list, one)
		}
	}
	if len(list) == 0 {
		unfit.Preemption = "preemption: " + refused.Error()
	}
	return list
}

// hasLower reports whether any pod on a node has a lower priority than p.
func (s *State) hasLower(p *PodInfo) bool {
	for other := range s.priorityOf {
		if other < priority(p) {
			return true
		}
	}
	return false
}

// mayNotPreempt returns why a pod must not preempt, or "".
func (s *State) mayNotPreempt(p *PodInfo) string {
	if policy := p.Pod.Spec.PreemptionPolicy; policy != nil && *policy == corev1.PreemptNever {
		return "preemptionPolicy=Never"
	}
	if node, ok := s.nominees[p.Key]; ok {
		if n := s.nodes[node]; n != nil && s.endsFor(p, n) {
			return "a terminating pod on the nominated node"
		}
	}
	return ""
}

// endsFor reports whether a pod on a node that p may preempt is ending.
func (s *State) endsFor(p *PodInfo, n *NodeInfo) bool {
	for _, other := range n.Pods {
		if priority(other) < priority(p) && s.ends(other) {
			return true
		}
	}
	return false
}

// ends reports whether a pod on a node is ending, or was evicted and does not say so yet.
func (s *State) ends(p *PodInfo) bool {
	return p.Pod.DeletionTimestamp != nil || s.pods[p.Key].evicted
}

// compareImportance orders pods by priority and by how long they have run.
func compareImportance(a, b *PodInfo) int {
	if d := cmp.Compare(priority(b), priority(a)); d != 0 {
		return d
	}
	if d := cmp.Compare(started(a), started(b)); d != 0 {
		return d
	}
	return cmp.Compare(a.Key, b.Key)
}

// started returns when a pod has started, in microseconds of Unix time. One that has not is the latest.
func started(p *PodInfo) int64 {
	if t := p.Pod.Status.StartTime; t != nil {
		return t.UnixMicro()
	}
	return math.MaxInt64
}

// withPreemption returns message with what is said of preemption.
func withPreemption(message, preemption string) string {
	if preemption == "" {
		return message
	}
	return fmt.Sprintf("%s %s", message, preemption)
}
