package controllers_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/garbage"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (w *world) runGarbage(t *testing.T, l lag, pods garbage.Writer[*corev1.Pod], sets garbage.Writer[*appsv1.ReplicaSet]) *process {
	t.Helper()
	return launch(t, func(ctx context.Context) []controllers.Runner {
		return []controllers.Runner{must[*garbage.Collector](t)(garbage.New(garbage.Config{Kinds: []garbage.Kind{
			garbage.NewKind(corev1.SchemeGroupVersion.WithKind("Pod"), true, localcache.Cache[*corev1.Pod](follow(ctx, w.pods, l)), pods),
			garbage.NewKind(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), true, localcache.Cache[*appsv1.ReplicaSet](follow(ctx, w.replicaSets, l)), sets),
			garbage.NewKind(appsv1.SchemeGroupVersion.WithKind("Deployment"), true, localcache.Cache[*appsv1.Deployment](follow(ctx, w.deployments, l)), garbage.Writer[*appsv1.Deployment](w.deployments)),
		}, Events: w.api}))}
	})
}

// family creates a Deployment that owns ReplicaSets that own pods. The pods
// here go at once when they are deleted.
func (w *world) family(t *testing.T) *appsv1.Deployment {
	t.Helper()
	w.pods.graceful = false
	d := must[*appsv1.Deployment](t)(w.deployments.Create(t.Context(), newDeployment(1, 1, 0)))
	for i := range 2 {
		rs := newReplicaSet(fmt.Sprintf("set-%d", i), 2)
		rs.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
		rs = must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(t.Context(), rs))
		for j := range 2 {
			w.child(t, fmt.Sprintf("pod-%d-%d", i, j), rs)
		}
	}
	return d
}

func (w *world) child(t *testing.T, name string, owners ...*appsv1.ReplicaSet) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	for i, rs := range owners {
		ref := *metav1.NewControllerRef(rs, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))
		if i > 0 {
			ref.Controller = nil
		}
		pod.OwnerReferences = append(pod.OwnerReferences, ref)
	}
	return must[*corev1.Pod](t)(w.pods.Create(t.Context(), pod))
}

// TestGarbagePolicies deletes the head of a family in each of the three ways,
// with copies that lag.
func TestGarbagePolicies(t *testing.T) {
	for policy, want := range map[metav1.DeletionPropagation][3]int{
		metav1.DeletePropagationBackground: {0, 0, 0},
		metav1.DeletePropagationForeground: {0, 0, 0},
		metav1.DeletePropagationOrphan:     {0, 2, 4},
	} {
		for range 5 {
			seed := rand.Uint64()
			t.Run(fmt.Sprintf("%s/seed=%d", policy, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld()
					d := w.family(t)
					if policy == metav1.DeletePropagationForeground {
						w.deployments.check = func(_, new *appsv1.Deployment) {
							if new == nil && len(w.replicaSets.objects)+len(w.pods.objects) > 0 {
								t.Error("gone before what it owns")
							}
						}
					}
					p := w.runGarbage(t, lag{random: rand.New(rand.NewPCG(seed, 0)), most: 2 * time.Second, relist: 5}, w.pods, w.replicaSets)
					settle()
					if got := len(w.pods.list()); got != 4 {
						t.Fatalf("%d pods before the deletion", got)
					}
					err := w.deployments.Delete(t.Context(), d.Namespace, d.Name, metav1.DeleteOptions{PropagationPolicy: &policy})
					if err != nil {
						t.Fatal(err)
					}
					settle()
					if got := [3]int{len(w.deployments.list()), len(w.replicaSets.list()), len(w.pods.list())}; got != want {
						t.Errorf("left are %v, want %v", got, want)
					}
					for _, rs := range w.replicaSets.list() {
						if len(rs.OwnerReferences) != 0 {
							t.Errorf("%s is owned by %v", rs.Name, rs.OwnerReferences)
						}
					}
					p.stop(t)
				})
			})
		}
	}
}

