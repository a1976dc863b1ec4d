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
	"github.com/planekit/planekit/reconcile/controllers/disruption"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func equalStatus(a, b policyv1.PodDisruptionBudgetStatus) bool {
	return equality.Semantic.DeepEqual(a, b)
}

func compareNames(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) }

func (w *budgetWorld) launch(t *testing.T) *process {
	t.Helper()
	return launch(t, func(ctx context.Context) []controllers.Runner {
		return []controllers.Runner{must[*disruption.Controller](t)(w.disruption(ctx, lag{}))}
	})
}

// addPods makes n ready pods that owner controls, unless it is nil.
func (w *budgetWorld) addPods(t *testing.T, prefix string, n int, owner metav1.Object, kind schema.GroupVersionKind) {
	t.Helper()
	for i := range n {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: prefix + string(rune('a'+i)), Labels: map[string]string{"app": "web"}}}
		if owner != nil {
			pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, kind)}
		}
		makeReady(pod)
		must[*corev1.Pod](t)(w.pods.Create(outside(), pod))
	}
}

// TestDisruptionCounts has budgets of every form over pods of every kind of
// controller.
func TestDisruptionCounts(t *testing.T) {
	rsKind, widget := appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	// Every world has three pods, and controllers that want five.
	worlds := map[string]func(t *testing.T, w *budgetWorld){
		"unmanaged": func(t *testing.T, w *budgetWorld) { w.addPods(t, "p", 3, nil, schema.GroupVersionKind{}) },
		"replica set": func(t *testing.T, w *budgetWorld) {
			w.addPods(t, "p", 3, must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(outside(), newReplicaSet("web", 5))), rsKind)
		},
		"deployment with two replica sets": func(t *testing.T, w *budgetWorld) {
			d := must[*appsv1.Deployment](t)(w.deployments.Create(outside(), newDeployment(5, 1, 1)))
			for i, name := range []string{"old", "new"} {
				rs := newReplicaSet(name, 4)
				rs.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
				w.addPods(t, name, 1+i, must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(outside(), rs)), rsKind)
			}
		},
		"replica set of a deployment that is gone": func(t *testing.T, w *budgetWorld) {
			rs := newReplicaSet("web", 5)
			rs.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "gone", UID: "gone", Controller: new(true)}}
			w.addPods(t, "p", 3, must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(outside(), rs)), rsKind)
		},
		"replication controller": func(t *testing.T, w *budgetWorld) {
			rc := &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
			rc.Spec.Replicas = new(int32(5))
			w.addPods(t, "p", 3, must[*corev1.ReplicationController](t)(w.replications.Create(outside(), rc)), corev1.SchemeGroupVersion.WithKind("ReplicationController"))
		},
		"any other kind with a scale": func(t *testing.T, w *budgetWorld) {
			w.addPods(t, "p", 3, &metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "widget"}, widget)
			w.scales = disruption.ScaleReaderFunc(func(_ context.Context, namespace string, of *metav1.OwnerReference) (*autoscalingv1.Scale, error) {
				if namespace != "default" || of.Kind != "Widget" {
					return nil, errors.New("widgets.example.com does not implement the scale subresource")
				}
				return &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{UID: "widget"}, Spec: autoscalingv1.ScaleSpec{Replicas: 5}}, nil
			})
		},
	}
	for name, set := range worlds {
		expected := int32(5)
		if name == "unmanaged" {
			expected = 0
		}
		for _, test := range []struct {
			name                       string
			spec                       func(*policyv1.PodDisruptionBudgetSpec)
			expected, desired, allowed int32
		}{
			{"min 2", minAvailable(intstr.FromInt32(2)), 3, 2, 1},
			{"min 4", minAvailable(intstr.FromInt32(4)), 3, 4, 0},
			{"min 0", minAvailable(intstr.FromInt32(0)), 3, 0, 3},
			{"min 30%", minAvailable(intstr.FromString("30%")), expected, (expected*30 + 99) / 100, max(0, 3-(expected*30+99)/100)},
			{"max 3", maxUnavailable(intstr.FromInt32(3)), expected, max(0, expected-3), max(0, 3-max(0, expected-3))},
			{"max 50%", maxUnavailable(intstr.FromString("50%")), expected, expected / 2, max(0, 3-expected/2)},
			{"max 0", maxUnavailable(intstr.FromInt32(0)), expected, expected, 0},
		} {
			t.Run(name+"/"+test.name, func(t *testing.T) {
				if test.expected == 0 {
					test.allowed = 0 // nothing is expected: nothing is allowed
				}
				synctest.Test(t, func(t *testing.T) {
					w := newBudgetWorld()
					set(t, w)
					must[*policyv1.PodDisruptionBudget](t)(w.budgets.Create(outside(), newBudget("b", test.spec)))
					p := w.launch(t)
					synctest.Wait()
					p.stop(t)
					got := w.budgets.list()[0].Status
					want := policyv1.PodDisruptionBudgetStatus{
						ObservedGeneration: 1, ExpectedPods: test.expected, CurrentHealthy: 3, DesiredHealthy: test.desired,
						DisruptionsAllowed: test.allowed, Conditions: got.Conditions,
					}
					if !equalStatus(got, want) {
						t.Errorf("status %+v\nwant %+v", got, want)
					}
					wantCondition(t, got, test.allowed)
				})
			})
		}
	}
}

