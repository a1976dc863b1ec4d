package controllers_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/disruption"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// budgetWorld is a world with budgets.
type budgetWorld struct {
	*world
	budgets      *collection[*policyv1.PodDisruptionBudget]
	replications *collection[*corev1.ReplicationController]
	scales       disruption.ScaleReader
}

func newBudgetWorld() *budgetWorld {
	w := newWorld()
	return &budgetWorld{
		world:        w,
		budgets:      newCollection(w.api, "PodDisruptionBudget", func() *policyv1.PodDisruptionBudget { return &policyv1.PodDisruptionBudget{} }),
		replications: newCollection(w.api, "ReplicationController", func() *corev1.ReplicationController { return &corev1.ReplicationController{} }),
	}
}

func (w *budgetWorld) disruption(ctx context.Context, l lag) (*disruption.Controller, error) {
	budgets, pods := follow(ctx, w.budgets, l), follow(ctx, w.pods, l)
	return disruption.New(disruption.Config{
		Budgets: budgets, Pods: pods, Deployments: follow(ctx, w.deployments, l), ReplicaSets: follow(ctx, w.replicaSets, l),
		ReplicationControllers: follow(ctx, w.replications, l),
		BudgetsByNamespace:     localcache.Scan(budgets, controllers.ByNamespace[*policyv1.PodDisruptionBudget]),
		PodsByNamespace:        localcache.Scan(pods, controllers.ByNamespace[*corev1.Pod]),
		Writer:                 w.budgets, PodWriter: w.pods, Scales: w.scales, Events: w.api,
	})
}

// newBudget selects pods of the label app=web.
func newBudget(name string, change func(*policyv1.PodDisruptionBudgetSpec)) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	change(&b.Spec)
	return b
}

func minAvailable(n intstr.IntOrString) func(*policyv1.PodDisruptionBudgetSpec) {
	return func(s *policyv1.PodDisruptionBudgetSpec) { s.MinAvailable, s.MaxUnavailable = &n, nil }
}

func maxUnavailable(n intstr.IntOrString) func(*policyv1.PodDisruptionBudgetSpec) {
	return func(s *policyv1.PodDisruptionBudgetSpec) { s.MaxUnavailable, s.MinAvailable = &n, nil }
}

// evictor evicts pods as the API does, at random times.
type evictor struct {
	*budgetWorld
	t *testing.T
	// least is the number of healthy pods that every eviction must leave.
	least int
	// charged are the pods whose eviction was granted. Guarded by the lock of the api.
	charged map[string]bool
	granted int
}

func healthy(p *corev1.Pod) bool { return isActive(p) && conditionReady(p) }

func conditionReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// evict charges a pod to its budget and, a little later, deletes it.
func (e *evictor) evict(ctx context.Context, r *rand.Rand, budget string) {
	uid := e.charge(r, budget)
	if uid == "" {
		return
	}
	select {
	case <-ctx.Done():
		return
	case <-time.After(time.Duration(r.IntN(1500)) * time.Millisecond):
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for key, pod := range e.pods.objects {
		if string(pod.UID) == uid {
			e.pods.alterLocked(key, pod, func(p *corev1.Pod) {
				p.DeletionTimestamp = &metav1.Time{Time: time.Now().Truncate(time.Second).Add(30 * time.Second)}
				p.DeletionGracePeriodSeconds = new(int64(30))
			})
		}
	}
}

// charge returns the UID of the pod whose eviction was granted.
func (e *evictor) charge(r *rand.Rand, budget string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	b, left := e.budgets.objects[budget], 0
	var candidates []*corev1.Pod
	for _, pod := range e.pods.objects {
		if healthy(pod) && !e.charged[string(pod.UID)] {
			candidates, left = append(candidates, pod), left+1
		}
	}
	if b.Status.ObservedGeneration < b.Generation || b.Status.DisruptionsAllowed == 0 || len(candidates) == 0 {
		return ""
	}
	if left-1 < e.least {
		e.t.Errorf("an eviction leaves %d healthy pods, want %d at least; status %+v", left-1, e.least, b.Status)
	}
	slices.SortFunc(candidates, func(a, b *corev1.Pod) int { return compareNames(a, b) })
	pod := candidates[r.IntN(len(candidates))]
	e.charged[string(pod.UID)] = true
	e.granted++
	e.budgets.alterLocked(budget, b, func(b *policyv1.PodDisruptionBudget) {
		b.Status.DisruptionsAllowed--
		if b.Status.DisruptedPods == nil {
			b.Status.DisruptedPods = map[string]metav1.Time{}
		}
		b.Status.DisruptedPods[pod.Name] = metav1.NewTime(time.Now().Truncate(time.Second))
	})
	return string(pod.UID)
}

// run evicts for some minutes, from when the budget is first counted, several pods
// at a time.
func (e *evictor) run(ctx context.Context, r *rand.Rand, budget string) {
	for worker := range 3 {
		r := rand.New(rand.NewPCG(r.Uint64(), uint64(worker)))
		go func() {
			for left := 60; left > 0; {
				select {
				case <-ctx.Done():
					return
				case <-time.After(time.Duration(r.IntN(2500)) * time.Millisecond):
				}
				e.mu.Lock()
				counted := e.budgets.objects[budget].Status.ObservedGeneration > 0
				e.mu.Unlock()
				if counted {
					e.evict(ctx, r, budget)
					left--
				}
			}
		}()
	}
}

// replace creates deleted pods of replications again under their names, as a StatefulSet does.
func (w *budgetWorld) replace(ctx context.Context, r *rand.Rand) {
	go func() {
		for {
			w.mu.Lock()
			changed := w.pods.changed
			var missing []*corev1.Pod
			for _, rc := range w.replications.objects {
				for i := range *rc.Spec.Replicas {
					pod := newControlled(rc, fmt.Sprintf("%s-%d", rc.Name, i))
					if w.pods.objects[keyOf(pod)] == nil {
						missing = append(missing, pod)
					}
				}
			}
			w.mu.Unlock()
			for _, pod := range missing {
				if _, err := w.pods.Create(outside(), pod); err != nil {
					panic(err) // no other client creates pods
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-changed:
			case <-time.After(20 * time.Second): // the replicas may have changed
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Duration(r.IntN(1500)) * time.Millisecond):
			}
		}
	}()
}

func newControlled(rc *corev1.ReplicationController, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, Labels: map[string]string{"app": "web"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(rc, corev1.SchemeGroupVersion.WithKind("ReplicationController"))},
		},
		Spec: podSpec("nginx:1"),
	}
}

// disrupts has pods evicted all the time, and a budget and a scale that change.
func disrupts(t *testing.T, ctx context.Context, r *rand.Rand) stage {
	w := newBudgetWorld()
	w.kubelet(ctx, rand.New(rand.NewPCG(r.Uint64(), 2)))
	rc := &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	rc.Spec.Replicas = new(int32(6))
	must[*corev1.ReplicationController](t)(w.replications.Create(outside(), rc))
	w.replace(ctx, rand.New(rand.NewPCG(r.Uint64(), 3)))
	must[*policyv1.PodDisruptionBudget](t)(w.budgets.Create(outside(), newBudget("web", maxUnavailable(intstr.FromInt32(2)))))
	e := &evictor{budgetWorld: w, t: t, least: 3, charged: map[string]bool{}}
	e.run(ctx, rand.New(rand.NewPCG(r.Uint64(), 4)), "default/web")
	w.budgets.check = func(old, new *policyv1.PodDisruptionBudget) {
		if s := new.Status; s.ObservedGeneration > new.Generation || s.DisruptionsAllowed < 0 {
			t.Errorf("status %+v at generation %d", s, new.Generation)
		}
	}
	st := single(t, w.api, w.disruption)
	st.steps = []func(){
		func() {
			w.budgets.alter(t, "default/web", func(b *policyv1.PodDisruptionBudget) { minAvailable(intstr.FromInt32(3))(&b.Spec) })
		},
		func() {
			w.replications.alter(t, "default/web", func(rc *corev1.ReplicationController) { rc.Spec.Replicas = new(int32(8)) })
		},
		func() {
			w.budgets.alter(t, "default/web", func(b *policyv1.PodDisruptionBudget) { maxUnavailable(intstr.FromString("25%"))(&b.Spec) })
		},
	}
	st.wanted = func() {
		b := w.budgets.list()[0]
		want := policyv1.PodDisruptionBudgetStatus{
			ObservedGeneration: 3, ExpectedPods: 8, CurrentHealthy: 8, DesiredHealthy: 6, DisruptionsAllowed: 2, Conditions: b.Status.Conditions,
		}
		if len(b.Status.DisruptedPods) == 0 {
			b.Status.DisruptedPods = nil
		}
		if got := b.Status; !equalStatus(got, want) || !meta.IsStatusConditionTrue(b.Status.Conditions, "DisruptionAllowed") {
			t.Errorf("status %+v, want %+v", got, want)
		}
		if e.granted == 0 {
			t.Error("no eviction was granted")
		}
	}
	return st
}