// TestGarbageSharedOwnership keeps what still has an owner, and takes the
// reference to the one that is gone off it.
func TestGarbageSharedOwnership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.pods.graceful = false
		a := must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(t.Context(), newReplicaSet("a", 1)))
		b := must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(t.Context(), newReplicaSet("b", 1)))
		w.child(t, "shared", a, b)
		w.child(t, "only", a)
		stranger := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "stranger",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Widget", Name: "w", UID: "gone"}}}}
		must[*corev1.Pod](t)(w.pods.Create(t.Context(), stranger))
		p := w.runGarbage(t, lag{}, w.pods, w.replicaSets)
		settle()
		if err := w.replicaSets.Delete(t.Context(), "default", "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		settle()
		pods := w.pods.list()
		if len(pods) != 2 || pods[0].Name != "shared" || pods[1].Name != "stranger" {
			t.Fatalf("left are %v", pods)
		}
		if refs := pods[0].OwnerReferences; len(refs) != 1 || refs[0].UID != b.UID {
			t.Errorf("owners %v", refs)
		}
		p.stop(t)
	})
}

// brokenReader cannot be read.
type brokenReader struct {
	*collection[*appsv1.ReplicaSet]
}

func (brokenReader) Get(context.Context, string, string) (*appsv1.ReplicaSet, error) {
	return nil, errors.New("connection refused")
}

// TestGarbageNeedsProof has owners that no copy shows and that cannot be asked
// for: nothing is deleted on their account.
func TestGarbageNeedsProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		ghost := newReplicaSet("ghost", 1)
		ghost.UID = "ghost"
		w.child(t, "pod", ghost)
		p := w.runGarbage(t, lag{}, w.pods, brokenReader{w.replicaSets})
		settle()
		if got := len(w.pods.list()); got != 1 || w.pods.list()[0].DeletionTimestamp != nil {
			t.Error("deleted without proof")
		}
		p.stop(t)
	})
}

// countingReader counts what is asked of the API.
type countingReader struct {
	*collection[*appsv1.ReplicaSet]
	gets *atomic.Int32
}

func (c countingReader) Get(ctx context.Context, namespace, name string) (*appsv1.ReplicaSet, error) {
	c.gets.Add(1)
	return c.collection.Get(ctx, namespace, name)
}

// TestGarbageAsksOnce starts with many objects: owners that are there are not
// asked for, and one that is gone is asked for by no more than the workers that
// look at the same time.
func TestGarbageAsksOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.pods.graceful = false
		ghost := newReplicaSet("ghost", 1)
		ghost.UID = "ghost"
		present := must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(t.Context(), newReplicaSet("present", 1)))
		for i := range 300 {
			w.child(t, fmt.Sprintf("lost-%d", i), ghost)
			w.child(t, fmt.Sprintf("kept-%d", i), present)
		}
		var gets atomic.Int32
		p := w.runGarbage(t, lag{}, w.pods, countingReader{w.replicaSets, &gets})
		settle()
		if got := len(w.pods.list()); got != 300 {
			t.Errorf("%d pods are left, want those 300 whose owner exists", got)
		}
		if n := gets.Load(); n < 1 || n > 20 {
			t.Errorf("the API was asked %d times, want 1 to 20, the number of workers", n)
		}
		p.stop(t)
	})
}

// lateCache has its objects at once and reports them later.
type lateCache struct{ *cache[*appsv1.ReplicaSet] }

func (c lateCache) Subscribe(handle func(old, new *appsv1.ReplicaSet)) localcache.Subscription {
	ended := make(chan struct{})
	inner := func() {}
	timer := time.AfterFunc(time.Minute, func() {
		inner = c.cache.Subscribe(handle).Stop
		close(ended)
	})
	return localcache.Subscription{Stop: func() {
		if !timer.Stop() {
			<-ended
		}
		inner()
	}}
}

// TestGarbageLooksInCopy starts while the cache of the owners still reports them. The collector
// finds them in the cache and does not ask the API.
func TestGarbageLooksInCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		rs := must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(t.Context(), newReplicaSet("owner", 1)))
		w.child(t, "child", rs)
		var gets atomic.Int32
		p := launch(t, func(ctx context.Context) []controllers.Runner {
			return []controllers.Runner{must[*garbage.Collector](t)(garbage.New(garbage.Config{Kinds: []garbage.Kind{
				garbage.NewKind(corev1.SchemeGroupVersion.WithKind("Pod"), true, localcache.Cache[*corev1.Pod](follow(ctx, w.pods, lag{})), garbage.Writer[*corev1.Pod](w.pods)),
				garbage.NewKind(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), true, localcache.Cache[*appsv1.ReplicaSet](lateCache{follow(ctx, w.replicaSets, lag{})}),
					garbage.Writer[*appsv1.ReplicaSet](countingReader{w.replicaSets, &gets})),
			}}))}
		})
		settle()
		if n := gets.Load(); n != 0 || len(w.pods.list()) != 1 {
			t.Errorf("the API was asked %d times, %d pods are left", n, len(w.pods.list()))
		}
		p.stop(t)
	})
}

