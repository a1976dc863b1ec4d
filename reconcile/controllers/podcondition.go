package controllers

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PodEnder marks pods, by patches of their status, and deletes them.
type PodEnder interface {
	Patcher[*corev1.Pod]
	Deleter
}

// podStatusPatch is a JSON merge patch of what controllers other than the
// kubelet say of a pod.
type podStatusPatch struct {
	metadataPatch
	Status struct {
		Phase              corev1.PodPhase       `json:"phase,omitempty"`
		ObservedGeneration int64                 `json:"observedGeneration,omitempty"`
		Conditions         []corev1.PodCondition `json:"conditions,omitempty"`
	} `json:"status"`
}

// patchPodStatus stores status, as far as it is ours to say, unless the pod is
// not the one that was looked at any more.
func patchPodStatus(ctx context.Context, patcher Patcher[*corev1.Pod], pod *corev1.Pod, status corev1.PodStatus) error {
	p := podStatusPatch{metadataPatch: newMetadataPatch(pod)}
	p.Status.Phase, p.Status.ObservedGeneration, p.Status.Conditions = status.Phase, status.ObservedGeneration, status.Conditions
	data, err := json.Marshal(p)
	if err == nil {
		_, err = patcher.Patch(ctx, pod.Namespace, pod.Name, types.MergePatchType, data, "status")
	}
	if err != nil {
		return fmt.Errorf("status of pod %s: %w", key(pod), err)
	}
	return nil
}

// disruption is the condition which says that a pod does not end of its own
// accord. A Job may take that as no failure.
func disruption(pod *corev1.Pod, reason, message string) *corev1.PodCondition {
	return &corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, Message: message,
		ObservedGeneration: pod.Generation,
	}
}

// setPodCondition reports whether it changed anything.
func setPodCondition(status *corev1.PodStatus, set corev1.PodCondition, now metav1.Time) bool {
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
