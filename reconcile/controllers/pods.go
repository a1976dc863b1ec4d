package controllers

import (
	"cmp"
	"math"
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
// counts as available; zero or less when it is. Without a time since when it is
// ready, it never comes nearer.
func availableIn(pod *corev1.Pod, minReadySeconds int32, now time.Time) time.Duration {
	if minReadySeconds == 0 {
		return 0
	}
	least, since := time.Duration(minReadySeconds)*time.Second, readyCondition(pod).LastTransitionTime
	if since.IsZero() {
		return least
	}
	return since.Add(least).Sub(now)
}

// rankForDeletion sorts pods, those to be deleted first in front: what has come
// less far goes first, and then what is younger or restarts more often. The
// order is total, so whoever sees the same pods deletes the same ones.
func rankForDeletion(pods []*corev1.Pod) {
	sortBy(pods, func(a, b *rank) int {
		return cmp.Or(
			a.compareProgress(b),
			youngerFirst(a.ready, b.ready),
			a.compareRestarts(b),
			youngerFirst(a.created, b.created),
		)
	})
}

// rankReplicas sorts pods like rankForDeletion but with regard to what users say
// they cost and to where they run: related has all the pods that count, those
// in pods among them. Times count by their order of magnitude only, seen from
// now, so that what goes is not all of one age; among those it is as good as
// random.
func rankReplicas(pods, related []*corev1.Pod, now time.Time) {
	onNode := make(map[string]int)
	for _, pod := range related {
		if !ended(pod) && pod.DeletionTimestamp == nil {
			onNode[pod.Spec.NodeName]++
		}
	}
	sortBy(pods, func(a, b *rank) int {
		return cmp.Or(
			a.compareProgress(b),
			cmp.Compare(a.cost, b.cost),
			cmp.Compare(onNode[b.pod.Spec.NodeName], onNode[a.pod.Spec.NodeName]),
			youngerRoughly(a.ready, b.ready, a, b, now),
			a.compareRestarts(b),
			youngerRoughly(a.created, b.created, a, b, now),
		)
	})
}

// rank is what decides about a pod.
type rank struct {
	pod               *corev1.Pod
	phase             int
	cost              int32
	restarts, sidecar int32     // the latter of containers that run beside the others
	ready, created    time.Time // ready is zero when it is not
}

func sortBy(pods []*corev1.Pod, compare func(a, b *rank) int) {
	ranks := make([]*rank, len(pods))
	for i, pod := range pods {
		r := &rank{pod: pod, phase: phaseRank(pod), cost: deletionCost(pod), created: pod.CreationTimestamp.Time, ready: readySince(pod)}
		r.restarts, r.sidecar = restarts(pod)
		ranks[i] = r
	}
	// The rules below can go round in a circle; then names decide where it is cut.
	slices.SortFunc(ranks, func(a, b *rank) int { return strings.Compare(a.pod.Name, b.pod.Name) })
	slices.SortStableFunc(ranks, compare)
	for i, r := range ranks {
		pods[i] = r.pod
	}
}

// compareProgress has pods without a node first, then by phase and readiness.
func (a *rank) compareProgress(b *rank) int {
	return cmp.Or(
		first(a.pod.Spec.NodeName == "", b.pod.Spec.NodeName == ""),
		cmp.Compare(a.phase, b.phase),
		first(!ready(a.pod), !ready(b.pod)),
	)
}

func (a *rank) compareRestarts(b *rank) int {
	return cmp.Or(cmp.Compare(b.restarts, a.restarts), cmp.Compare(b.sidecar, a.sidecar))
}

// youngerFirst has the unknown time first.
func youngerFirst(a, b time.Time) int {
	return cmp.Or(first(a.IsZero(), b.IsZero()), b.Compare(a))
}

func youngerRoughly(at, bt time.Time, a, b *rank, now time.Time) int {
	switch {
	case at.Equal(bt):
		return 0
	case at.IsZero() || bt.IsZero():
		return youngerFirst(at, bt)
	}
	return cmp.Or(cmp.Compare(magnitude(now.Sub(at)), magnitude(now.Sub(bt))), strings.Compare(string(a.pod.UID), string(b.pod.UID)))
}

// magnitude is the logarithm of an age to the base of two.
func magnitude(age time.Duration) int {
	if age <= 0 {
		return -1
	}
	return int(math.Log2(float64(age)))
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

// deletionCost is zero where the annotation is missing or not a number as
// Kubernetes has it: without a plus sign or leading zeros.
func deletionCost(pod *corev1.Pod) int32 {
	text := pod.Annotations[corev1.PodDeletionCost]
	cost, err := strconv.ParseInt(text, 10, 32)
	if err != nil || text[0] == '+' || text[0] == '0' && text != "0" {
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

// restarts are the most of any container, and of any init container that stays.
func restarts(pod *corev1.Pod) (most, sidecar int32) {
	for i := range pod.Status.ContainerStatuses {
		most = max(most, pod.Status.ContainerStatuses[i].RestartCount)
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if value(c.RestartPolicy, "") != corev1.ContainerRestartPolicyAlways {
			continue
		}
		for j := range pod.Status.InitContainerStatuses {
			if s := &pod.Status.InitContainerStatuses[j]; s.Name == c.Name {
				sidecar = max(sidecar, s.RestartCount)
			}
		}
	}
	return most, sidecar
}