// TestGarbageOwnerRecreated has an owner go and another of its name come, which is
// not the owner of what the first one left, whether the copies know of it or not.
func TestGarbageOwnerRecreated(t *testing.T) {
	for name, l := range map[string]lag{"at once": {}, "late": {least: time.Minute}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.pods.graceful = false
				before := must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(t.Context(), newReplicaSet("owner", 1)))
				removeOutside(t, w.replicaSets, "default", "owner")
				after := must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(t.Context(), newReplicaSet("owner", 1)))
				w.child(t, "left", before)
				w.child(t, "new", after)
				p := w.runGarbage(t, l, w.pods, w.replicaSets)
				settle()
				if pods := w.pods.list(); len(pods) != 1 || pods[0].Name != "new" {
					t.Errorf("left are %v", pods)
				}
				p.stop(t)
			})
		})
	}
}

// TestGarbageOwnerNotSeenYet has an owner that the API knows and the copy does not:
// the pod that came with it stays.
func TestGarbageOwnerNotSeenYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.pods.graceful = false
		var gets atomic.Int32
		p := launch(t, func(ctx context.Context) []controllers.Runner {
			return []controllers.Runner{must[*garbage.Collector](t)(garbage.New(garbage.Config{Kinds: []garbage.Kind{
				garbage.NewKind(corev1.SchemeGroupVersion.WithKind("Pod"), true, localcache.Cache[*corev1.Pod](follow(ctx, w.pods, lag{})), garbage.Writer[*corev1.Pod](w.pods)),
				garbage.NewKind(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), true, localcache.Cache[*appsv1.ReplicaSet](follow(ctx, w.replicaSets, lag{least: time.Minute})),
					garbage.Writer[*appsv1.ReplicaSet](countingReader{w.replicaSets, &gets})),
			}}))}
		})
		rs := must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(t.Context(), newReplicaSet("owner", 1)))
		w.child(t, "child", rs)
		settle()
		if n := gets.Load(); n == 0 || len(w.pods.list()) != 1 {
			t.Errorf("the API was asked %d times, %d pods are left", n, len(w.pods.list()))
		}
		p.stop(t)
	})
}

// TestGarbageOrphansAll: an owner that is deleted with the orphan policy stays until
// nothing names it any more, however often that fails.
func TestGarbageOrphansAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.pods.graceful = false
		rs := must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(t.Context(), newReplicaSet("owner", 3)))
		for _, name := range []string{"a", "b", "c"} {
			w.child(t, name, rs)
		}
		failures := 3
		w.fault = func(verb, name string) (bool, error) {
			if verb == "patch" && name == "Pod default/b" && failures > 0 {
				failures--
				return false, errors.New("connection refused")
			}
			return true, nil
		}
		w.replicaSets.check = func(_, new *appsv1.ReplicaSet) {
			for _, pod := range w.pods.objects {
				if new == nil && len(pod.OwnerReferences) > 0 {
					t.Errorf("%s is owned, and its owner is gone", pod.Name)
				}
			}
		}
		p := w.runGarbage(t, lag{}, w.pods, w.replicaSets)
		orphan := metav1.DeletePropagationOrphan
		if err := w.replicaSets.Delete(outside(), "default", "owner", metav1.DeleteOptions{PropagationPolicy: &orphan}); err != nil {
			t.Fatal(err)
		}
		settle()
		if sets, pods := len(w.replicaSets.list()), len(w.pods.list()); sets != 0 || pods != 3 || failures != 0 {
			t.Errorf("%d owners and %d pods are left, want none and 3; %d failures to come", sets, pods, failures)
		}
		p.stop(t)
	})
}

