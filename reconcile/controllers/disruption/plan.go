package disruption

import (
	"cmp"
	"time"

	"github.com/planekit/planekit/reconcile/controllers/internal/optional"
	"github.com/planekit/planekit/reconcile/controllers/internal/podstatus"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// deletionPatience is how long a budget waits for the deletion of an evicted pod, and how long a
// pod that is not deleted keeps the condition DisruptionTarget.
const deletionPatience = 2 * time.Minute

// budgetCount holds how many pods a budget expects, and how many of them must be healthy.
type budgetCount struct {
	expected, healthy int32
}

// countBudget returns how many pods b expects and how many must be healthy. scale returns how many
// pods their controllers request together, and whether there are pods without a controller; it is
// called only if b counts in percent.
func countBudget(b *policyv1.PodDisruptionBudget, pods []*corev1.Pod, scale func() (int32, bool, error)) (count budgetCount, unmanaged bool, err error) {
	most, least := b.Spec.MaxUnavailable, b.Spec.MinAvailable
	switch {
	case most == nil && least == nil:
		return budgetCount{}, false, nil
	case most == nil && least.Type == intstr.Int:
		return budgetCount{expected: int32(len(pods)), healthy: least.IntVal}, false, nil
	}
	share := cmp.Or(most, least)
	if count.expected, unmanaged, err = scale(); err != nil {
		return budgetCount{}, false, err
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(share, int(count.expected), true)
	if err != nil {
		return budgetCount{}, false, err
	}
	count.healthy = int32(n)
	if most != nil {
		count.healthy = max(0, count.expected-int32(n))
	}
	return count, unmanaged, nil
}

// budgetPlan is the status that a budget should have.
type budgetPlan struct {
	status policyv1.PodDisruptionBudgetStatus
	// overdue are pods whose eviction was granted and that were not deleted in time.
	overdue []*corev1.Pod
	// again is when the next eviction is overdue; zero if there is none.
	again time.Duration
}

// planBudget computes the status of b from all pods that it selects.
func planBudget(b *policyv1.PodDisruptionBudget, pods []*corev1.Pod, count budgetCount, now time.Time) budgetPlan {
	p := budgetPlan{status: policyv1.PodDisruptionBudgetStatus{
		ObservedGeneration: b.Generation,
		ExpectedPods:       count.expected,
		DesiredHealthy:     count.healthy,
		DisruptedPods:      map[string]metav1.Time{},
	}}
	byName := make(map[string]*corev1.Pod, len(pods))
	for _, pod := range pods {
		byName[pod.Name] = pod
	}
	for name, at := range b.Status.DisruptedPods {
		pod := byName[name]
		if evictionOver(pod, at) {
			continue
		}
		left := at.Add(deletionPatience).Sub(now)
		switch {
		case left >= 0:
			p.status.DisruptedPods[name] = at
			if left += time.Nanosecond; p.again == 0 || left < p.again { // a pod is overdue after its time, not at it
				p.again = left
			}
		case pod != nil && pod.DeletionTimestamp == nil:
			p.overdue = append(p.overdue, pod)
		}
	}
	for _, pod := range pods {
		if _, evicted := p.status.DisruptedPods[pod.Name]; !evicted && pod.DeletionTimestamp == nil && podstatus.Ready(pod) {
			p.status.CurrentHealthy++
		}
	}
	// Before its first pods are counted, a budget allows nothing.
	if count.expected > 0 {
		p.status.DisruptionsAllowed = max(0, p.status.CurrentHealthy-count.healthy)
	}
	p.status.Conditions = budgetConditions(b, p.status.DisruptionsAllowed)
	return p
}

// evictionOver reports whether an eviction that was granted at a time needs no more attention,
// because the cache shows the pod being deleted, or a later pod of the same name. pod is nil if the
// cache has none: then the eviction is not over, because the cache may not show the pod yet.
func evictionOver(pod *corev1.Pod, at metav1.Time) bool {
	switch {
	case pod == nil:
		return false
	case pod.DeletionTimestamp != nil:
		// A pod that was deleted before the eviction is a predecessor of the evicted one.
		asked := pod.DeletionTimestamp.Add(-time.Duration(optional.Value(pod.DeletionGracePeriodSeconds, 0)) * time.Second)
		return !at.After(asked)
	}
	return pod.CreationTimestamp.After(at.Time)
}

func budgetConditions(b *policyv1.PodDisruptionBudget, allowed int32) []metav1.Condition {
	c := metav1.Condition{
		Type: policyv1.DisruptionAllowedCondition, ObservedGeneration: b.Generation,
		Status: metav1.ConditionFalse, Reason: policyv1.InsufficientPodsReason,
	}
	if allowed > 0 {
		c.Status, c.Reason = metav1.ConditionTrue, policyv1.SufficientPodsReason
	}
	return withCondition(b.Status.Conditions, c)
}

// failedBudget returns the status of a budget that could not be computed: it allows nothing and has
// the reason.
func failedBudget(b *policyv1.PodDisruptionBudget, err error) policyv1.PodDisruptionBudgetStatus {
	status := *b.Status.DeepCopy()
	status.DisruptionsAllowed = 0
	status.Conditions = withCondition(status.Conditions, metav1.Condition{
		Type: policyv1.DisruptionAllowedCondition, ObservedGeneration: status.ObservedGeneration,
		Status: metav1.ConditionFalse, Reason: policyv1.SyncFailedReason, Message: err.Error(),
	})
	return status
}

// withCondition returns a copy of conditions with c set in it.
func withCondition(conditions []metav1.Condition, c metav1.Condition) []metav1.Condition {
	out := append([]metav1.Condition(nil), conditions...)
	meta.SetStatusCondition(&out, c)
	return out
}
