package controllers

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// ended tells that a pod will not run again.
func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func readyCondition(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodReady {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

func ready(pod *corev1.Pod) bool {
	c := readyCondition(pod)
	return c != nil && c.Status == corev1.ConditionTrue
}

// availableIn tells how long a ready pod still has to be ready before it
// counts as available; zero or less when it is.
func availableIn(pod *corev1.Pod, minReadySeconds int32, now time.Time) time.Duration {
	if minReadySeconds == 0 {
		return 0
	}
	since := readyCondition(pod).LastTransitionTime
	return since.Add(time.Duration(minReadySeconds) * time.Second).Sub(now)
}

// rankForDeletion sorts pods, those to be deleted first in front. The order is
// total, so whoever sees the same pods deletes the same ones.
func rankForDeletion(pods []*corev1.Pod) {
	onNode := make(map[string]int) // ready ones
	for _, pod := range pods {
		if ready(pod) {
			onNode[pod.Spec.NodeName]++
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(
			first(a.Spec.NodeName == "", b.Spec.NodeName == ""),
			cmp.Compare(phaseRank(a), phaseRank(b)),
			first(!ready(a), !ready(b)),
			cmp.Compare(deletionCost(a), deletionCost(b)),
			cmp.Compare(onNode[b.Spec.NodeName], onNode[a.Spec.NodeName]),
			readySince(b).Compare(readySince(a)),
			cmp.Compare(restarts(b), restarts(a)),
			b.CreationTimestamp.Compare(a.CreationTimestamp.Time),
			strings.Compare(a.Name, b.Name),
		)
	})
}

// first orders what is before what is not.
func first(a, b bool) int {
	switch {
	case a && !b:
		return -1
	case b && !a:
		return 1
	}
	return 0
}

func phaseRank(pod *corev1.Pod) int {
	switch pod.Status.Phase {
	case corev1.PodRunning:
		return 2
	case corev1.PodUnknown:
		return 1
	}
	return 0
}

func deletionCost(pod *corev1.Pod) int32 {
	cost, err := strconv.ParseInt(pod.Annotations[corev1.PodDeletionCost], 10, 32)
	if err != nil {
		return 0
	}
	return int32(cost)
}

func readySince(pod *corev1.Pod) time.Time {
	if c := readyCondition(pod); c != nil && c.Status == corev1.ConditionTrue {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}

func restarts(pod *corev1.Pod) (most int32) {
	for i := range pod.Status.ContainerStatuses {
		most = max(most, pod.Status.ContainerStatuses[i].RestartCount)
	}
	return most
}
