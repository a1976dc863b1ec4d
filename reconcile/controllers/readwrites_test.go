package controllers_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/node"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// poke has a controller look again, six times a second.
func poke[T thing[T]](t *testing.T, c *collection[T], key string) {
	t.Helper()
	for range 6 {
		time.Sleep(time.Second / 6)
		c.alter(t, key, func(o T) { o.SetAnnotations(map[string]string{"at": time.Now().String()}) })
	}
}

// creations counts what the API was asked to create, granted or not.
func (a *api) creations(kind string) *int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	a.fault = func(verb, name string) (bool, error) {
		if verb == "create" && strings.HasPrefix(name, kind+" ") {
			n++
		}
		return true, nil
	}
	return &n
}

// TestReplicaSetReadsItsPods: while the copy lacks the pods that were made, none
// is asked for again, not even to be refused for its name.
func TestReplicaSetReadsItsPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		asked := w.creations("Pod")
		p := launch(t, func(ctx context.Context) []controllers.Runner {
			return []controllers.Runner{w.replicaSetController(t, ctx, lag{}, lag{least: time.Minute})}
		})
		must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(outside(), newReplicaSet("web", 3)))
		poke(t, w.replicaSets, "default/web")
		settle()
		if *asked != 3 || len(w.pods.list()) != 3 {
			t.Errorf("%d pods of %d that were asked for, want 3", len(w.pods.list()), *asked)
		}
		p.stop(t)
	})
}

// changePods changes the pods one by one, a second after each other, while a copy
// lacks the status that was written: no other may be written then, to be refused.
func (w *world) changePods(t *testing.T, change func(*corev1.Pod)) {
	t.Helper()
	synctest.Wait()
	for _, pod := range w.pods.list() {
		time.Sleep(time.Second)
		w.pods.alter(t, keyOf(pod), change)
	}
	settle()
	if late := w.tooLate(); len(late) > 0 {
		t.Errorf("the writes %v came too late, want none", late)
	}
}

func TestReplicaSetReadsItsStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(outside(), newReplicaSet("web", 3)))
		p := launch(t, func(ctx context.Context) []controllers.Runner {
			return []controllers.Runner{w.replicaSetController(t, ctx, lag{least: time.Minute}, lag{})}
		})
		w.changePods(t, makeReady)
		if got := w.replicaSets.list()[0].Status.ReadyReplicas; got != 3 {
			t.Errorf("%d are ready, want 3", got)
		}
		p.stop(t)
	})
}

// TestJobReadsItsPods is the same of a Job.
func TestJobReadsItsPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		asked := w.creations("Pod")
		p := w.runJobsWith(t, lag{}, lag{least: time.Minute})
		job := must[*batchv1.Job](t)(w.jobs.Create(outside(), newJob(3, 3)))
		poke(t, w.jobs, keyOf(job))
		settle()
		if *asked != 3 || len(w.pods.list()) != 3 {
			t.Errorf("%d pods of %d that were asked for, want 3", len(w.pods.list()), *asked)
		}
		p.stop(t)
	})
}

// TestDeploymentReadsItsSets is the same of a Deployment and its ReplicaSets.
func TestDeploymentReadsItsSets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		asked := w.creations("ReplicaSet")
		p := launch(t, func(ctx context.Context) []controllers.Runner {
			return []controllers.Runner{w.deploymentController(t, ctx, lag{}, lag{least: time.Minute})}
		})
		d := must[*appsv1.Deployment](t)(w.deployments.Create(outside(), newDeployment(3, 1, 0)))
		poke(t, w.deployments, keyOf(d))
		settle()
		if *asked != 1 || len(w.replicaSets.list()) != 1 {
			t.Errorf("%d ReplicaSets of %d that were asked for, want 1", len(w.replicaSets.list()), *asked)
		}
		p.stop(t)
	})
}

func TestDeploymentReadsItsStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		must[*appsv1.Deployment](t)(w.deployments.Create(outside(), newDeployment(3, 1, 0)))
		p := launch(t, func(ctx context.Context) []controllers.Runner {
			return []controllers.Runner{
				w.replicaSetController(t, ctx, lag{}, lag{}),
				w.deploymentController(t, ctx, lag{least: time.Minute}, lag{}),
			}
		})
		w.changePods(t, makeReady)
		if got := w.deployments.list()[0].Status.AvailableReplicas; got != 3 {
			t.Errorf("%d are available, want 3", got)
		}
		p.stop(t)
	})
}

func TestJobReadsItsStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		must[*batchv1.Job](t)(w.jobs.Create(outside(), newJob(3, 3)))
		p := w.runJobsWith(t, lag{least: time.Minute}, lag{})
		w.changePods(t, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
		if got := w.jobs.list()[0].Status.Succeeded; got != 3 {
			t.Errorf("%d have succeeded, want 3", got)
		}
		p.stop(t)
	})
}

