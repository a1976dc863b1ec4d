package schedule

import (
	"slices"

	policyv1 "k8s.io/api/policy/v1"
)

// PreemptAll is Preempt that makes the plans of all nodes.
func (s *State) PreemptAll(p *PodInfo, unfit *FitError, budgets []*policyv1.PodDisruptionBudget) (best Preemption, ok bool) {
	list := s.plansThatHelp(p, unfit, budgets)
	if len(list) == 0 {
		return best, false
	}
	return slices.MinFunc(list, comparePlans).Preemption, true
}
