package controllers_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func scenarios() []scenario {
	return slices.Concat(workloadScenarios(), otherScenarios(), volumeScenarios(), certificateScenarios(), addressScenarios())
}

func workloadScenarios() []scenario {
	return []scenario{
		{name: "deployment rolls", set: rolls},
		{name: "deployment scales in mid-rollout", set: scales},
		{name: "deployment recreates", set: recreates},
		{name: "deployment is rolled back", set: rollsBack},
		{name: "replica set scales", set: resizes},
		{name: "replica set adopts", set: adopts},
		{name: "replication controller scales and adopts", set: replicates},
		{name: "job completes", set: completes},
		{name: "garbage/background", set: collects(metav1.DeletePropagationBackground, [3]int{0, 0, 0})},
		{name: "garbage/foreground", set: collects(metav1.DeletePropagationForeground, [3]int{0, 0, 0})},
		{name: "garbage/orphan", set: collects(metav1.DeletePropagationOrphan, [3]int{0, 2, 4})},
	}
}

// deployed is the stage of one Deployment that is changed in steps.
func deployed(t *testing.T, ctx context.Context, r *rand.Rand, w *world, d *appsv1.Deployment, changes ...func(*appsv1.Deployment)) stage {
	w.kubelet(ctx, r)
	must[*appsv1.Deployment](t)(w.deployments.Create(outside(), d))
	st := stage{api: w.api, run: func(l lag) *process { return w.runDeployments(t, l) }}
	for _, change := range changes {
		st.steps = append(st.steps, func() { w.deployments.alter(t, keyOf(d), change) })
	}
	return st
}

// guardRollout wants no pod made beyond most, and, once want are available,
// none deleted that leaves fewer than least.
func (w *world) guardRollout(t *testing.T, want, most, least int) {
	serving := false
	w.pods.check = func(old, new *corev1.Pod) {
		available := 0
		for _, p := range w.pods.objects {
			if isActive(p) && podReady(p) {
				available++
			}
		}
		serving = serving || available >= want
		if serving && available < least && new != nil && new.DeletionTimestamp != nil && old.DeletionTimestamp == nil {
			t.Errorf("%d available, want %d at least", available, least)
		}
		if n := w.activeLocked(); old == nil && n > most {
			t.Errorf("%d pods, want %d at most", n, most)
		}
	}
}

// wantDone wants n pods of one image, as many pods as there are at all, and no
// two ReplicaSets of one template.
func (w *world) wantDone(t *testing.T, n int32, tag int, revision string) {
	t.Helper()
	if got := images(w.pods.list()); got[fmt.Sprintf("nginx:%d", tag)] != int(n) || len(got) != 1 || len(w.pods.list()) != int(n) {
		t.Errorf("images %v of %d pods, want %d of %d", got, len(w.pods.list()), n, tag)
	}
	d := w.deployments.list()[0]
	if revision == "" {
		revision = d.Annotations["deployment.kubernetes.io/revision"]
	}
	checkDone(t, d, n, revision)
	seen := map[string]bool{}
	for _, rs := range w.replicaSets.list() {
		if of := rs.Spec.Template.Spec.Containers[0].Image; seen[of] {
			t.Errorf("two ReplicaSets of %s", of)
		} else {
			seen[of] = true
		}
	}
}

func rolls(t *testing.T, ctx context.Context, r *rand.Rand) stage {
	w := newWorld()
	w.guardRollout(t, 4, 5, 3)
	st := deployed(t, ctx, r, w, newDeployment(4, 1, 1), image(2), image(0), image(3))
	st.wanted = func() { w.wantDone(t, 4, 3, "") }
	return st
}

// scales never asks for more than nine, and what is available may be as few as
// three less two.
func scales(t *testing.T, ctx context.Context, r *rand.Rand) stage {
	w := newWorld()
	w.guardRollout(t, 6, 9+2, 3-2)
	st := deployed(t, ctx, r, w, newDeployment(6, 2, 2), image(0), resize(9), resize(3), image(2))
	st.wanted = func() { w.wantDone(t, 3, 2, "") }
	return st
}

func recreates(t *testing.T, ctx context.Context, r *rand.Rand) stage {
	w := newWorld()
	w.pods.check = func(_, _ *corev1.Pod) {
		seen := map[string]bool{}
		for _, p := range w.pods.objects { // those that are ending as well
			seen[p.Spec.Containers[0].Image] = true
		}
		if n := w.activeLocked(); len(seen) > 1 || n > 3 {
			t.Errorf("%d pods, images %v at once", n, seen)
		}
	}
	d := newDeployment(3, 1, 0)
	d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	st := deployed(t, ctx, r, w, d, image(2), image(1))
	st.wanted = func() { w.wantDone(t, 3, 1, "") }
	return st
}

func rollsBack(t *testing.T, ctx context.Context, r *rand.Rand) stage {
	w := newWorld()
	w.guardRollout(t, 2, 3, 2)
	st := deployed(t, ctx, r, w, newDeployment(2, 1, 0), image(2), func(d *appsv1.Deployment) {
		if d.Annotations == nil {
			d.Annotations = map[string]string{}
		}
		d.Annotations[appsv1.DeprecatedRollbackTo] = "1"
	})
	st.wanted = func() {
		d := w.deployments.list()[0]
		if _, left := d.Annotations[appsv1.DeprecatedRollbackTo]; left {
			t.Error("the request is still there")
		}
		tag := 1
		if len(w.replicaSets.list()) == 1 {
			tag = 2 // the first template was never rolled out: there is no revision to go back to
		} else if d.Annotations["deployment.kubernetes.io/revision"] == "2" {
			// The request came before the second template had its ReplicaSet.
			tag = int(d.Spec.Template.Spec.Containers[0].Image[len("nginx:")] - '0')
		}
		w.wantDone(t, 2, tag, "")
	}
	return st
}

