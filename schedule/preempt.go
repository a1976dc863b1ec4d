package schedule

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
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
// Preempt looks at all nodes. It changes nothing: see [State.Nominate] and [State.Evict].
func (s *State) Preempt(p *PodInfo, unfit *FitError, budgets []*policyv1.PodDisruptionBudget) (best Preemption, ok bool) {
	list := s.plansThatHelp(p, unfit, budgets)
	if len(list) == 0 {
		return best, false
	}
	return slices.MinFunc(list, comparePlans).Preemption, true
}

// plansThatHelp returns one for each node where a pod fits once others have ended. If there is none, unfit
// says why.
func (s *State) plansThatHelp(p *PodInfo, unfit *FitError, budgets []*policyv1.PodDisruptionBudget) (list []*plan) {
	if reason := s.mayNotPreempt(p); reason != "" {
		unfit.Preemption = "preemption: not eligible due to " + reason + "."
		return nil
	}
	refused := FitError{Nodes: len(s.order), Reasons: make(map[string]int)}
	if !s.hasLower(p) {
		refused.Reasons[unhelpful] = unfit.lasting
		refused.Reasons[noVictims] = len(s.order) - unfit.lasting
		maps.DeleteFunc(refused.Reasons, func(_ string, nodes int) bool { return nodes == 0 })
		unfit.Preemption = "preemption: " + refused.Error()
		return nil
	}
	plans := s.plansFor(p, budgets)
	for row := range plans {
		one := &plans[row]
		if reason := unfit.extenderKeeps(s.order[row]); reason != "" {
			refused.Reasons[reason]++
			continue
		}
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

// The reasons why preemption does not help on a node.
const (
	unhelpful = "Preemption is not helpful for scheduling"
	noVictims = "No preemption victims found for incoming pod"
)

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
	if d := started(a).Compare(started(b)); d != 0 {
		return d
	}
	return cmp.Compare(a.Key, b.Key)
}

// started returns when a pod has started. One that has not is the latest.
func started(p *PodInfo) time.Time {
	if t := p.Pod.Status.StartTime; t != nil {
		return t.Time
	}
	return time.Unix(math.MaxInt32, 0)
}

// splitByBudgets divides pods, the most important first, into those whose end a budget forbids after the
// ends of those before, and the others. A pod that ends already costs nothing.
func splitByBudgets(pods []*PodInfo, budgets []*policyv1.PodDisruptionBudget) (violating, harmless []*PodInfo) {
	if len(budgets) == 0 {
		return nil, pods
	}
	allowed := make([]int32, len(budgets))
	selectors := make([]labels.Selector, len(budgets))
	for i, b := range budgets {
		allowed[i] = b.Status.DisruptionsAllowed
		if s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err == nil && !s.Empty() {
			selectors[i] = s // one that is empty protects nothing here, as in Kubernetes
		}
	}
	for _, one := range pods {
		violates := false
		for i, b := range budgets {
			pod := one.Pod
			if selectors[i] == nil || b.Namespace != pod.Namespace || len(pod.Labels) == 0 || !selectors[i].Matches(labels.Set(pod.Labels)) {
				continue
			}
			if _, counted := b.Status.DisruptedPods[pod.Name]; counted {
				continue
			}
			allowed[i]--
			violates = violates || allowed[i] < 0
		}
		if violates {
			violating = append(violating, one)
		} else {
			harmless = append(harmless, one)
		}
	}
	return violating, harmless
}

// withPreemption returns message with what is said of preemption.
func withPreemption(message, preemption string) string {
	if preemption == "" {
		return message
	}
	return fmt.Sprintf("%s %s", message, preemption)
}
