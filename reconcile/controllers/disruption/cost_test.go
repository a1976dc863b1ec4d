package disruption

import (
	"fmt"
	"testing"
	"time"

	"github.com/planekit/planekit/internal/used"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestCostOfLongSelectors: 1,000 changes of pods beside a budget with a selector of about 1 MB take little time.
func TestCostOfLongSelectors(t *testing.T) {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b"}}
	b.Spec.Selector = &metav1.LabelSelector{}
	for i := range 20_000 {
		b.Spec.Selector.MatchExpressions = append(b.Spec.Selector.MatchExpressions,
			metav1.LabelSelectorRequirement{Key: fmt.Sprint("key", i), Operator: metav1.LabelSelectorOpDoesNotExist})
	}
	budgets := localcache.NewMap(b)
	c := &Controller{config: Config{
		BudgetsByNamespace: localcache.Scan(budgets, func(b *policyv1.PodDisruptionBudget) []string { return []string{b.Namespace} }),
	}}
	pod := func(value string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", Labels: map[string]string{"key7": value}}}
	}
	before := used.Processor()
	for i := range 1000 {
		c.podChanged(pod(fmt.Sprint(i)), pod(fmt.Sprint(i+1))) // would enqueue the budget, and panic, if it matched
	}
	took := used.Processor() - before
	t.Logf("1,000 changes take %v", took)
	if took > 5*time.Second {
		t.Errorf("podChanged() 1,000 times takes %v, want less than 5s", took)
	}
}
