package controllers_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/owner"
	"github.com/planekit/planekit/reconcile/controllers/replicaset"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func newReplicationController(name string, replicas int32) *corev1.ReplicationController {
	labels := map[string]string{"app": name}
	return &corev1.ReplicationController{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.ReplicationControllerSpec{
			Replicas: &replicas,
			Selector: labels,
			Template: &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec("nginx:1")},
		},
	}
}

func (w *budgetWorld) replication(ctx context.Context, l lag) (*replicaset.ReplicationController, error) {
	pods := follow(ctx, w.pods, l)
	return replicaset.NewReplicationController(replicaset.ReplicationControllerConfig{
		ReplicationControllers: follow(ctx, w.replications, l), Pods: pods, PodsByController: localcache.Scan(pods, owner.ByController[*corev1.Pod]),
		Writer: w.replications, PodWriter: w.pods, Events: w.api, Log: w.log,
	})
}

// replicates scales, and has orphans, of which it adopts those that it selects.
func replicates(t *testing.T, ctx context.Context, r *rand.Rand) stage {
	w := newBudgetWorld()
	w.kubelet(ctx, r)
	w.guardRollout(t, 4, 4, 2)
	guard := w.pods.check
	w.pods.check = func(old, new *corev1.Pod) {
		guard(old, new)
		checkOwners(t, old, new)
	}
	for i := range 2 {
		must[*corev1.Pod](t)(w.pods.Create(outside(), &corev1.Pod{Spec: podSpec("nginx:1"), ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprintf("orphan-%d", i), Labels: map[string]string{"app": "web"}}}))
	}
	must[*corev1.ReplicationController](t)(w.replications.Create(outside(), newReplicationController("web", 4)))
	st := single(t, w.api, w.replication)
	for _, n := range []int32{2, 3} {
		st.steps = append(st.steps, func() {
			w.replications.alter(t, "default/web", func(rc *corev1.ReplicationController) { rc.Spec.Replicas = &n })
		})
	}
	st.wanted = func() {
		rc := w.replications.list()[0]
		want := corev1.ReplicationControllerStatus{Replicas: 3, FullyLabeledReplicas: 3, ReadyReplicas: 3, AvailableReplicas: 3, ObservedGeneration: 3}
		if got := len(w.pods.list()); got != 3 || fmt.Sprint(rc.Status) != fmt.Sprint(want) {
			t.Errorf("%d pods, status %+v", got, rc.Status)
		}
		for _, pod := range w.pods.list() {
			if o := metav1.GetControllerOf(pod); o == nil || o.APIVersion != "v1" || o.Kind != "ReplicationController" || o.UID != rc.UID || !*o.BlockOwnerDeletion {
				t.Errorf("%s is owned by %v", pod.Name, o)
			}
		}
	}
	return st
}

// TestReplicationControllerFails checks that a failed creation is reported in a condition and in
// Event objects, and that the condition ends with its cause.
func TestReplicationControllerFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newBudgetWorld()
		must[*corev1.ReplicationController](t)(w.replications.Create(outside(), newReplicationController("web", 1)))
		forbidden := apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("exceeded quota"))
		w.mu.Lock()
		w.fault = func(verb, name string) (bool, error) {
			if verb == "create" && strings.HasPrefix(name, "Pod ") {
				return false, forbidden
			}
			return true, nil
		}
		w.mu.Unlock()
		p := launch(t, func(ctx context.Context) []controllers.Runner {
			return []controllers.Runner{must[*replicaset.ReplicationController](t)(w.replication(ctx, lag{}))}
		})
		synctest.Wait()
		s := w.replications.list()[0].Status
		if len(s.Conditions) != 1 || s.Conditions[0].Type != corev1.ReplicationControllerReplicaFailure || s.Conditions[0].Status != corev1.ConditionTrue ||
			s.Conditions[0].Reason != "FailedCreate" || s.Conditions[0].Message != forbidden.Error() || s.ObservedGeneration != 1 {
			t.Errorf("status %+v", s)
		}
		if want := "Warning FailedCreate: Error creating: " + forbidden.Error(); !slices.Contains(w.events, want) {
			t.Errorf("events %q", w.events)
		}
		w.mu.Lock()
		w.fault = nil
		w.mu.Unlock()
		settle()
		if s := w.replications.list()[0].Status; len(s.Conditions) != 0 || s.Replicas != 1 || len(w.pods.list()) != 1 {
			t.Errorf("status %+v, %d pods", s, len(w.pods.list()))
		}
		before := len(w.wrote())
		settle()
		if wrote := w.wrote()[before:]; len(wrote) > 0 {
			t.Errorf("writes %v of what is as it should be", wrote)
		}
		p.stop(t)
	})
}

// TestReplicationControllerLetsGo: a pod whose labels no longer match is released
// and replaced.
func TestReplicationControllerLetsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newBudgetWorld()
		must[*corev1.ReplicationController](t)(w.replications.Create(outside(), newReplicationController("web", 2)))
		p := launch(t, func(ctx context.Context) []controllers.Runner {
			return []controllers.Runner{must[*replicaset.ReplicationController](t)(w.replication(ctx, lag{}))}
		})
		synctest.Wait()
		released := w.pods.list()[0].Name
		w.pods.alter(t, "default/"+released, func(p *corev1.Pod) { p.Labels = map[string]string{"app": "debug"} })
		settle()
		owned := 0
		for _, pod := range w.pods.list() {
			if controlled := metav1.GetControllerOf(pod) != nil; controlled == (pod.Name == released) {
				t.Errorf("%s is controlled: %t; %s was released", pod.Name, controlled, released)
			} else if controlled {
				owned++
			}
		}
		if owned != 2 {
			t.Errorf("%d pods, want 2", owned)
		}
		p.stop(t)
	})
}
