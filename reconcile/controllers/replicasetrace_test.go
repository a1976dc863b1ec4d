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
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/owner"
	"github.com/planekit/planekit/reconcile/controllers/replicaset"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAdoptionRaces has two ReplicaSets that both select every orphan, worked
// on by two processes with copies that lag, with writes that fail. No pod ever
// has two controllers or passes from one to the other, and in the end each has
// one.
func TestAdoptionRaces(t *testing.T) {
	for range 20 {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { raceForOrphans(t, seed) })
		})
	}
}

func raceForOrphans(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0))
	w := newWorld()
	w.pods.check = func(old, new *corev1.Pod) { checkOwners(t, old, new) }
	orphans := 1 + r.IntN(10)
	for i := range orphans {
		must[*corev1.Pod](t)(w.pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprintf("orphan-%d", i), Labels: map[string]string{"app": "web", "and": "more"}},
			Spec: podSpec("nginx:1")}))
	}
	total := 0
	for _, name := range []string{"one", "two"} {
		n := r.IntN(8)
		total += n
		rs := newReplicaSet(name, int32(n))
		rs.Spec.Selector.MatchLabels = map[string]string{"app": "web"}
		rs.Spec.Template.Labels = map[string]string{"app": "web", "of": name}
		must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(t.Context(), rs))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.kubelet(ctx, rand.New(rand.NewPCG(seed, 1)))
	noFaults := w.faults(r, 10)
	slow := lag{random: r, most: 2 * time.Second, relist: 5}
	// Either process works on both ReplicaSets, as when two believe to lead. That
	// both make pods for one of them is not what this is about.
	p, q := w.runReplicaSets(t, slow), w.runReplicaSets(t, slow)
	for range 5 {
		time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
		// A released pod is an orphan that only the other may want.
		pods := w.pods.list()
		if len(pods) == 0 {
			continue
		}
		pod := pods[r.IntN(len(pods))]
		w.pods.alter(t, keyOf(pod), func(p *corev1.Pod) {
			if len(p.OwnerReferences) == 0 {
				p.Labels = map[string]string{"app": "web"}
			} else {
				p.OwnerReferences = nil
			}
		})
	}
	noFaults()
	settle()
	p.stop(t)
	q.stop(t)
	if got := active(w.pods.list()); got != total {
		t.Errorf("%d pods, want %d", got, total)
	}
	for _, pod := range w.pods.list() {
		if metav1.GetControllerOf(pod) == nil {
			t.Errorf("%s is left alone", pod.Name)
		}
	}
}

// checkOwners wants one controller at most, and none replaced by another.
func checkOwners(t *testing.T, old, new *corev1.Pod) {
	if new == nil {
		return
	}
	if n := len(new.OwnerReferences); n > 1 {
		t.Errorf("%s has %d owners", new.Name, n)
	}
	if old == nil {
		return
	}
	before, after := metav1.GetControllerOf(old), metav1.GetControllerOf(new)
	if before != nil && after != nil && before.UID != after.UID {
		t.Errorf("%s passed from %s to %s", new.Name, before.Name, after.Name)
	}
}

// TestAdoptsOthersThanTheOneGone: an orphan that is gone, which the copy does
// not show, keeps no other from being adopted, and is no failure.
func TestAdoptsOthersThanTheOneGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		for _, name := range []string{"a", "b", "c"} {
			must[*corev1.Pod](t)(w.pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: name, Labels: map[string]string{"app": "web"}}}))
		}
		must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(t.Context(), newReplicaSet("web", 2)))
		p := launch(t, func(ctx context.Context) []controllers.Runner {
			c := w.replicaSetController(t, ctx, lag{}, lag{least: time.Minute})
			zero := int64(0)
			if err := w.pods.Delete(ctx, "default", "a", metav1.DeleteOptions{GracePeriodSeconds: &zero}); err != nil {
				t.Fatal(err)
			}
			return []controllers.Runner{c}
		})
		synctest.Wait()
		for _, pod := range w.pods.list() {
			if metav1.GetControllerOf(pod) == nil {
				t.Errorf("%s is left alone", pod.Name)
			}
		}
		settle()
		if got := len(w.pods.list()); got != 2 {
			t.Errorf("%d pods, want b and c", got)
		}
		p.stop(t)
	})
}

// TestEndedPodsAreKept: a pod that has failed or is about to go is not released,
// whatever its labels.
func TestEndedPodsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p := w.runReplicaSets(t, lag{})
		must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(t.Context(), newReplicaSet("web", 2)))
		settle()
		pods := w.pods.list()
		w.pods.alter(t, keyOf(pods[0]), func(p *corev1.Pod) { p.Status.Phase, p.Labels = corev1.PodFailed, nil })
		w.pods.alter(t, keyOf(pods[1]), func(p *corev1.Pod) {
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds, p.Labels = new(metav1.Now()), new(int64(30)), nil
		})
		settle()
		for _, pod := range w.pods.list() {
			if metav1.GetControllerOf(pod) == nil {
				t.Errorf("%s was released", pod.Name)
			}
		}
		p.stop(t)
	})
}

// TestDyingOrphansAreLeft: what is about to go is not adopted.
func TestDyingOrphansAreLeft(t *testing.T) {
	rs := newReplicaSet("web", 1)
	orphan := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orphan", Labels: rs.Spec.Template.Labels}}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		must[*corev1.Pod](t)(w.pods.Create(t.Context(), orphan))
		if err := w.pods.Delete(t.Context(), "default", "orphan", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(t.Context(), rs))
		p := w.runReplicaSets(t, lag{})
		settle()
		if left, err := w.pods.Get(t.Context(), "default", "orphan"); err != nil || len(left.OwnerReferences) != 0 || len(w.pods.list()) != 2 {
			t.Errorf("%d pods, owners %v, %v", len(w.pods.list()), left.OwnerReferences, err)
		}
		p.stop(t)
	})
}