func resizes(t *testing.T, ctx context.Context, r *rand.Rand) stage {
	w := newWorld()
	w.kubelet(ctx, r)
	w.guardRollout(t, 7, 7, 2)
	must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(outside(), newReplicaSet("web", 7)))
	st := stage{api: w.api, run: func(l lag) *process { return w.runReplicaSets(t, l) }}
	for _, n := range []int32{2, 5} {
		st.steps = append(st.steps, func() {
			w.replicaSets.alter(t, "default/web", func(rs *appsv1.ReplicaSet) { rs.Spec.Replicas = &n })
		})
	}
	st.wanted = func() {
		rs := w.replicaSets.list()[0]
		if got := len(w.pods.list()); got != 5 || rs.Status.AvailableReplicas != 5 || rs.Status.ObservedGeneration != rs.Generation {
			t.Errorf("%d pods, status %+v", got, rs.Status)
		}
	}
	return st
}

// adopts has orphans, of which one is surplus, and a pod that is released.
func adopts(t *testing.T, ctx context.Context, r *rand.Rand) stage {
	w := newWorld()
	w.kubelet(ctx, r)
	var made int
	w.pods.check = func(old, new *corev1.Pod) {
		checkOwners(t, old, new)
		if old == nil {
			if made++; made > 4+1 {
				t.Errorf("%d pods were made, want one in place of the released", made-4)
			}
		}
	}
	for i := range 4 {
		must[*corev1.Pod](t)(w.pods.Create(outside(), &corev1.Pod{Spec: podSpec("nginx:1"), ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprintf("orphan-%d", i), Labels: map[string]string{"app": "web"}}}))
	}
	must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(outside(), newReplicaSet("web", 3)))
	st := stage{api: w.api, run: func(l lag) *process { return w.runReplicaSets(t, l) }}
	var released string
	st.steps = append(st.steps, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		for key, pod := range w.pods.objects {
			if isActive(pod) {
				released = key
				w.pods.alterLocked(key, pod, func(p *corev1.Pod) { p.Labels = map[string]string{"app": "debug"} })
				return
			}
		}
	})
	st.wanted = func() {
		owned := 0
		for _, pod := range w.pods.list() {
			if controlled := metav1.GetControllerOf(pod) != nil; controlled == (keyOf(pod) == released) {
				t.Errorf("%s is controlled: %t; %s was released", keyOf(pod), controlled, released)
			} else if controlled {
				owned++
			}
		}
		if owned != 3 {
			t.Errorf("%d pods, want 3", owned)
		}
	}
	return st
}

func completes(t *testing.T, ctx context.Context, r *rand.Rand) stage {
	w := newWorld()
	w.end(ctx, r, func(*corev1.Pod) corev1.PodPhase { return corev1.PodSucceeded })
	made := 0
	w.pods.check = func(old, _ *corev1.Pod) {
		if old == nil {
			made++
		}
		if n := w.activeLocked(); n > 2 || made > 5 {
			t.Errorf("%d pods at once, %d in all", n, made)
		}
	}
	must[*batchv1.Job](t)(w.jobs.Create(outside(), newJob(2, 5)))
	return stage{api: w.api, run: func(l lag) *process { return w.runJobs(t, l) }, wanted: func() {
		job := w.jobs.list()[0]
		if job.Status.Succeeded != 5 || job.Status.CompletionTime == nil || made != 5 {
			t.Errorf("%d succeeded of %d, conditions %v", job.Status.Succeeded, made, jobReasons(job))
		}
	}}
}

// collects deletes the head of a family. No other object is touched.
func collects(policy metav1.DeletionPropagation, want [3]int) func(*testing.T, context.Context, *rand.Rand) stage {
	return func(t *testing.T, _ context.Context, _ *rand.Rand) stage {
		w := newWorld()
		d := w.family(t)
		stranger := must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(outside(), newReplicaSet("stranger", 1)))
		w.child(t, "of-the-stranger", stranger)
		w.deployments.check = func(_, new *appsv1.Deployment) {
			if policy == metav1.DeletePropagationForeground && new == nil && len(w.replicaSets.objects)+len(w.pods.objects) > 2 {
				t.Error("gone before what it owns")
			}
		}
		return stage{
			api: w.api,
			run: func(l lag) *process { return w.runGarbage(t, l, w.pods, w.replicaSets) },
			steps: []func(){func() {
				if err := w.deployments.Delete(outside(), d.Namespace, d.Name, metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
					t.Error(err)
				}
			}},
			wanted: func() {
				got := [3]int{len(w.deployments.list()), len(w.replicaSets.list()) - 1, len(w.pods.list()) - 1}
				if _, err := w.pods.Get(t.Context(), "default", "of-the-stranger"); err != nil || got != want {
					t.Errorf("left are %v, want %v; the stranger's: %v", got, want, err)
				}
			},
		}
	}
}