// TestTokenReadsItsSecret: while the copy lacks the token that was written, nothing
// is decided about the secret, to be refused. It goes with its account all the same.
func TestTokenReadsItsSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTokenWorld()
		put(w.accounts, newAccount("builder"))
		put(w.secrets, newTokenSecret("one", "builder"))
		p := w.launchWith(t, lag{}, lag{least: time.Minute})
		synctest.Wait()
		if secret := w.secrets.list()[0]; len(secret.Data["token"]) == 0 {
			t.Fatal("no token")
		}
		removeOutside(t, w.accounts, "default", "builder")
		settle()
		if late := w.tooLate(); len(late) > 0 {
			t.Errorf("after the account is gone the writes %v came too late, want none", late)
		}
		if left := len(w.secrets.list()); left != 0 {
			t.Error("the secret of an account that is gone is left")
		}
		p.stop(t)
	})
}

// TestResourceQuotaReadsItsStatus: while the copy lacks the status that was
// written, no other is written, to be refused.
func TestResourceQuotaReadsItsStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newQuotaWorld()
		must[*corev1.ResourceQuota](t)(w.quotas.Create(outside(), newQuota("pods", "10")))
		for _, name := range []string{"a", "b", "c"} {
			w.create(t, quotaPod(name, "1"))
		}
		p := w.launch(t, lag{least: time.Minute}, lag{})
		time.Sleep(time.Second)
		w.wantUsed(t, "at first", "pods", "3")
		for _, name := range []string{"a", "b"} {
			time.Sleep(time.Second)
			w.remove(t, name)
		}
		settle()
		if late := w.tooLate(); len(late) > 0 {
			t.Errorf("after two pods are gone the writes %v came too late, want none", late)
		}
		w.wantUsed(t, "in the end", "pods", "1")
		p.stop(t)
	})
}

// TestEndpointsReadTheirWrites: while the copies lack the slice and the Endpoints
// that were made, none is asked for again.
func TestEndpointsReadTheirWrites(t *testing.T) {
	for _, kind := range []string{"EndpointSlice", "Endpoints"} {
		synctest.Test(t, func(t *testing.T) {
			w := newEndpointWorld(t)
			asked := w.creations(kind)
			p := w.launchEach(t, lag{}, lag{}, lag{least: time.Minute}, func() {})
			must[*corev1.Service](t)(w.services.Create(outside(), newService("web", "web")))
			put(w.pods, newEndpointPod(1, "web", 80))
			poke(t, w.services, "default/web")
			settle()
			if *asked != 1 {
				t.Errorf("%d %s were asked for, want 1", *asked, kind)
			}
			if late := w.tooLate(); len(late) > 0 {
				t.Errorf("%s: the writes %v came too late, want none", kind, late)
			}
			w.convergedTo(t, "web", 1)
			p.stop(t)
		})
	}
}

// TestSliceOfAnotherIsKept: a slice that is not needed any more is deleted as what
// it was seen to be, and not what has its name by now.
func TestSliceOfAnotherIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEndpointWorld(t)
		service := must[*corev1.Service](t)(w.services.Create(outside(), newService("web", "web")))
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-six",
				Labels:          map[string]string{discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io"},
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(service, corev1.SchemeGroupVersion.WithKind("Service"))}},
			AddressType: discoveryv1.AddressTypeIPv6, // which the service has not
		}
		put(w.slices, slice)
		other := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-six"}, AddressType: discoveryv1.AddressTypeIPv6}
		p := w.launchEach(t, lag{}, lag{}, lag{least: time.Minute}, func() {
			removeOutside(t, w.slices, "default", "web-six")
			put(w.slices, other)
		})
		settle()
		if _, err := w.slices.Get(t.Context(), "default", "web-six"); err != nil {
			t.Errorf("the slice of another: %v", err)
		}
		p.stop(t)
	})
}

// TestTaintNotGiven checks that another node may be tainted at once if a write was refused, and
// that the other nodes wait if the outcome of the write is unknown.
func TestTaintNotGiven(t *testing.T) {
	conflict := apierrors.NewConflict(corev1.Resource("nodes"), "", errors.New("the object has been modified"))
	for name, test := range map[string]struct {
		done bool
		err  error
	}{"refused": {false, conflict}, "lost": {true, errLost}} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c.kubelets(t, ctx, func(node string) bool { return node != "a-00" }, zoneNodes(map[string]int{"a": 3}))
			var failed time.Time
			var given []time.Time
			c.fault = func(verb, _ string) (bool, error) {
				if verb != "update" || !failed.IsZero() {
					return true, nil
				}
				failed = time.Now()
				return test.done, test.err
			}
			drives := func(n *corev1.Node) bool { return slices.Contains(taints(n), unreachable[0]) }
			c.nodes.check = func(old, new *corev1.Node) {
				if !drives(old) && drives(new) {
					given = append(given, time.Now())
				}
			}
			p := launch(t, func(ctx context.Context) []controllers.Runner {
				return []controllers.Runner{must[*node.Lifecycle](t)(node.NewLifecycle(node.LifecycleConfig{
					Nodes: follow(ctx, c.nodes, lag{}), Leases: follow(ctx, c.leases, lag{}), Writer: c.nodes, Workers: 1,
				}))}
			})
			time.Sleep(3 * time.Minute)
			cancel()
			p.stop(t)
			if len(given) != 2 || given[0].Sub(failed) >= time.Second || given[1].Sub(given[0]) < 10*time.Second {
				t.Errorf("%s: the first write failed at %s, taints were given at %s", name, failed, given)
			}
		})
	}
}
