package replicaset

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/planekit/planekit/reconcile/controllers/internal/controllertest"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPlanReplicaSet(t *testing.T) {
	var five []*corev1.Pod
	for i := range 5 {
		five = append(five, controllertest.ReadyPod(fmt.Sprint(i), "n", time.Hour))
	}
	failed := controllertest.With(controllertest.ReadyPod("failed", "n", 1), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
	for name, test := range map[string]struct {
		want      int32
		pods      []*corev1.Pod
		unsettled bool
		deleted   bool
		create    int
		remove    int
		more      bool
	}{
		"enough":               {want: 5, pods: five},
		"too few":              {want: 7, pods: five, create: 2},
		"too many":             {want: 1, pods: five, remove: 4},
		"a failed one":         {want: 6, pods: append(slices.Clone(five), failed), create: 1},
		"a burst":              {want: 1300, create: 500, more: true},
		"a burst too many":     {want: 1, pods: slices.Repeat(five, 120), remove: 500, more: true},
		"a burst, and no more": {want: 100, pods: slices.Repeat(five, 120), remove: 500},
		"deletions unsettled":  {want: 7, pods: five, unsettled: true, more: true},
		"being deleted":        {want: 0, pods: five, deleted: true},
	} {
		rs := &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Replicas: &test.want}}
		if test.deleted {
			rs.DeletionTimestamp = &metav1.Time{}
		}
		got := planReplicaSet(rs, test.pods, test.unsettled, func() []*corev1.Pod { return test.pods }, time.Now())
		if got.create != test.create || len(got.delete) != test.remove || got.more != test.more {
			t.Errorf("%s: create %d, delete %d, more %t", name, got.create, len(got.delete), got.more)
		}
	}
}

func TestReplicaSetStatusAvailability(t *testing.T) {
	now := time.Unix(0, 0).Add(time.Hour)
	rs := &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{MinReadySeconds: 60}}
	pods := []*corev1.Pod{controllertest.ReadyPod("old", "n", 0), controllertest.ReadyPod("new", "n", 59*time.Minute+30*time.Second), controllertest.ReadyPod("newer", "n", time.Hour)}
	s, again := replicaSetStatus(rs, pods, []*corev1.Pod{controllertest.ReadyPod("going", "n", 0)}, nil, now)
	if s.Replicas != 4 || s.ReadyReplicas != 3 || s.AvailableReplicas != 1 || again != 30*time.Second {
		t.Errorf("status %+v, again in %v", s, again)
	}
	timeless := controllertest.With(controllertest.ReadyPod("timeless", "n", 0), func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.Time{} })
	if s, again := replicaSetStatus(rs, []*corev1.Pod{timeless}, nil, nil, now); s.ReadyReplicas != 1 || s.AvailableReplicas != 0 || again != time.Minute {
		t.Errorf("ready since nobody knows when: status %+v, again in %v", s, again)
	}
	rs.Spec.MinReadySeconds = 0
	if s, again := replicaSetStatus(rs, []*corev1.Pod{timeless}, nil, nil, now); s.AvailableReplicas != 1 || again != 0 {
		t.Errorf("with nothing to wait for: status %+v, again in %v", s, again)
	}
}
