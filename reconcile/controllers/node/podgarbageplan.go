package node

import (
	"cmp"
	"slices"
	"strings"

	"github.com/planekit/planekit/reconcile/controllers/internal/podstatus"
	corev1 "k8s.io/api/core/v1"
)

// planThinning chooses which of pods, all of which have ended, to delete so that keep remain: first
// evicted ones, then the oldest. The choice is the same while the cache does not show its
// deletions.
func planThinning(pods []*corev1.Pod, keep int) []*corev1.Pod {
	if len(pods) <= keep {
		return nil
	}
	evicted := func(pod *corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodFailed && pod.Status.Reason == "Evicted"
	}
	pods = slices.Clone(pods)
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(
			podstatus.First(evicted(a), evicted(b)),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			strings.Compare(a.Name, b.Name),
			strings.Compare(a.Namespace, b.Namespace),
		)
	})
	// A deleted pod that a finalizer holds does not count.
	return slices.DeleteFunc(pods[:len(pods)-keep], func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })
}
