package controllers_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/planekit/planekit/reconcile/controllers"
)

func TestReplicaSetScales(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := newWorld()
		w.kubelet(ctx, rand.New(rand.NewPCG(1, 1)))
		p := w.runReplicaSets(t, lag{})
		must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(ctx, newReplicaSet("web", 3)))
		for _, want := range []int32{3, 1, 7, 0, 2} {
			w.replicaSets.alter(t, "default/web", func(rs *appsv1.ReplicaSet) { rs.Spec.Replicas = &want })
			settle()
			pods := w.pods.list()
			if len(pods) != int(want) {
				t.Fatalf("%d pods, want %d", len(pods), want)
			}
			rs := w.replicaSets.list()[0]
			s := rs.Status
			if s.Replicas != want || s.FullyLabeledReplicas != want || s.ReadyReplicas != want || s.AvailableReplicas != want ||
				s.ObservedGeneration != rs.Generation {
				t.Errorf("status %+v at generation %d, want %d of all", s, rs.Generation, want)
			}
			for _, pod := range pods {
				if !metav1.IsControlledBy(pod, rs) || !strings.HasPrefix(pod.Name, "web-") || len(pod.Name) != len("web-12345") {
					t.Errorf("pod %s of %v", pod.Name, pod.OwnerReferences)
				}
			}
		}
		p.stop(t)
		created, deleted := 0, 0
		for _, e := range w.events {
			switch {
			case strings.HasPrefix(e, "Normal SuccessfulCreate: Created pod: web-"):
				created++
			case strings.HasPrefix(e, "Normal SuccessfulDelete: Deleted pod: web-"):
				deleted++
			default:
				t.Errorf("unexpected event %q", e)
			}
		}
		if created != 3+6+2 || deleted != 2+7 {
			t.Errorf("%d created, %d deleted", created, deleted)
		}
	})
}

// guard fails the test should there ever be more than most pods.
func (w *world) guard(t *testing.T, most int) {
	w.pods.check = func(old, _ *corev1.Pod) {
		if n := w.activeLocked(); old == nil && n > most {
			t.Errorf("%d pods, want at most %d; writes %v", n, most, w.writes)
		}
	}
}

// TestReplicaSetPerturbed has copies that lag and miss changes, writes that
// fail before or after they took effect, restarts, and pods that vanish.
func TestReplicaSetPerturbed(t *testing.T) {
	for range 20 {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { perturbReplicaSet(t, seed) })
		})
	}
}

func perturbReplicaSet(t *testing.T, seed uint64) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := rand.New(rand.NewPCG(seed, 0))
	w := newWorld()
	w.kubelet(ctx, rand.New(rand.NewPCG(seed, 1)))
	want := 1 + r.IntN(20)
	w.guard(t, want)
	noFaults := w.faults(r, 15)
	slow := lag{random: r, most: 3 * time.Second, relist: 5}
	p := w.runReplicaSets(t, slow)
	for {
		if _, err := w.replicaSets.Create(ctx, newReplicaSet("web", int32(want))); err == nil || len(w.replicaSets.list()) == 1 {
			break
		}
	}
	for range 15 {
		time.Sleep(time.Duration(r.IntN(5000)) * time.Millisecond)
		switch pods := w.pods.list(); {
		case r.IntN(4) == 0:
			p.stop(t)
			p = w.runReplicaSets(t, slow)
		case len(pods) > 0:
			victim := pods[r.IntN(len(pods))]
			if r.IntN(2) == 0 {
				_ = w.pods.Delete(ctx, victim.Namespace, victim.Name, metav1.DeleteOptions{}) // a fault is fine
			} else {
				w.mu.Lock()
				if pod, ok := w.pods.objects[keyOf(victim)]; ok {
					w.pods.alterLocked(keyOf(pod), pod, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
				}
				w.mu.Unlock()
			}
		}
	}
	noFaults()
	settle()
	if got := active(w.pods.list()); got != want {
		t.Errorf("%d pods, want %d", got, want)
	}
	p.stop(t)
}