func wantCondition(t *testing.T, s policyv1.PodDisruptionBudgetStatus, allowed int32) {
	t.Helper()
	want := metav1.Condition{Type: "DisruptionAllowed", Status: metav1.ConditionFalse, Reason: "InsufficientPods", ObservedGeneration: s.ObservedGeneration}
	if allowed > 0 {
		want.Status, want.Reason = metav1.ConditionTrue, "SufficientPods"
	}
	got := meta.FindStatusCondition(s.Conditions, "DisruptionAllowed")
	if got == nil || got.LastTransitionTime.IsZero() {
		t.Fatalf("condition %+v", got)
	}
	want.LastTransitionTime = got.LastTransitionTime
	if *got != want {
		t.Errorf("condition %+v, want %+v", *got, want)
	}
}

// TestDisruptionFails: a budget over pods of a controller that is not there allows
// nothing and says why, and is right again once the controller is there.
func TestDisruptionFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newBudgetWorld()
		rs := newReplicaSet("web", 3)
		rs.UID = "uid-9" // which the fake will give it
		w.addPods(t, "p", 3, rs, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))
		b := newBudget("b", maxUnavailable(intstr.FromInt32(1)))
		b.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, DisruptionsAllowed: 3}
		must[*policyv1.PodDisruptionBudget](t)(w.budgets.Create(outside(), b))
		p := w.launch(t)
		time.Sleep(time.Second)
		synctest.Wait()
		s := w.budgets.list()[0].Status
		c := meta.FindStatusCondition(s.Conditions, "DisruptionAllowed")
		if s.DisruptionsAllowed != 0 || c == nil || c.Reason != "SyncFailed" || c.Status != metav1.ConditionFalse || c.Message != `found no controllers for pod "pa"` {
			t.Errorf("status %+v", s)
		}
		const told = `Warning CalculateExpectedPodCountFailed: Failed to calculate the number of expected pods: found no controllers for pod "pa"`
		if !slices.Contains(w.events, told) {
			t.Errorf("events %q", w.events)
		}
		w.mu.Lock()
		w.revision = 8
		w.mu.Unlock()
		must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(outside(), rs))
		synctest.Wait()
		s = w.budgets.list()[0].Status
		if s.DisruptionsAllowed != 1 {
			t.Errorf("status %+v", s)
		}
		wantCondition(t, s, 1)
		p.stop(t)
	})
}

// TestDisruptionTells has the events about pods that a budget cannot count.
func TestDisruptionTells(t *testing.T) {
	for name, test := range map[string]struct {
		set  func(t *testing.T, w *budgetWorld)
		want string
	}{
		"no pods": {func(t *testing.T, w *budgetWorld) {
			must[*policyv1.PodDisruptionBudget](t)(w.budgets.Create(outside(), newBudget("b", minAvailable(intstr.FromInt32(1)))))
		}, "Normal NoPods: No matching pods found"},
		"unmanaged": {func(t *testing.T, w *budgetWorld) {
			w.addPods(t, "p", 1, nil, schema.GroupVersionKind{})
			must[*policyv1.PodDisruptionBudget](t)(w.budgets.Create(outside(), newBudget("b", maxUnavailable(intstr.FromInt32(1)))))
		}, `Warning UnmanagedPods: Pods selected by this PodDisruptionBudget (selector: &LabelSelector{MatchLabels:map[string]string{app: web,},MatchExpressions:[]LabelSelectorRequirement{},}) were found to be unmanaged. ` +
			`As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please set ".spec.minAvailable" field of the PDB to an integer value.`},
		"two budgets": {func(t *testing.T, w *budgetWorld) {
			w.addPods(t, "p", 1, nil, schema.GroupVersionKind{})
			for _, name := range []string{"b", "a"} {
				must[*policyv1.PodDisruptionBudget](t)(w.budgets.Create(outside(), newBudget(name, minAvailable(intstr.FromInt32(1)))))
			}
		}, `Warning MultiplePodDisruptionBudgets: Pod "default"/"pa" matches multiple PodDisruptionBudgets.  Chose "a" arbitrarily.`},
		"not deleted": {func(t *testing.T, w *budgetWorld) {
			w.addPods(t, "p", 1, nil, schema.GroupVersionKind{})
			b := newBudget("b", minAvailable(intstr.FromInt32(1)))
			b.Status.DisruptedPods = map[string]metav1.Time{"pa": metav1.Now()}
			must[*policyv1.PodDisruptionBudget](t)(w.budgets.Create(outside(), b))
		}, "Warning NotDeleted: Pod was expected by PDB default/b to be deleted but it wasn't"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newBudgetWorld()
				test.set(t, w)
				p := w.launch(t)
				settle()
				p.stop(t)
				if !slices.Contains(w.events, test.want) {
					t.Errorf("events %q\nwant %q", w.events, test.want)
				}
			})
		})
	}
}

