package podstatus

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/owner"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// patch is a JSON merge patch of the fields that controllers write. The kubelet writes the rest.
type patch struct {
	owner.MetadataPatch
	Status struct {
		Phase              corev1.PodPhase       `json:"phase,omitempty"`
		ObservedGeneration int64                 `json:"observedGeneration,omitempty"`
		Conditions         []corev1.PodCondition `json:"conditions,omitempty"`
	} `json:"status"`
}

// Patch writes the phase, the observed generation and the conditions of status. It fails with a
// conflict if pod is not the newest version.
func Patch(ctx context.Context, patcher controllers.Patcher[*corev1.Pod], pod *corev1.Pod, status corev1.PodStatus) error {
	p := patch{MetadataPatch: owner.NewMetadataPatch(pod)}
	p.Status.Phase, p.Status.ObservedGeneration, p.Status.Conditions = status.Phase, status.ObservedGeneration, status.Conditions
	data, err := json.Marshal(p)
	if err == nil {
		_, err = patcher.Patch(ctx, pod.Namespace, pod.Name, types.MergePatchType, data, "status")
	}
	if err != nil {
		return fmt.Errorf("status of pod %s: %w", localcache.KeyOf(pod), err)
	}
	return nil
}

// Disruption returns the condition DisruptionTarget: the cluster ends the pod, not the pod itself.
// A Job may ignore such a failure.
func Disruption(pod *corev1.Pod, reason, message string) *corev1.PodCondition {
	return &corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, Message: message,
		ObservedGeneration: pod.Generation,
	}
}

// SetCondition sets a condition in status and reports whether status changed.
func SetCondition(status *corev1.PodStatus, set corev1.PodCondition, now metav1.Time) bool {
	set.LastTransitionTime = now
	for i := range status.Conditions {
		c := &status.Conditions[i]
		if c.Type != set.Type {
			continue
		}
		if c.Status == set.Status {
			set.LastTransitionTime = c.LastTransitionTime
		}
		set.LastProbeTime = c.LastProbeTime
		changed := *c != set
		*c = set
		return changed
	}
	status.Conditions = append(status.Conditions, set)
	return true
}
