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
	"k8s.io/apimachinery/pkg/util/intstr"
)

func newDeployment(replicas int32, surge, unavailable int) *appsv1.Deployment {
	labels := map[string]string{"app": "nginx"}
	s, u := intstr.FromInt(surge), intstr.FromInt(unavailable)
	deadline, history := int32(600), int32(10)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "nginx"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec("nginx:1")},
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &s, MaxUnavailable: &u}},
			ProgressDeadlineSeconds: &deadline, RevisionHistoryLimit: &history,
		},
	}
}

func image(tag int) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Spec.Template.Spec = podSpec(fmt.Sprintf("nginx:%d", tag)) }
}

// images counts the pods of each image.
func images(pods []*corev1.Pod) map[string]int {
	n := map[string]int{}
	for _, p := range pods {
		if isActive(p) {
			n[p.Spec.Containers[0].Image]++
		}
	}
	return n
}

func reasons(d *appsv1.Deployment) map[appsv1.DeploymentConditionType]string {
	m := map[appsv1.DeploymentConditionType]string{}
	for _, c := range d.Status.Conditions {
		m[c.Type] = string(c.Status) + " " + c.Reason
	}
	return m
}

func TestDeploymentRollout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := newWorld()
		w.kubelet(ctx, rand.New(rand.NewPCG(1, 1)))
		p := w.runDeployments(t, lag{})
		must[*appsv1.Deployment](t)(w.deployments.Create(ctx, newDeployment(3, 1, 0)))
		settle()
		d := w.deployments.list()[0]
		first := w.replicaSets.list()[0]
		if want := "Normal ScalingReplicaSet: Scaled up replica set " + first.Name + " from 0 to 3"; !slices.Contains(w.events, want) {
			t.Errorf("no event %q in %q", want, w.events)
		}
		hash := first.Labels["pod-template-hash"]
		if hash == "" || first.Name != "nginx-"+hash || first.Spec.Selector.MatchLabels["pod-template-hash"] != hash ||
			first.Spec.Template.Labels["pod-template-hash"] != hash || !metav1.IsControlledBy(first, d) {
			t.Errorf("replica set %s with labels %v", first.Name, first.Labels)
		}
		checkDone(t, d, 3, "1")

		w.deployments.alter(t, "default/nginx", image(2))
		settle()
		d = w.deployments.list()[0]
		checkDone(t, d, 3, "2")
		if got := images(w.pods.list()); got["nginx:2"] != 3 || len(got) != 1 {
			t.Errorf("images %v", got)
		}
		var steps []string
		for _, e := range w.events {
			if strings.Contains(e, "ScalingReplicaSet") {
				steps = append(steps, strings.Join(strings.Fields(e)[3:4], " ")+strings.Join(strings.Fields(e)[6:], " "))
			}
		}
		t.Log(steps)

		// Back again: the old ReplicaSet is used, with a new revision.
		w.deployments.alter(t, "default/nginx", image(1))
		settle()
		checkDone(t, w.deployments.list()[0], 3, "3")
		again, err := w.replicaSets.Get(ctx, "default", first.Name)
		if err != nil || *again.Spec.Replicas != 3 || again.Annotations["deployment.kubernetes.io/revision-history"] != "1" {
			t.Errorf("%v, replicas %d, annotations %v", err, *again.Spec.Replicas, again.Annotations)
		}
		if got := len(w.replicaSets.list()); got != 2 {
			t.Errorf("%d replica sets", got)
		}
		p.stop(t)
	})
}

func checkDone(t *testing.T, d *appsv1.Deployment, want int32, revision string) {
	t.Helper()
	s := d.Status
	if s.Replicas != want || s.UpdatedReplicas != want || s.ReadyReplicas != want || s.AvailableReplicas != want ||
		s.UnavailableReplicas != 0 || s.ObservedGeneration != d.Generation {
		t.Errorf("status %+v at generation %d, want %d", s, d.Generation, want)
	}
	if got := reasons(d); got[appsv1.DeploymentAvailable] != "True MinimumReplicasAvailable" ||
		got[appsv1.DeploymentProgressing] != "True NewReplicaSetAvailable" {
		t.Errorf("conditions %v", got)
	}
	if got := d.Annotations["deployment.kubernetes.io/revision"]; got != revision {
		t.Errorf("revision %q, want %q", got, revision)
	}
}