// TestDisruptedPods: a pod whose eviction was granted does not count as healthy,
// until it is seen to go, and for two minutes at most.
func TestDisruptedPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newBudgetWorld()
		w.addPods(t, "p", 4, nil, schema.GroupVersionKind{})
		time.Sleep(10 * time.Second)
		b := newBudget("b", minAvailable(intstr.FromInt32(1)))
		now := metav1.NewTime(time.Now())
		b.Status.DisruptedPods = map[string]metav1.Time{"pa": now, "pb": now, "unseen": now, "pc": metav1.NewTime(now.Add(-time.Minute))}
		must[*policyv1.PodDisruptionBudget](t)(w.budgets.Create(outside(), b))
		w.pods.alter(t, "default/pa", func(p *corev1.Pod) {
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now().Add(30 * time.Second)}, new(int64(30))
		})
		p := w.launch(t)
		synctest.Wait()
		want := func(after string, healthy int32, disrupted ...string) {
			t.Helper()
			s := w.budgets.list()[0].Status
			var names []string
			for name := range s.DisruptedPods {
				names = append(names, name)
			}
			slices.Sort(names)
			if !slices.Equal(names, disrupted) || s.CurrentHealthy != healthy || s.DisruptionsAllowed != max(0, healthy-1) {
				t.Errorf("%s: disrupted %v, healthy %d, allowed %d; want %v, %d", after, names, s.CurrentHealthy, s.DisruptionsAllowed, disrupted, healthy)
			}
		}
		// pc was made after its namesake was evicted.
		want("at first", 2, "pb", "unseen")
		w.addPods(t, "unsee", 1, nil, schema.GroupVersionKind{}) // unseea does not matter
		synctest.Wait()
		want("another pod", 3, "pb", "unseen")
		time.Sleep(deletionPatience - time.Second)
		synctest.Wait()
		want("before two minutes", 3, "pb", "unseen")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		want("after two minutes", 4)
		p.stop(t)
	})
}

const deletionPatience = 2 * time.Minute

// TestDisruptionTargetWithdrawn: the condition of a pod that is not deleted becomes
// False after two minutes, unless the kubelet has set it or the pod has ended.
func TestDisruptionTargetWithdrawn(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		stays  bool
	}{
		"evicted":        {func(*corev1.Pod) {}, false},
		"by the kubelet": {func(p *corev1.Pod) { p.Status.Conditions[1].Reason = "TerminationByKubelet" }, true},
		"ended":          {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, true},
		"being deleted": {func(p *corev1.Pod) {
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now().Add(time.Hour)}, new(int64(3600))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newBudgetWorld()
				w.addPods(t, "p", 1, nil, schema.GroupVersionKind{})
				p := w.launch(t)
				time.Sleep(time.Hour)
				w.pods.alter(t, "default/pa", func(p *corev1.Pod) {
					p.Generation = 7
					p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
						Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI", LastTransitionTime: metav1.Now(),
					})
					test.change(p)
				})
				status := func() corev1.PodCondition { return w.pods.list()[0].Status.Conditions[1] }
				time.Sleep(deletionPatience - time.Second)
				synctest.Wait()
				if c := status(); c.Status != corev1.ConditionTrue {
					t.Errorf("too early: %+v", c)
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				c := status()
				if stays := c.Status == corev1.ConditionTrue; stays != test.stays {
					t.Errorf("condition %+v", c)
				}
				if !test.stays && (c.Reason != "" || c.ObservedGeneration != 7 || time.Since(c.LastTransitionTime.Time) > 3*time.Second) {
					t.Errorf("condition %+v", c)
				}
				if ready := w.pods.list()[0].Status.Conditions[0]; ready.Type != corev1.PodReady {
					t.Errorf("the first condition is %+v", ready)
				}
				p.stop(t)
			})
		})
	}
}
