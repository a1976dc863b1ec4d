package disruption

import (
	"context"
	"slices"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	"github.com/planekit/planekit/reconcile/controllers/internal/podstatus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// conditionChanged enqueues a pod for when its condition DisruptionTarget is stale.
func (c *Controller) conditionChanged(_, new *corev1.Pod) {
	if new == nil {
		return
	}
	if left, marked := disruptionStale(new, time.Now()); marked {
		c.conditions.EnqueueAfter(localcache.KeyOf(new), left)
	}
}

// disruptionStale reports whether the condition DisruptionTarget of a pod can become stale, and in
// what time. A condition that a kubelet has set cannot: the kubelet may take any time to end the
// pod.
func disruptionStale(pod *corev1.Pod, now time.Time) (left time.Duration, marked bool) {
	if pod.DeletionTimestamp != nil || podstatus.Ended(pod) {
		return 0, false
	}
	at := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.DisruptionTarget })
	if at < 0 {
		return 0, false
	}
	condition := &pod.Status.Conditions[at]
	if condition.Status != corev1.ConditionTrue || condition.Reason == corev1.PodReasonTerminationByKubelet {
		return 0, false
	}
	return max(0, condition.LastTransitionTime.Add(deletionPatience).Sub(now)), true
}

// withdraw sets the condition DisruptionTarget of a pod to False once it is stale.
func (c *Controller) withdraw(ctx context.Context, key string) (reconcile.Result, error) {
	pod, ok := c.config.Pods.Get(key)
	if !ok {
		return reconcile.Result{}, nil
	}
	now := time.Now()
	left, marked := disruptionStale(pod, now)
	if !marked || left > 0 {
		return reconcile.Result{After: left}, nil
	}
	status := corev1.PodStatus{Conditions: slices.Clone(pod.Status.Conditions)}
	podstatus.SetCondition(&status, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionFalse, ObservedGeneration: pod.Generation,
	}, metav1.NewTime(now))
	err := podstatus.Patch(ctx, c.config.PodWriter, pod, status)
	if apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, err
}