// TestReplicaSetLooksAtItsSiblings: the node with most pods of the Deployment
// gives one up, although they are another ReplicaSet's; with an index or without.
func TestReplicaSetLooksAtItsSiblings(t *testing.T) {
	for _, indexed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			yes := true
			ref := []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "d", UID: "d", Controller: &yes}}
			for _, name := range []string{"new", "old"} {
				rs := newReplicaSet(name, 2)
				rs.OwnerReferences = ref
				must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(t.Context(), rs))
			}
			p := launch(t, func(ctx context.Context) []controllers.Runner {
				pods, sets := follow(ctx, w.pods, lag{}), follow(ctx, w.replicaSets, lag{})
				config := replicaset.Config{ReplicaSets: sets, Pods: pods, PodsByController: localcache.Scan(pods, owner.ByController[*corev1.Pod]),
					Writer: w.replicaSets, PodWriter: w.pods}
				if indexed {
					config.ReplicaSetsByController = localcache.Scan(sets, owner.ByController[*appsv1.ReplicaSet])
				}
				return []controllers.Runner{must[*replicaset.Controller](t)(replicaset.New(config))}
			})
			settle()
			var news []string
			for _, pod := range w.pods.list() {
				w.pods.alter(t, keyOf(pod), func(p *corev1.Pod) {
					makeReady(p)
					if strings.HasPrefix(p.Name, "new-") {
						news = append(news, p.Name)
						p.Spec.NodeName = p.Name
					}
				})
			}
			crowded := news[len(news)-1]
			for _, pod := range w.pods.list() {
				if strings.HasPrefix(pod.Name, "old-") {
					w.pods.alter(t, keyOf(pod), func(p *corev1.Pod) { p.Spec.NodeName = crowded })
				}
			}
			settle()
			one := int32(1)
			w.replicaSets.alter(t, "default/new", func(rs *appsv1.ReplicaSet) { rs.Spec.Replicas = &one })
			synctest.Wait()
			gone := slices.DeleteFunc(w.pods.list(), func(p *corev1.Pod) bool { return p.DeletionTimestamp == nil })
			if len(gone) != 1 || gone[0].Name != crowded {
				t.Errorf("indexed %t: %v go, want %s", indexed, gone, crowded)
			}
			p.stop(t)
		})
	}
}

// TestReplicaSetTellsOfDeletionsRefused is the other half of slow start.
func TestReplicaSetTellsOfDeletionsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p := w.runReplicaSets(t, lag{})
		must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(t.Context(), newReplicaSet("web", 2)))
		settle()
		none := int32(0)
		w.refuse("delete", "Pod ", errors.New("not on a Friday"))
		w.replicaSets.alter(t, "default/web", func(rs *appsv1.ReplicaSet) { rs.Spec.Replicas = &none })
		settle()
		conditions := w.replicaSets.list()[0].Status.Conditions
		if len(conditions) != 1 || conditions[0].Reason != "FailedDelete" || conditions[0].Message != "unable to delete pods: not on a Friday" {
			t.Errorf("conditions %+v", conditions)
		}
		if !slices.Contains(w.events, "Warning FailedDelete: Error deleting: not on a Friday") {
			t.Errorf("events %q", w.events)
		}
		w.refuseNothing()
		settle()
		if rs := w.replicaSets.list()[0]; len(rs.Status.Conditions) != 0 || rs.Status.Replicas != 0 {
			t.Errorf("status %+v", rs.Status)
		}
		p.stop(t)
	})
}

// TestReplicaSetKeepsWhatItCouldNotDelete: a pod whose deletion was refused, and
// that is wanted again, stays.
func TestReplicaSetKeepsWhatItCouldNotDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p := w.runReplicaSets(t, lag{})
		must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(t.Context(), newReplicaSet("web", 2)))
		settle()
		w.refuse("delete", "Pod ", apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("not on a Friday")))
		for _, n := range []int32{1, 2} {
			w.replicaSets.alter(t, "default/web", func(rs *appsv1.ReplicaSet) { rs.Spec.Replicas = &n })
			settle()
		}
		w.refuseNothing()
		settle()
		if got := len(w.wrote()); active(w.pods.list()) != 2 || strings.Contains(strings.Join(w.wrote(), "\n"), "delete Pod") {
			t.Errorf("%d pods after %d writes: %q", active(w.pods.list()), got, w.wrote())
		}
		p.stop(t)
	})
}

// TestReplicaSetCountsWhatMayExist checks that the status counts a pod whose creation was not
// answered and that the cache does not show yet. A Deployment that must not exceed a number relies
// on it.
func TestReplicaSetCountsWhatMayExist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(t.Context(), newReplicaSet("web", 1)))
		w.fault = func(verb, _ string) (bool, error) {
			if verb == "create" {
				return true, errLost
			}
			return true, nil
		}
		p := launch(t, func(ctx context.Context) []controllers.Runner {
			return []controllers.Runner{w.replicaSetController(t, ctx, lag{}, lag{least: time.Minute})}
		})
		time.Sleep(30 * time.Second)
		if s := w.replicaSets.list()[0].Status; s.Replicas != 1 || s.FullyLabeledReplicas != 0 {
			t.Errorf("before it is seen: %+v", s)
		}
		settle()
		if s := w.replicaSets.list()[0].Status; s.Replicas != 1 || s.FullyLabeledReplicas != 1 || len(w.pods.list()) != 1 {
			t.Errorf("with %d pods: %+v", len(w.pods.list()), s)
		}
		p.stop(t)
	})
}
