package controllers_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/garbage"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// collectPods runs a garbage collector of pods, ReplicaSets and nodes, whose copy of
// ReplicaSets lags as it is said.
func (w *world) collectPods(t *testing.T, nodes *collection[*corev1.Node], sets lag) *process {
	t.Helper()
	return launch(t, func(ctx context.Context) []controllers.Runner {
		return []controllers.Runner{must[*garbage.Collector](t)(garbage.New(garbage.Config{Kinds: []garbage.Kind{
			garbage.NewKind(corev1.SchemeGroupVersion.WithKind("Pod"), true, localcache.Cache[*corev1.Pod](follow(ctx, w.pods, lag{})), garbage.Writer[*corev1.Pod](w.pods)),
			garbage.NewKind(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), true, localcache.Cache[*appsv1.ReplicaSet](follow(ctx, w.replicaSets, sets)), garbage.Writer[*appsv1.ReplicaSet](w.replicaSets)),
			garbage.NewKind(corev1.SchemeGroupVersion.WithKind("Node"), false, localcache.Cache[*corev1.Node](follow(ctx, nodes, lag{})), garbage.Writer[*corev1.Node](nodes)),
		}, Events: w.api}))}
	})
}

func (w *world) nodes() *collection[*corev1.Node] {
	return newCollection(w.api, "Node", func() *corev1.Node { return &corev1.Node{} })
}

// TestGarbageWrongPlace has a pod whose reference has the UID of an owner that is
// there and not its place, before the copy has that owner. The pod goes; that says
// nothing about the owner, and the pods that know its place stay.
func TestGarbageWrongPlace(t *testing.T) {
	for name, lie := range map[string]func(*corev1.Pod){
		"namespace": func(p *corev1.Pod) { p.Namespace = "elsewhere" },
		"name":      func(p *corev1.Pod) { p.OwnerReferences[0].Name = "other" },
		"kind":      func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion, p.OwnerReferences[0].Kind = "v1", "Node" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.pods.graceful = false
				p := w.collectPods(t, w.nodes(), lag{least: time.Minute})
				owner := must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(t.Context(), newReplicaSet("owner", 1)))
				wrong := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "wrong"}}
				wrong.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
				lie(wrong)
				must[*corev1.Pod](t)(w.pods.Create(t.Context(), wrong))
				time.Sleep(10 * time.Second)
				w.child(t, "right", owner)
				settle()
				if left := w.pods.list(); len(left) != 1 || left[0].Name != "right" {
					t.Errorf("left are %v", left)
				}
				if len(w.events) != 0 {
					t.Errorf("events %v", w.events) // no cache has the owner in another namespace
				}
				p.stop(t)
			})
		})
	}
}

// TestGarbageOwnerNeverSeen creates and deletes an owner while its cache sees nothing. What it
// owned is deleted too.
func TestGarbageOwnerNeverSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.pods.graceful = false
		p := w.collectPods(t, w.nodes(), lag{least: 1000 * time.Hour})
		owner := must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(t.Context(), newReplicaSet("owner", 1)))
		w.child(t, "child", owner)
		settle()
		if len(w.pods.list()) != 1 {
			t.Error("deleted while its owner was there")
		}
		removeOutside(t, w.replicaSets, "default", "owner")
		settle()
		if left := w.pods.list(); len(left) != 0 {
			t.Errorf("left are %v", left)
		}
		p.stop(t)
	})
}

// TestGarbageInvalidNamespace checks that owners in another namespace are reported once, and owners
// of another kind or name than referenced are not. A cluster-scoped object that names a namespaced
// owner stays.
func TestGarbageInvalidNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.pods.graceful = false
		nodes := w.nodes()
		owner := must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(t.Context(), newReplicaSet("owner", 1)))
		reference := *metav1.NewControllerRef(owner, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))
		must[*corev1.Node](t)(nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", OwnerReferences: []metav1.OwnerReference{reference}}}))
		misnamed := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "misnamed", OwnerReferences: []metav1.OwnerReference{reference}}}
		misnamed.OwnerReferences[0].Name = "other"
		must[*corev1.Pod](t)(w.pods.Create(t.Context(), misnamed))
		p := w.collectPods(t, nodes, lag{})
		settle()
		for i := range 3 {
			nodes.alter(t, "n", func(n *corev1.Node) { n.Labels = map[string]string{"changed": fmt.Sprint(i)} })
			settle()
		}
		want := []string{fmt.Sprintf(`Warning OwnerRefInvalidNamespace: ownerRef [apps/v1/ReplicaSet, namespace: , name: owner, uid: %s] does not exist in namespace ""`, owner.UID)}
		if !slices.Equal(w.events, want) || len(nodes.list()) != 1 || len(w.pods.list()) != 0 {
			t.Errorf("events %q, want %q; left are nodes %v and pods %v", w.events, want, nodes.list(), w.pods.list())
		}
		p.stop(t)
	})
}