// TestReplicaSetScalesDownPerturbed has copies that show pods long after they
// were deleted, and deletions whose answers are lost. Never are more pods
// deleted than are too many, and never any twice.
func TestReplicaSetScalesDownPerturbed(t *testing.T) {
	for range 20 {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				r := rand.New(rand.NewPCG(seed, 0))
				w := newWorld()
				w.kubelet(ctx, rand.New(rand.NewPCG(seed, 1)))
				want := int32(r.IntN(10))
				must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(ctx, newReplicaSet("web", want+10)))
				slow := lag{random: r, most: 5 * time.Second, relist: 5}
				p := w.runReplicaSets(t, slow)
				settle()
				w.pods.check = func(_, _ *corev1.Pod) {
					if n := w.activeLocked(); n < int(want) {
						t.Errorf("%d pods, want at least %d", n, want)
					}
				}
				noFaults := w.faults(r, 30)
				w.replicaSets.alter(t, "default/web", func(rs *appsv1.ReplicaSet) { rs.Spec.Replicas = &want })
				for range 10 {
					time.Sleep(time.Duration(r.IntN(1500)) * time.Millisecond)
					// A pod that is not ready any more changes the order of deletion.
					pods := w.pods.list()
					if len(pods) == 0 {
						break
					}
					w.pods.alter(t, keyOf(pods[r.IntN(len(pods))]), func(p *corev1.Pod) { p.Status.Conditions = nil })
					if r.IntN(10) == 0 {
						p.stop(t)
						p = w.runReplicaSets(t, slow)
					}
				}
				noFaults()
				settle()
				if got := len(w.pods.list()); got != int(want) {
					t.Errorf("%d pods, want %d", got, want)
				}
				p.stop(t)
			})
		})
	}
}

// TestReplicaSetCrashes kills the process at each of its writes in turn, the
// write done or not, and starts another.
func TestReplicaSetCrashes(t *testing.T) {
	const want = 12
	for at := range 2 * want {
		for _, applied := range []bool{false, true} {
			t.Run(fmt.Sprintf("write=%d/applied=%t", at, applied), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					w := newWorld()
					w.guard(t, want)
					must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(ctx, newReplicaSet("web", want)))
					w.kubelet(ctx, rand.New(rand.NewPCG(uint64(at), 2)))
					slow := lag{random: rand.New(rand.NewPCG(uint64(at), 3)), most: 2 * time.Second}
					dead := w.crash(at, applied)
					p := w.runReplicaSets(t, slow)
					select {
					case <-dead:
					case <-time.After(time.Hour): // there were not so many writes
					}
					p.stop(t)
					w.mu.Lock()
					w.fault = nil
					w.mu.Unlock()
					p = w.runReplicaSets(t, slow)
					settle()
					if got := len(w.pods.list()); got != want {
						t.Errorf("%d pods, want %d", got, want)
					}
					created := 0
					for _, write := range w.wrote() {
						if strings.HasPrefix(write, "create Pod") {
							created++
						}
					}
					if created != want {
						t.Errorf("%d pods were created, want %d", created, want)
					}
					p.stop(t)
				})
			})
		}
	}
}

// crash closes dead at the given write of the process, after which no write
// gets through.
func (w *api) crash(at int, applied bool) (dead chan struct{}) {
	dead = make(chan struct{})
	n := 0
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = func(string, string) (bool, error) {
		n++
		switch {
		case n <= at:
			return true, nil
		case n == at+1:
			close(dead)
			return applied, errLost
		}
		return false, errLost
	}
	return dead
}

// TestReplicaSetLateWrite has a create of a process that is long dead arrive
// when its successor has already looked.
func TestReplicaSetLateWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.guard(t, 3)
		must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(t.Context(), newReplicaSet("web", 3)))
		// Learn what the first process would have written.
		var stuck []string
		w.fault = func(verb, name string) (bool, error) {
			if verb == "create" {
				stuck = append(stuck, strings.TrimPrefix(name, "Pod "))
			}
			return false, errLost
		}
		p := w.runReplicaSets(t, lag{})
		synctest.Wait()
		p.stop(t)
		w.fault = nil

		p = w.runReplicaSets(t, lag{random: rand.New(rand.NewPCG(1, 1)), most: time.Minute})
		rs := w.replicaSets.list()[0]
		_, err := w.pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: stuck[0], Labels: rs.Spec.Template.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(rs, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
		}})
		t.Logf("late create of %s: %v", stuck[0], err)
		settle()
		if got := len(w.pods.list()); got != 3 {
			t.Errorf("%d pods, want 3", got)
		}
		p.stop(t)
	})
}

