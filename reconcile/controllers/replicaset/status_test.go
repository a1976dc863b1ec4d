package replicaset

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/planekit/planekit/reconcile/controllers/internal/controllertest"
	"github.com/planekit/planekit/reconcile/controllers/internal/loop"
	"github.com/planekit/planekit/reconcile/controllers/owner"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestReplicaSetCounts(t *testing.T) {
	n := int32(4)
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Generation: 7}, Spec: appsv1.ReplicaSetSpec{Replicas: &n}}
	rs.Spec.Template.Labels = map[string]string{"app": "web", "hash": "1"}
	now := metav1.Now()
	labelled := func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web", "hash": "1", "more": "x"} }
	leaving := func(p *corev1.Pod) { p.DeletionTimestamp = &now }
	failed := func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
	staying := []*corev1.Pod{
		controllertest.With(controllertest.ReadyPod("a", "n", 0), labelled),
		controllertest.ReadyPod("b", "n", 0), // matches the selector, but not the template
		controllertest.With(controllertest.With(controllertest.ReadyPod("c", "n", 0), labelled), func(p *corev1.Pod) { p.Status.Conditions = nil }),
		controllertest.With(controllertest.ReadyPod("d", "n", 0), failed),
	}
	going := []*corev1.Pod{
		controllertest.With(controllertest.ReadyPod("e", "n", 0), leaving),
		controllertest.With(controllertest.With(controllertest.ReadyPod("f", "n", 0), leaving), failed), // runs no more
		controllertest.With(controllertest.ReadyPod("g", "n", 0), labelled),                             // deleted here, which the copy does not show
	}
	s, _ := replicaSetStatus(rs, staying, going, nil, time.Now())
	if s.Replicas != 4 || s.FullyLabeledReplicas != 3 || s.ReadyReplicas != 2 || s.AvailableReplicas != 2 ||
		s.TerminatingReplicas == nil || *s.TerminatingReplicas != 1 || s.ObservedGeneration != 7 {
		t.Errorf("status %+v, %v terminating", s, s.TerminatingReplicas)
	}
	if s, _ := replicaSetStatus(rs, nil, nil, nil, time.Now()); s.TerminatingReplicas == nil || *s.TerminatingReplicas != 0 {
		t.Error("none terminating is not said")
	}
}

// TestReplicaFailure: the condition says what the API said, of the first of
// several failures, and stays as it was while there are failures.
func TestReplicaFailure(t *testing.T) {
	refusal := errors.New(`pods "web-abcde" is forbidden: exceeded quota`)
	create := &owner.PodError{Text: refusal.Error(), Err: fmt.Errorf("create pod ns/web-abcde: %w", refusal)}
	several := loop.JoinReal([]error{nil, loop.ErrStale, create, errors.New("another")})
	now := time.Unix(1000, 0)
	for name, test := range map[string]struct {
		missing         int32
		failure         error
		reason, message string
	}{
		"create":  {missing: 2, failure: several, reason: "FailedCreate", message: refusal.Error()},
		"delete":  {missing: -2, failure: &owner.PodError{Text: "unable to delete pods: no", Err: errors.New("delete pod x: no")}, reason: "FailedDelete", message: "unable to delete pods: no"},
		"neither": {failure: errors.New("look for pod"), message: "look for pod"},
		"stale":   {missing: 2, failure: loop.ErrStale},
		"none":    {missing: 2},
	} {
		got := replicaFailure(nil, test.missing, test.failure, now)
		if test.message == "" {
			if len(got) != 0 {
				t.Errorf("%s: replicaFailure(nil, %d, %v) = %+v, want no condition", name, test.missing, test.failure, got)
			}
			continue
		}
		if len(got) != 1 || got[0].Reason != test.reason || got[0].Message != test.message || got[0].Status != corev1.ConditionTrue {
			t.Fatalf("%s: replicaFailure(nil, %d, %v) = %+v, want one condition, True, with reason %q and message %q",
				name, test.missing, test.failure, got, test.reason, test.message)
		}
		if again := replicaFailure(got, 1, errors.New("later"), now.Add(time.Hour)); len(again) != 1 || again[0] != got[0] {
			t.Errorf("%s: a later failure changes it: %+v", name, again)
		}
		if left := replicaFailure(got, 0, nil, now); len(left) != 0 || len(got) != 1 {
			t.Errorf("%s: %+v is left", name, left)
		}
	}
}