// TestGarbageOwnerElsewhere has an owner in another namespace, which is none.
func TestGarbageOwnerElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.pods.graceful = false
		owner := must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(t.Context(), newReplicaSet("owner", 1)))
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: "pod"}}
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
		must[*corev1.Pod](t)(w.pods.Create(t.Context(), pod))
		w.child(t, "child", owner)
		p := w.runGarbage(t, lag{}, w.pods, w.replicaSets)
		settle()
		if left := w.pods.list(); len(left) != 1 || left[0].Name != "child" {
			t.Errorf("left are %v", left)
		}
		want := fmt.Sprintf(`Warning OwnerRefInvalidNamespace: ownerRef [apps/v1/ReplicaSet, namespace: elsewhere, name: owner, uid: %s] does not exist in namespace "elsewhere"`, owner.UID)
		if len(w.events) != 1 || w.events[0] != want {
			t.Errorf("events %q, want %q", w.events, want)
		}
		p.stop(t)
	})
}

// TestGarbageCircle deletes, in the foreground, some of those that own and block
// each other in a circle, one of them or all at the same time.
func TestGarbageCircle(t *testing.T) {
	for size := 1; size <= 3; size++ {
		for deleted := 1; deleted <= size; deleted++ {
			t.Run(fmt.Sprintf("%d of %d", deleted, size), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld()
					kind := appsv1.SchemeGroupVersion.WithKind("ReplicaSet")
					ring := make([]*appsv1.ReplicaSet, size)
					for i := range ring {
						ring[i] = must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(t.Context(), newReplicaSet(fmt.Sprint("set-", i), 1)))
					}
					for i, rs := range ring {
						rs = rs.DeepCopy()
						rs.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(ring[(i+1)%size], kind)}
						must[*appsv1.ReplicaSet](t)(w.replicaSets.Update(t.Context(), rs))
					}
					p := w.runGarbage(t, lag{}, w.pods, w.replicaSets)
					settle()
					policy := metav1.DeletePropagationForeground
					for i := range deleted {
						err := w.replicaSets.Delete(t.Context(), "default", ring[i].Name, metav1.DeleteOptions{PropagationPolicy: &policy})
						if err != nil && !apierrors.IsNotFound(err) { // the circle may have gone with those before
							t.Fatal(err)
						}
					}
					settle()
					if left := w.replicaSets.list(); len(left) != 0 {
						t.Errorf("left are %v", left)
					}
					p.stop(t)
				})
			})
		}
	}
}

// TestGarbageCrashes ends the process after each of its writes, and starts
// another. What is to go goes, and nothing else.
func TestGarbageCrashes(t *testing.T) {
	for policy, want := range map[metav1.DeletionPropagation][3]int{
		metav1.DeletePropagationBackground: {0, 0, 1},
		metav1.DeletePropagationForeground: {0, 0, 1},
		metav1.DeletePropagationOrphan:     {0, 2, 5},
	} {
		for crash := 1; crash <= 8; crash++ {
			for _, through := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/write=%d/through=%v", policy, crash, through), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						w := newWorld()
						d := w.family(t)
						w.child(t, "bystander")
						if err := w.deployments.Delete(t.Context(), d.Namespace, d.Name, metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
							t.Fatal(err)
						}
						first := w.runGarbage(t, lag{}, w.pods, w.replicaSets)
						writes := 0
						w.api.mu.Lock()
						w.api.fault = func(string, string) (bool, error) {
							if writes++; writes == crash {
								first.cancel()
							}
							return writes < crash || writes == crash && through, errOrNil(writes >= crash)
						}
						w.api.mu.Unlock()
						settle()
						first.stop(t)
						w.api.mu.Lock()
						w.api.fault = nil
						w.api.mu.Unlock()
						second := w.runGarbage(t, lag{}, w.pods, w.replicaSets)
						settle()
						if got := [3]int{len(w.deployments.list()), len(w.replicaSets.list()), len(w.pods.list())}; got != want {
							t.Errorf("left are %v, want %v", got, want)
						}
						second.stop(t)
					})
				})
			}
		}
	}
}

func errOrNil(failed bool) error {
	if failed {
		return errors.New("connection reset")
	}
	return nil
}
