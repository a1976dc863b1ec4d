package node

import (
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestPlanThinning: those that a node evicted go first, then the oldest, then by name;
// what says Evicted and has not failed is no such pod.
func TestPlanThinning(t *testing.T) {
	pod := func(name string, created int64, phase corev1.PodPhase, reason string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, CreationTimestamp: metav1.NewTime(time.Unix(created, 0))},
			Status: corev1.PodStatus{Phase: phase, Reason: reason}}
	}
	going := pod("going", 1, corev1.PodFailed, "")
	going.DeletionTimestamp = &metav1.Time{}
	elsewhere := pod("b", 5, corev1.PodFailed, "")
	elsewhere.Namespace = "another"
	pods := []*corev1.Pod{
		pod("young", 9, corev1.PodSucceeded, "Evicted"), pod("b", 5, corev1.PodFailed, ""), elsewhere, pod("a", 5, corev1.PodSucceeded, ""),
		pod("evicted", 8, corev1.PodFailed, "Evicted"), going,
	}
	for keep, want := range map[int]string{
		7: "", 6: "", 5: "default/evicted", 4: "default/evicted", 3: "default/evicted default/a", 2: "default/evicted default/a another/b",
		0: "default/evicted default/a another/b default/b default/young",
	} {
		var got []string
		for _, p := range planThinning(pods, keep) {
			got = append(got, localcache.KeyOf(p))
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("keep %d: %s go, want %s", keep, s, want)
		}
	}
}