// TestGarbagePropagates deletes an owner. The finalizers of its dependent select how the
// collector deletes the dependent: orphan has precedence over foreground, and an owner
// that waits for its dependents has precedence over both.
func TestGarbagePropagates(t *testing.T) {
	for _, test := range []struct {
		name       string
		finalizers []string
		awaited    bool
		orphaned   bool
	}{
		{"nothing said", nil, false, false},
		{"orphan", []string{metav1.FinalizerOrphanDependents}, false, true},
		{"orphan before foreground", []string{metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents}, false, true},
		{"foreground before orphan", []string{metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents}, false, true},
		{"foreground", []string{metav1.FinalizerDeleteDependents}, false, false},
		{"orphan, awaited", []string{metav1.FinalizerOrphanDependents}, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.pods.graceful = false
				owner := must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(t.Context(), newReplicaSet("owner", 1)))
				middle := newReplicaSet("middle", 1)
				middle.Finalizers = test.finalizers
				middle.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
				middle = must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(t.Context(), middle))
				w.child(t, "pod", middle)
				var asked []metav1.DeletionPropagation
				p := launch(t, func(ctx context.Context) []controllers.Runner {
					return []controllers.Runner{must[*garbage.Collector](t)(garbage.New(garbage.Config{Kinds: []garbage.Kind{
						garbage.NewKind(corev1.SchemeGroupVersion.WithKind("Pod"), true, localcache.Cache[*corev1.Pod](follow(ctx, w.pods, lag{})), garbage.Writer[*corev1.Pod](w.pods)),
						garbage.NewKind(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), true, localcache.Cache[*appsv1.ReplicaSet](follow(ctx, w.replicaSets, lag{})),
							garbage.Writer[*appsv1.ReplicaSet](policyRecorder{w.replicaSets, &asked})),
					}}))}
				})
				settle()
				policy := metav1.DeletePropagationBackground
				if test.awaited {
					policy = metav1.DeletePropagationForeground
				}
				if err := w.replicaSets.Delete(outside(), "default", "owner", metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				want := metav1.DeletePropagationBackground
				switch {
				case test.awaited || len(test.finalizers) > 0 && !test.orphaned:
					want = metav1.DeletePropagationForeground
				case test.orphaned:
					want = metav1.DeletePropagationOrphan
				}
				if len(asked) == 0 || asked[0] != want {
					t.Errorf("deleted %v, want %s", asked, want)
				}
				p.stop(t)
			})
		})
	}
}

// policyRecorder notes how it is asked to delete.
type policyRecorder struct {
	*collection[*appsv1.ReplicaSet]
	asked *[]metav1.DeletionPropagation
}

func (r policyRecorder) Delete(ctx context.Context, namespace, name string, options metav1.DeleteOptions) error {
	*r.asked = append(*r.asked, *options.PropagationPolicy)
	return r.collection.Delete(ctx, namespace, name, options)
}

// TestGarbageLetsGo checks that the collector leaves an object alone that is already being deleted,
// however many of its owners are deleted.
func TestGarbageLetsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a := must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(t.Context(), newReplicaSet("a", 1)))
		b := must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(t.Context(), newReplicaSet("b", 1)))
		w.child(t, "pod", a, b)
		p := w.collectPods(t, w.nodes(), lag{})
		settle()
		if err := w.pods.Delete(outside(), "default", "pod", metav1.DeleteOptions{}); err != nil { // and its kubelet takes its time
			t.Fatal(err)
		}
		removeOutside(t, w.replicaSets, "default", "a")
		settle()
		before := len(w.wrote())
		removeOutside(t, w.replicaSets, "default", "b")
		settle()
		if got := w.wrote()[before:]; len(got) != 1 || len(w.pods.list()[0].OwnerReferences) != 2 {
			t.Errorf("written are %v", got)
		}
		p.stop(t)
	})
}
