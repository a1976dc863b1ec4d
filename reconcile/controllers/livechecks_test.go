package controllers_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/namespace"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestJobNotKnownYet checks that the controller does not release a pod whose Job the
// cache does not have yet, because the pod would never be counted.
func TestJobNotKnownYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p := w.runJobsWith(t, lag{least: time.Minute}, lag{})
		job := must[*batchv1.Job](t)(w.jobs.Create(outside(), newJob(1, 1)))
		must[*corev1.Pod](t)(w.pods.Create(outside(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "early", Finalizers: []string{batchv1.JobTrackingFinalizer},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))}}}))
		time.Sleep(30 * time.Second)
		if pod := w.pods.list()[0]; !held(pod) {
			t.Error("the pod was let go, and its job lives")
		}
		p.stop(t)
	})
}

// TestNamespaceWaits checks that a namespace keeps its finalizer while it has content, and
// while the controller cannot list the kinds of content.
func TestNamespaceWaits(t *testing.T) {
	for name, contents := range map[string]func(n int) ([]namespace.Content, error){
		"remains": func(n int) ([]namespace.Content, error) {
			return []namespace.Content{{Resource: corev1.Resource("pods"), Empty: func(context.Context, string) (namespace.Remaining, error) {
				return namespace.Remaining{Objects: max(0, 4-n)}, nil
			}}}, nil
		},
		"unknown": func(n int) ([]namespace.Content, error) {
			if n < 4 {
				return nil, errors.New("an aggregated server is down")
			}
			return nil, nil
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster()
			passes := 0
			c.namespaces.check = func(_, n *corev1.Namespace) {
				if n != nil && len(n.Spec.Finalizers) == 0 && passes < 4 {
					t.Errorf("%s: let go after %d passes, want 4", name, passes)
				}
			}
			c.addNamespace(t, "doomed")
			p := launch(t, func(ctx context.Context) []controllers.Runner {
				return []controllers.Runner{must[*namespace.Controller](t)(namespace.New(namespace.Config{
					Namespaces: follow(ctx, c.namespaces, lag{}), Writer: finalizer{c.namespaces},
					Contents: func(context.Context) ([]namespace.Content, error) { passes++; return contents(passes) },
				}))}
			})
			c.terminate(t, "doomed")
			settle()
			if n := c.namespace("doomed"); n != nil && len(n.Spec.Finalizers) > 0 || passes != 4 {
				t.Errorf("%s: not let go after %d passes", name, passes)
			}
			p.stop(t)
		})
	}
}

// TestNamespaceReportsBlockers: whatever it is that a namespace waits for, alone, its status
// says so, and it stays until that is over.
func TestNamespaceReportsBlockers(t *testing.T) {
	for name, test := range map[string]struct {
		rooms *rooms
		mend  func(*rooms)
		want  string
	}{
		"unknown": {&rooms{unknown: true}, func(r *rooms) { r.unknown = false },
			"NamespaceDeletionDiscoveryFailure DiscoveryFailed: metrics.k8s.io/v1beta1: the server is currently unable to handle the request"},
		"unreadable": {&rooms{broken: true}, func(r *rooms) { r.broken = false },
			"NamespaceDeletionContentFailure ContentDeletionFailed: Failed to delete all resource types, 1 remaining: secrets: no route to host"},
		"pods": {&rooms{left: 2}, func(r *rooms) { r.left = 0 },
			"NamespaceContentRemaining SomeResourcesRemain: Some resources are remaining: pods. has 2 resource instances"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster()
				test.rooms.pods, test.rooms.secrets = map[string]int{}, map[string]int{}
				c.addNamespace(t, "doomed")
				p := c.runNamespaces(t, test.rooms, lag{})
				c.terminate(t, "doomed")
				settle()
				ns := c.namespace("doomed")
				if len(ns.Spec.Finalizers) == 0 {
					t.Error("the namespace was let go")
				}
				if got := trueConditions(ns); len(got) != 1 || got[0] != test.want {
					t.Errorf("conditions\n%q, want\n%q", got, test.want)
				}
				test.rooms.set(func() { test.mend(test.rooms) })
				settle()
				if ns := c.namespace("doomed"); len(ns.Spec.Finalizers) != 0 {
					t.Errorf("the namespace waits on: %v", ns.Status.Conditions)
				}
				p.stop(t)
			})
		})
	}
}

// TestOldSetInUseStays checks that the deletion of an old ReplicaSet beyond the history limit is
// refused if it has changed. One that a user scales up before the deletion arrives has pods, and
// stays until it has none.
func TestOldSetInUseStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		d := newDeployment(1, 1, 0)
		d.Spec.RevisionHistoryLimit = new(int32)
		must[*appsv1.Deployment](t)(w.deployments.Create(outside(), d))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w.kubelet(ctx, rand.New(rand.NewPCG(1, 1)))
		p := w.runDeployments(t, lag{})
		settle()
		first := w.replicaSets.list()[0]
		used := 0
		w.fault = func(verb, name string) (bool, error) {
			if verb == "delete" && name == "ReplicaSet "+keyOf(first) && used == 0 {
				used++
				w.replicaSets.alterLocked(keyOf(first), w.replicaSets.objects[keyOf(first)], func(rs *appsv1.ReplicaSet) { *rs.Spec.Replicas = 1 })
			}
			return true, nil
		}
		w.replicaSets.check = func(old, new *appsv1.ReplicaSet) {
			if new == nil && *old.Spec.Replicas != 0 {
				t.Errorf("%s was deleted with %d replicas", old.Name, *old.Spec.Replicas)
			}
		}
		w.deployments.alter(t, keyOf(d), func(d *appsv1.Deployment) { d.Spec.Template.Spec = podSpec("nginx:2") })
		settle()
		if left := w.replicaSets.list(); used != 1 || len(left) != 1 || left[0].Name == first.Name {
			t.Errorf("%d deletions of one in use; left are %d ReplicaSets", used, len(left))
		}
		if len(w.blind) > 0 {
			t.Errorf("deleted without a UID: %v", w.blind)
		}
		p.stop(t)
	})
}