// TestReplicaSetSlowStart has every create refused.
func TestReplicaSetSlowStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(t.Context(), newReplicaSet("web", 100)))
		creates, limit := 0, 5
		w.fault = func(verb, _ string) (bool, error) {
			if verb != "create" {
				return true, nil
			}
			if creates++; creates > limit {
				return false, fmt.Errorf("exceeded quota")
			}
			return true, nil
		}
		p := w.runReplicaSets(t, lag{})
		synctest.Wait()
		// 1, 2 and 4, of which the last two fail; and what follows from the events
		// of the first five pods.
		if creates < 1+2+4 || creates > 20 {
			t.Errorf("%d attempts for 100 pods, of which none after the fifth can succeed", creates)
		}
		rs := w.replicaSets.list()[0]
		if len(rs.Status.Conditions) != 1 || rs.Status.Conditions[0].Reason != "FailedCreate" {
			t.Errorf("conditions %v", rs.Status.Conditions)
		}
		if !slices.Contains(w.events, "Warning FailedCreate: Error creating: exceeded quota") {
			t.Errorf("events %v", w.events)
		}
		w.mu.Lock()
		limit = 1000
		w.mu.Unlock()
		settle()
		if got := w.replicaSets.list()[0].Status; got.Replicas != 100 || len(got.Conditions) != 0 {
			t.Errorf("status %+v", got)
		}
		p.stop(t)
	})
}

func TestReplicaSetAdoptsAndReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p := w.runReplicaSets(t, lag{})
		orphan := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orphan", Labels: map[string]string{"app": "web"}}}
		must[*corev1.Pod](t)(w.pods.Create(t.Context(), orphan))
		settle() // The copies are of two kinds: a ReplicaSet may be seen before older pods are.
		must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(t.Context(), newReplicaSet("web", 2)))
		settle()
		rs := w.replicaSets.list()[0]
		adopted, err := w.pods.Get(t.Context(), "default", "orphan")
		if err != nil || !metav1.IsControlledBy(adopted, rs) || !*adopted.OwnerReferences[0].BlockOwnerDeletion {
			t.Fatalf("adopted %v: %v", adopted.OwnerReferences, err)
		}
		if got := len(w.pods.list()); got != 2 {
			t.Errorf("%d pods, want the orphan and one more", got)
		}
		w.pods.alter(t, "default/orphan", func(p *corev1.Pod) { p.Labels = map[string]string{"app": "debug"} })
		settle()
		released, err := w.pods.Get(t.Context(), "default", "orphan")
		if err != nil || len(released.OwnerReferences) != 0 {
			t.Errorf("released %v: %v", released.OwnerReferences, err)
		}
		if got := len(w.pods.list()); got != 3 {
			t.Errorf("%d pods, want two and the released one", got)
		}
		p.stop(t)
	})
}

// TestReplicaSetAdoptsNothingWhenGone has an owner that was deleted with its
// pods orphaned, while the copy still shows it.
func TestReplicaSetAdoptsNothingWhenGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		created := must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(t.Context(), newReplicaSet("web", 1)))
		p := w.runReplicaSets(t, lag{})
		settle()
		pod := w.pods.list()[0]
		p.stop(t)
		w.replicaSets.alter(t, keyOf(created), func(rs *appsv1.ReplicaSet) { rs.Finalizers = []string{"orphan"} })
		// The new process lists the owner as it was, and sees its changes late.
		p = launch(t, func(ctx context.Context) []controllers.Runner {
			return []controllers.Runner{w.replicaSetController(t, ctx, lag{least: time.Hour}, lag{})}
		})
		_ = w.replicaSets.Delete(t.Context(), "default", "web", metav1.DeleteOptions{})
		w.pods.alter(t, keyOf(pod), func(p *corev1.Pod) { p.OwnerReferences = nil })
		settle()
		settle()
		if got := w.pods.list()[0]; len(got.OwnerReferences) != 0 {
			t.Errorf("given back to its former owner: %v", got.OwnerReferences)
		}
		p.stop(t)
	})
}
