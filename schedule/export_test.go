package schedule

import (
	"fmt"
	"maps"
	"reflect"
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

// CheckLadders compares the ladder of each node with what its pods say.
func (s *State) CheckLadders() error {
	for name, n := range s.nodes {
		var want ladder
		want.pods = slices.SortedFunc(maps.Values(n.Pods), compareImportance)
		for _, p := range want.pods {
			want.starts = append(want.starts, started(p))
			if len(want.levels) == 0 || want.levels[0].priority != priority(p) {
				want.levels = slices.Insert(want.levels, 0, level{priority: priority(p)})
			}
			one := &want.levels[0]
			one.count++
			one.sum.add(p.Requests, 1)
			one.most.raise(p.Requests)
		}
		if !slices.Equal(n.ladder.pods, want.pods) || !slices.Equal(n.ladder.starts, want.starts) {
			return fmt.Errorf("%s: the pods %v, want %v", name, n.ladder.starts, want.starts)
		}
		if !slices.EqualFunc(n.ladder.levels, want.levels, sameLevel) {
			return fmt.Errorf("%s: the levels %+v, want %+v", name, n.ladder.levels, want.levels)
		}
	}
	return nil
}

// sameLevel compares two levels; a resource of which there is nothing is none.
func sameLevel(a, b level) bool {
	return a.priority == b.priority && a.count == b.count &&
		reflect.DeepEqual(a.sum.clone(), b.sum.clone()) && reflect.DeepEqual(a.most.clone(), b.most.clone())
}