// TestDeploymentPerturbed rolls from image to image, with copies that lag and
// miss changes, failing writes and restarts. Never are there more pods than
// the surge allows, and never fewer available ones than it must be.
func TestDeploymentPerturbed(t *testing.T) {
	// Seeds that have found something: an unseen ReplicaSet, an unseen update, pods
	// not seen to be ready.
	seeds := []uint64{6315694244747885871, 14000753573828294176, 8795653874356738514}
	for range 25 {
		seeds = append(seeds, rand.Uint64())
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { perturbDeployment(t, seed) })
		})
	}
}

func perturbDeployment(t *testing.T, seed uint64) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := rand.New(rand.NewPCG(seed, 0))
	w := newWorld()
	w.kubelet(ctx, rand.New(rand.NewPCG(seed, 1)))
	want, surge := 2+r.IntN(8), r.IntN(3)
	unavailable := r.IntN(3)
	if surge == 0 {
		unavailable = 1
	}
	least := max(0, want-unavailable)
	// serving is set once the controller has seen the first pods ready. Until then it
	// scales down pods that its cache does not show as ready yet, as Kubernetes' does.
	serving := false
	w.pods.check = func(old, new *corev1.Pod) {
		available := 0
		for _, p := range w.pods.objects {
			if isActive(p) && podReady(p) {
				available++
			}
		}
		if d := w.deployments.objects["default/nginx"]; d != nil && int(d.Status.AvailableReplicas) >= want {
			serving = true
		}
		if serving && available < least && new != nil && new.DeletionTimestamp != nil && old.DeletionTimestamp == nil {
			t.Errorf("%d available, want %d at least", available, least)
		}
		if n := w.activeLocked(); old == nil && n > want+surge {
			t.Errorf("%d pods, want %d at most", n, want+surge)
		}
	}
	must[*appsv1.Deployment](t)(w.deployments.Create(ctx, newDeployment(int32(want), surge, unavailable)))
	noFaults := w.faults(r, 10)
	slow := lag{random: r, most: 2 * time.Second, relist: 5}
	p := w.runDeployments(t, slow)
	tag := 1
	for range 15 {
		time.Sleep(time.Duration(r.IntN(15)) * time.Second)
		if r.IntN(4) == 0 {
			p.stop(t)
			p = w.runDeployments(t, slow)
		} else {
			tag = 1 + r.IntN(4)
			w.deployments.alter(t, "default/nginx", image(tag))
		}
	}
	noFaults()
	settle()
	if got := images(w.pods.list()); got[fmt.Sprintf("nginx:%d", tag)] != want || len(got) != 1 {
		t.Errorf("images %v, want %d of %d", got, want, tag)
	}
	d := w.deployments.list()[0]
	checkDone(t, d, int32(want), d.Annotations["deployment.kubernetes.io/revision"])
	p.stop(t)
}

// TestDeploymentCrashes kills the process at each of its writes in turn.
func TestDeploymentCrashes(t *testing.T) {
	for at := range 30 {
		for _, applied := range []bool{false, true} {
			t.Run(fmt.Sprintf("write=%d/applied=%t", at, applied), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { crashDeployment(t, at, applied) })
			})
		}
	}
}

func crashDeployment(t *testing.T, at int, applied bool) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := newWorld()
	w.kubelet(ctx, rand.New(rand.NewPCG(uint64(at), 2)))
	slow := lag{random: rand.New(rand.NewPCG(uint64(at), 3)), most: time.Second}
	must[*appsv1.Deployment](t)(w.deployments.Create(ctx, newDeployment(3, 1, 1)))
	dead := w.crash(at, applied)
	p := w.runDeployments(t, slow)
	time.AfterFunc(30*time.Second, func() { w.deployments.alter(t, "default/nginx", image(2)) })
	select {
	case <-dead:
	case <-time.After(time.Hour):
	}
	p.stop(t)
	w.mu.Lock()
	w.fault = nil
	w.mu.Unlock()
	p = w.runDeployments(t, slow)
	settle()
	if got := images(w.pods.list()); got["nginx:2"] != 3 || len(got) != 1 || len(w.pods.list()) != 3 {
		t.Errorf("images %v", got)
	}
	if got := len(w.replicaSets.list()); got > 2 {
		t.Errorf("%d replica sets of two templates", got)
	}
	p.stop(t)
}

func TestDeploymentRecreate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := newWorld()
		w.kubelet(ctx, rand.New(rand.NewPCG(1, 1)))
		w.pods.check = func(_, _ *corev1.Pod) {
			seen := map[string]bool{}
			for _, p := range w.pods.objects { // those that are ending as well
				seen[p.Spec.Containers[0].Image] = true
			}
			if len(seen) > 1 {
				t.Errorf("images %v at once", seen)
			}
		}
		p := w.runDeployments(t, lag{})
		d := newDeployment(3, 1, 0)
		d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
		must[*appsv1.Deployment](t)(w.deployments.Create(ctx, d))
		settle()
		w.deployments.alter(t, "default/nginx", image(2))
		settle()
		checkDone(t, w.deployments.list()[0], 3, "2")
		p.stop(t)
	})
}

func TestDeploymentScalePauseHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := newWorld()
		w.kubelet(ctx, rand.New(rand.NewPCG(1, 1)))
		p := w.runDeployments(t, lag{})
		d := newDeployment(3, 1, 1)
		two := int32(2)
		d.Spec.RevisionHistoryLimit = &two
		must[*appsv1.Deployment](t)(w.deployments.Create(ctx, d))
		for _, want := range []int32{5, 1, 0, 3} {
			w.deployments.alter(t, "default/nginx", func(d *appsv1.Deployment) { d.Spec.Replicas = &want })
			settle()
			checkDone(t, w.deployments.list()[0], want, "1")
		}

		four := int32(4)
		w.deployments.alter(t, "default/nginx", func(d *appsv1.Deployment) { d.Spec.Paused = true })
		w.deployments.alter(t, "default/nginx", image(2))
		w.deployments.alter(t, "default/nginx", func(d *appsv1.Deployment) { d.Spec.Replicas = &four })
		settle()
		if got := images(w.pods.list()); got["nginx:1"] != 4 || len(got) != 1 {
			t.Errorf("while paused: images %v", got)
		}
		w.deployments.alter(t, "default/nginx", func(d *appsv1.Deployment) { d.Spec.Paused = false })
		for tag := 2; tag <= 6; tag++ {
			w.deployments.alter(t, "default/nginx", image(tag))
			settle()
		}
		checkDone(t, w.deployments.list()[0], 4, "6")
		var kept []string
		for _, rs := range w.replicaSets.list() {
			kept = append(kept, rs.Annotations["deployment.kubernetes.io/revision"])
		}
		slices.Sort(kept)
		if !slices.Equal(kept, []string{"4", "5", "6"}) {
			t.Errorf("revisions %v are kept", kept)
		}
		p.stop(t)
	})
}

// TestDeploymentDeadline has pods that never become ready.
func TestDeploymentDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p := w.runDeployments(t, lag{})
		must[*appsv1.Deployment](t)(w.deployments.Create(t.Context(), newDeployment(3, 1, 0)))
		time.Sleep(9 * time.Minute)
		if got := reasons(w.deployments.list()[0]); got[appsv1.DeploymentProgressing] != "True ReplicaSetUpdated" ||
			got[appsv1.DeploymentAvailable] != "False MinimumReplicasUnavailable" {
			t.Errorf("after 9 minutes: %v", got)
		}
		time.Sleep(2 * time.Minute)
		if got := reasons(w.deployments.list()[0]); got[appsv1.DeploymentProgressing] != "False ProgressDeadlineExceeded" {
			t.Errorf("after 11 minutes: %v", got)
		}
		p.stop(t)
	})
}

// TestDeploymentNameTaken has a foreign ReplicaSet with the first name, or two with the first two
// names.
func TestDeploymentNameTaken(t *testing.T) {
	for times := int32(1); times <= 2; times++ {
		deploymentNameTaken(t, times)
	}
}

func deploymentNameTaken(t *testing.T, times int32) {
	synctest.Test(t, func(t *testing.T) {
		taken := map[string]bool{}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := newWorld()
		w.kubelet(ctx, rand.New(rand.NewPCG(1, 1)))
		must[*appsv1.Deployment](t)(w.deployments.Create(ctx, newDeployment(2, 1, 0)))
		w.fault = func(verb, name string) (bool, error) {
			if verb == "create" && strings.HasPrefix(name, "ReplicaSet ") && !strings.HasSuffix(name, "other") {
				if taken[name] = true; len(taken) > int(times) {
					w.fault = nil
					return true, nil
				}
				squatter := newReplicaSet("other", 0)
				squatter.Name = strings.TrimPrefix(name, "ReplicaSet ")
				squatter.UID = "squatter"
				w.replicaSets.put(keyOf(squatter), nil, squatter)
			}
			return true, nil
		}
		p := w.runDeployments(t, lag{})
		settle()
		d := w.deployments.list()[0]
		checkDone(t, d, 2, "1")
		if d.Status.CollisionCount == nil || *d.Status.CollisionCount != times {
			t.Errorf("collision count %v, want %d", d.Status.CollisionCount, times)
		}
		p.stop(t)
	})
}
