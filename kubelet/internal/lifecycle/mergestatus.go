package lifecycle

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ours lists the conditions that the kubelet manages.
var ours = map[corev1.PodConditionType]bool{
	corev1.PodScheduled: true, corev1.PodReadyToStartContainers: true, corev1.PodInitialized: true,
	corev1.ContainersReady: true, corev1.PodReady: true, corev1.DisruptionTarget: true,
	corev1.PodResizePending: true, corev1.PodResizeInProgress: true, corev1.AllContainersRestarting: true,
}

// passing lists those of ours that a pod does not always have.
var passing = map[corev1.PodConditionType]bool{corev1.PodResizePending: true, corev1.PodResizeInProgress: true}

// MergeStatus returns status with the parts that other writers manage taken from the API: their
// conditions, and fields unknown to the kubelet. A pod that has ended stays so, and counts of restarts
// never fall: an attempt that was created, reported, and removed before it was started has been counted.
// The status can be that of a kubelet whose cache is behind: observed generations and the times of
// transitions do not become older than in the API.
func MergeStatus(api, status *corev1.PodStatus, now time.Time) corev1.PodStatus {
	out := *status.DeepCopy()
	out.ObservedGeneration = max(out.ObservedGeneration, api.ObservedGeneration)
	out.NominatedNodeName = api.NominatedNodeName
	out.ResourceClaimStatuses = api.ResourceClaimStatuses
	if api.StartTime != nil {
		out.StartTime = api.StartTime
	}
	if hasEnded(api.Phase) {
		out.Phase, out.Reason, out.Message = api.Phase, api.Reason, api.Message
	}
	keepCounts(api.InitContainerStatuses, out.InitContainerStatuses)
	keepCounts(api.ContainerStatuses, out.ContainerStatuses)
	out.Conditions = nil
	for _, c := range api.Conditions {
		if ours[c.Type] {
			mine := findCondition(status, c.Type)
			if mine == nil && passing[c.Type] {
				continue
			}
			if mine != nil {
				kept := *mine
				if !passing[c.Type] {
					kept.LastTransitionTime = transition(&c, mine, now)
					kept.ObservedGeneration = max(mine.ObservedGeneration, c.ObservedGeneration)
				}
				out.Conditions = append(out.Conditions, kept)
				continue
			}
		}
		out.Conditions = append(out.Conditions, c)
	}
	for _, c := range status.Conditions {
		if ours[c.Type] && findCondition(api, c.Type) == nil {
			out.Conditions = append(out.Conditions, c)
		}
	}
	return out
}

// transition returns the time of the last transition of a condition. If the kubelet has not seen the one in
// the API, its own time is that of an earlier one.
func transition(api, mine *corev1.PodCondition, now time.Time) metav1.Time {
	switch {
	case mine.Status == api.Status:
		return api.LastTransitionTime
	case mine.LastTransitionTime.Before(&api.LastTransitionTime):
		return Seconds(now)
	}
	return mine.LastTransitionTime
}

// keepCounts raises the counts of restarts in now to those before.
func keepCounts(before, now []corev1.ContainerStatus) {
	for i := range now {
		if old := findStatus(before, now[i].Name); old != nil {
			now[i].RestartCount = max(now[i].RestartCount, old.RestartCount)
		}
	}
}
