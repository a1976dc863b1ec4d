package schedule

import (
	"slices"

	"github.com/planekit/planekit/internal/selector"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// budget is a disruption budget with its selector.
type budget struct {
	*policyv1.PodDisruptionBudget
	selector labels.Selector
}

// protects reports whether the budget counts the end of a pod.
func (b *budget) protects(p *PodInfo) bool {
	pod := p.Pod
	if b.Namespace != pod.Namespace || len(pod.Labels) == 0 || !b.selector.Matches(labels.Set(pod.Labels)) {
		return false
	}
	_, counted := b.Status.DisruptedPods[pod.Name]
	return !counted
}

// budgetCache keeps the selectors of the last budgets.
type budgetCache struct {
	list    []*policyv1.PodDisruptionBudget
	budgets []budget
}

// of returns the budgets that protect any pod.
func (c *budgetCache) of(list []*policyv1.PodDisruptionBudget) []budget {
	if slices.Equal(c.list, list) {
		return c.budgets
	}
	c.list, c.budgets = slices.Clone(list), nil
	for _, b := range list {
		// A selector that is empty protects nothing here, as in Kubernetes.
		if s, err := selector.Of(b.Spec.Selector); err == nil && !s.Empty() {
			c.budgets = append(c.budgets, budget{b, s})
		}
	}
	return c.budgets
}

// splitByBudgets divides pods, the most important first, into those whose end a budget forbids after the
// ends of those before, and the others. A pod that ends already costs nothing.
func splitByBudgets(pods []*PodInfo, budgets []budget) (violating, harmless []*PodInfo) {
	if len(budgets) == 0 {
		return nil, pods
	}
	allowed := make([]int32, len(budgets))
	for i := range budgets {
		allowed[i] = budgets[i].Status.DisruptionsAllowed
	}
	for _, one := range pods {
		violates := false
		for i := range budgets {
			if budgets[i].protects(one) {
				allowed[i]--
				violates = violates || allowed[i] < 0
			}
		}
		if violates {
			violating = append(violating, one)
		} else {
			harmless = append(harmless, one)
		}
	}
	return violating, harmless
}
