// Package podstatus reads and writes the status of pods, and ranks pods for deletion.
package podstatus

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/planekit/planekit/reconcile/controllers/internal/optional"
	corev1 "k8s.io/api/core/v1"
)

// Ended reports whether a pod has ended: it will not run again.
func Ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// ReadyCondition returns the condition Ready of a pod, or nil.
func ReadyCondition(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodReady {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// Ready reports whether a pod is ready.
func Ready(pod *corev1.Pod) bool {
	c := ReadyCondition(pod)
	return c != nil && c.Status == corev1.ConditionTrue
}

// AvailableIn returns how long a ready pod must stay ready until it is available. It is zero or less
// if the pod is available, and minReadySeconds if the pod does not say since when it is ready.
func AvailableIn(pod *corev1.Pod, minReadySeconds int32, now time.Time) time.Duration {
	if minReadySeconds == 0 {
		return 0
	}
	least, since := time.Duration(minReadySeconds)*time.Second, ReadyCondition(pod).LastTransitionTime
	if since.IsZero() {
		return least
	}
	return since.Add(least).Sub(now)
}

// RankForDeletion sorts pods by the order of deletion: first those that have made less progress, then
// those that are younger or restart more often. The order is total, so that two processes that see
// the same pods delete the same ones.
func RankForDeletion(pods []*corev1.Pod) {
	sortBy(pods, func(a, b *rank) int {
		return cmp.Or(
			a.compareProgress(b),
			youngerFirst(a.ready, b.ready),
			a.compareRestarts(b),
			youngerFirst(a.created, b.created),
		)
	})
}

// RankReplicas sorts pods like [RankForDeletion], and also by their deletion cost and by how many
// of the related pods run on the same node. related includes pods. Ages count by their order
// of magnitude only, and equal magnitudes are ordered by UID, so that the deleted pods are not
// all of one age.
func RankReplicas(pods, related []*corev1.Pod, now time.Time) {
	onNode := make(map[string]int)
	for _, pod := range related {
		if !Ended(pod) && pod.DeletionTimestamp == nil {
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

// rank holds the properties of a pod that order it.
type rank struct {
	pod               *corev1.Pod
	phase             int
	cost              int32
	restarts, sidecar int32     // of containers, and of sidecars
	ready, created    time.Time // ready is zero if the pod is not ready
}

func sortBy(pods []*corev1.Pod, compare func(a, b *rank) int) {
	ranks := make([]*rank, len(pods))
	for i, pod := range pods {
		r := &rank{pod: pod, phase: phaseRank(pod), cost: deletionCost(pod), created: pod.CreationTimestamp.Time, ready: readySince(pod)}
		r.restarts, r.sidecar = restarts(pod)
		ranks[i] = r
	}
	// compare may be cyclic. Then the order of the names decides.
	slices.SortFunc(ranks, func(a, b *rank) int { return strings.Compare(a.pod.Name, b.pod.Name) })
	slices.SortStableFunc(ranks, compare)
	for i, r := range ranks {
		pods[i] = r.pod
	}
}

// compareProgress orders pods without a node first, then by phase and readiness.
func (a *rank) compareProgress(b *rank) int {
	return cmp.Or(
		First(a.pod.Spec.NodeName == "", b.pod.Spec.NodeName == ""),
		cmp.Compare(a.phase, b.phase),
		First(!Ready(a.pod), !Ready(b.pod)),
	)
}

func (a *rank) compareRestarts(b *rank) int {
	return cmp.Or(cmp.Compare(b.restarts, a.restarts), cmp.Compare(b.sidecar, a.sidecar))
}

// youngerFirst orders an unknown time first.
func youngerFirst(a, b time.Time) int {
	return cmp.Or(First(a.IsZero(), b.IsZero()), b.Compare(a))
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

// magnitude returns the logarithm of an age to the base of two.
func magnitude(age time.Duration) int {
	if age <= 0 {
		return -1
	}
	return int(math.Log2(float64(age)))
}

// First orders true before false, as a comparison function.
func First(a, b bool) int {
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

// deletionCost returns the pod's deletion cost. It is zero if the annotation is missing or is not a
// number as Kubernetes defines it, without a plus sign or leading zeros.
func deletionCost(pod *corev1.Pod) int32 {
	text := pod.Annotations[corev1.PodDeletionCost]
	cost, err := strconv.ParseInt(text, 10, 32)
	if err != nil || text[0] == '+' || text[0] == '0' && text != "0" {
		return 0
	}
	return int32(cost)
}

func readySince(pod *corev1.Pod) time.Time {
	if c := ReadyCondition(pod); c != nil && c.Status == corev1.ConditionTrue {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}

// restarts returns the maximum number of restarts of any container, and of any sidecar.
func restarts(pod *corev1.Pod) (most, sidecar int32) {
	for i := range pod.Status.ContainerStatuses {
		most = max(most, pod.Status.ContainerStatuses[i].RestartCount)
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if optional.Value(c.RestartPolicy, "") != corev1.ContainerRestartPolicyAlways {
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
