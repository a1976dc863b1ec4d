package controllers_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/planekit/planekit/reconcile/controllers"
)

func (w *world) runGarbage(t *testing.T, l lag, pods controllers.GarbageWriter[*corev1.Pod], sets controllers.GarbageWriter[*appsv1.ReplicaSet]) *process {
	t.Helper()
	return launch(t, func(ctx context.Context) []controllers.Runner {
		return []controllers.Runner{must[*controllers.Garbage](t)(controllers.NewGarbage(controllers.GarbageConfig{Kinds: []controllers.GarbageKind{
			controllers.NewGarbageKind(corev1.SchemeGroupVersion.WithKind("Pod"), true, controllers.Cache[*corev1.Pod](follow(ctx, w.pods, l)), pods),
			controllers.NewGarbageKind(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), true, controllers.Cache[*appsv1.ReplicaSet](follow(ctx, w.replicaSets, l)), sets),
			controllers.NewGarbageKind(appsv1.SchemeGroupVersion.WithKind("Deployment"), true, controllers.Cache[*appsv1.Deployment](follow(ctx, w.deployments, l)), controllers.GarbageWriter[*appsv1.Deployment](w.deployments)),
		}}))}
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
