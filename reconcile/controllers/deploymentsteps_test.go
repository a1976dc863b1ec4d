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
	"github.com/planekit/planekit/reconcile/controllers/deployment"
	"github.com/planekit/planekit/reconcile/controllers/owner"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// inWorld runs test with Deployments, ReplicaSets and a kubelet at work.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := newWorld()
		w.kubelet(ctx, rand.New(rand.NewPCG(1, 1)))
		p := w.runDeployments(t, lag{})
		test(t, w)
		p.stop(t)
	})
}

func resize(n int32) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Spec.Replicas = &n }
}

// wantSizes wants replica counts by image.
func (w *world) wantSizes(t *testing.T, step string, want map[string]int) {
	t.Helper()
	if got := images(w.pods.list()); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: images %v, want %v", step, got, want)
	}
}

// TestDeploymentScalesInMidRollout scales while the new image does not come
// up: its share, and so the risk, stays. After that the rollout goes on.
func TestDeploymentScalesInMidRollout(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		must[*appsv1.Deployment](t)(w.deployments.Create(t.Context(), newDeployment(10, 3, 2)))
		settle()
		w.deployments.alter(t, "default/nginx", image(0))
		settle()
		w.wantSizes(t, "stuck", map[string]int{"nginx:1": 8, "nginx:0": 5})
		w.deployments.alter(t, "default/nginx", resize(15))
		settle()
		// 13 of at most 13 become 18 of at most 18: 8 are 11 and 5 are 7.
		w.wantSizes(t, "up", map[string]int{"nginx:1": 11, "nginx:0": 7})
		w.deployments.alter(t, "default/nginx", resize(5))
		settle()
		// 18 become 8: 11 are 5 and 7 are 3. Of those 5, 3 are enough to be available.
		w.wantSizes(t, "down", map[string]int{"nginx:1": 3, "nginx:0": 5})
		steps := strings.Join(w.events, "\n")
		for _, want := range []string{"from 11 to 5", "from 7 to 3", "from 5 to 3", "from 3 to 5"} {
			if !strings.Contains(steps, want) {
				t.Errorf("no step %q", want)
			}
		}
		w.deployments.alter(t, "default/nginx", image(2))
		settle()
		w.wantSizes(t, "repaired", map[string]int{"nginx:2": 5})
		checkDone(t, w.deployments.list()[0], 5, "3")
	})
}

func TestDeploymentPausesAndResumes(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		must[*appsv1.Deployment](t)(w.deployments.Create(t.Context(), newDeployment(3, 1, 0)))
		settle()
		want := func(step, progressing, revision string) {
			t.Helper()
			settle()
			d := w.deployments.list()[0]
			if got := reasons(d)[appsv1.DeploymentProgressing]; got != progressing || d.Annotations["deployment.kubernetes.io/revision"] != revision {
				t.Errorf("%s: %s at revision %s", step, got, d.Annotations["deployment.kubernetes.io/revision"])
			}
		}
		set := func(paused bool) func(*appsv1.Deployment) {
			return func(d *appsv1.Deployment) { d.Spec.Paused = paused }
		}
		w.deployments.alter(t, "default/nginx", set(true))
		w.deployments.alter(t, "default/nginx", image(0))
		want("paused", "Unknown DeploymentPaused", "1")
		settle() // longer than the deadline
		w.wantSizes(t, "paused", map[string]int{"nginx:1": 3})
		w.deployments.alter(t, "default/nginx", set(false))
		want("resumed, and late", "False ProgressDeadlineExceeded", "2")
		w.deployments.alter(t, "default/nginx", image(1))
		want("repaired", "True NewReplicaSetAvailable", "3")
		w.wantSizes(t, "repaired", map[string]int{"nginx:1": 3})
	})
}

// TestDeploymentRollbackRequested: the annotation that old clients leave.
func TestDeploymentRollbackRequested(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		must[*appsv1.Deployment](t)(w.deployments.Create(t.Context(), newDeployment(2, 1, 0)))
		settle()
		for tag := 2; tag <= 3; tag++ {
			w.deployments.alter(t, "default/nginx", image(tag))
			settle()
		}
		request := func(revision string) {
			w.deployments.alter(t, "default/nginx", func(d *appsv1.Deployment) { d.Annotations[appsv1.DeprecatedRollbackTo] = revision })
			settle()
		}
		request("0")
		w.wantSizes(t, "to the last", map[string]int{"nginx:2": 2})
		checkDone(t, w.deployments.list()[0], 2, "4")
		request("1")
		w.wantSizes(t, "to the first", map[string]int{"nginx:1": 2})
		checkDone(t, w.deployments.list()[0], 2, "5")
		request("77")
		checkDone(t, w.deployments.list()[0], 2, "5")
		if _, left := w.deployments.list()[0].Annotations[appsv1.DeprecatedRollbackTo]; left {
			t.Error("the request is still there")
		}
		var told []string
		for _, e := range w.events {
			if strings.Contains(e, "Rollback") {
				told = append(told, e)
			}
		}
		want := []string{
			`Normal DeploymentRollback: Rolled back deployment "nginx" to revision 2`,
			`Normal DeploymentRollback: Rolled back deployment "nginx" to revision 1`,
			`Warning DeploymentRollbackRevisionNotFound: Unable to find the revision to rollback to.`,
		}
		if !slices.Equal(told, want) {
			t.Errorf("events %q", told)
		}
	})
}

// TestDeploymentGeneration: what the controller writes is not a change of what
// is wanted.
func TestDeploymentGeneration(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		must[*appsv1.Deployment](t)(w.deployments.Create(t.Context(), newDeployment(2, 1, 0)))
		settle()
		if d := w.deployments.list()[0]; d.Generation != 1 || d.Status.ObservedGeneration != 1 {
			t.Errorf("generation %d, observed %d", d.Generation, d.Status.ObservedGeneration)
		}
		checkDone(t, w.deployments.list()[0], 2, "1")
		if rs := w.replicaSets.list()[0]; rs.Generation != 1 {
			t.Errorf("generation %d of the ReplicaSet", rs.Generation)
		}
	})
}

// TestDeploymentTakesOver finds the ReplicaSets that another controller made,
// with hashes of its own, owned already or orphaned.
func TestDeploymentTakesOver(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		d := newDeployment(2, 1, 0)
		for name, tag := range map[string]string{"nginx-old": "nginx:1", "nginx-new": "nginx:2"} {
			rs := newReplicaSet(name, 0)
			rs.Labels = map[string]string{"app": "nginx", "pod-template-hash": name}
			rs.Spec.Template.Spec = podSpec(tag)
			rs.Spec.Template.Labels, rs.Spec.Selector.MatchLabels = rs.Labels, rs.Labels
			if name == "nginx-new" {
				rs.Annotations = map[string]string{"deployment.kubernetes.io/revision": "6"}
				rs.Spec.Replicas = d.Spec.Replicas
			}
			must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(t.Context(), rs))
		}
		settle() // The copies are of two kinds: a Deployment may be seen before older ReplicaSets are.
		d.Spec.Template.Spec = podSpec("nginx:2")
		must[*appsv1.Deployment](t)(w.deployments.Create(t.Context(), d))
		settle()
		checkDone(t, w.deployments.list()[0], 2, "6")
		sets := w.replicaSets.list()
		if len(sets) != 2 || *sets[0].Spec.Replicas != 2 {
			t.Fatalf("%d ReplicaSets", len(sets))
		}
		for _, rs := range sets {
			if !metav1.IsControlledBy(rs, w.deployments.list()[0]) {
				t.Errorf("%s was not adopted", rs.Name)
			}
		}
	})
}

// refuse makes writes fail without an effect, those of verb on names that start
// with prefix.
func (w *world) refuse(verb, prefix string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = func(v, name string) (bool, error) {
		if v == verb && strings.HasPrefix(name, prefix) {
			return false, err
		}
		return true, nil
	}
}

func (w *world) refuseNothing() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = nil
}

func TestDeploymentTellsOfFailures(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.refuse("create", "ReplicaSet ", errors.New("exceeded quota"))
		must[*appsv1.Deployment](t)(w.deployments.Create(t.Context(), newDeployment(2, 1, 0)))
		settle()
		d := w.deployments.list()[0]
		if got := reasons(d)[appsv1.DeploymentProgressing]; got != "False ReplicaSetCreateError" {
			t.Errorf("no ReplicaSet: %s", got)
		}
		message := d.Status.Conditions[0].Message
		if !strings.HasPrefix(message, `Failed to create new replica set "nginx-`) || !strings.HasSuffix(message, ": exceeded quota") ||
			!slices.Contains(w.events, "Warning ReplicaSetCreateError: "+message) {
			t.Errorf("message %q, events %q", message, w.events)
		}
		w.refuse("create", "Pod ", errors.New("no more pods"))
		settle()
		d = w.deployments.list()[0]
		if got := reasons(d)[appsv1.DeploymentReplicaFailure]; got != "True FailedCreate" {
			t.Errorf("no pods: %v", reasons(d))
		}
		w.refuseNothing()
		settle()
		d = w.deployments.list()[0]
		if _, left := reasons(d)[appsv1.DeploymentReplicaFailure]; left {
			t.Errorf("conditions %v", reasons(d))
		}
		checkDone(t, d, 2, "1")
	})
}

// TestDeploymentInEndingNamespace is refused what it needs, and says neither that
// it has it nor that it failed.
func TestDeploymentInEndingNamespace(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ending := apierrors.NewForbidden(appsv1.Resource("replicasets"), "", errors.New("it is being terminated"))
		ending.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
		w.refuse("create", "ReplicaSet ", ending)
		must[*appsv1.Deployment](t)(w.deployments.Create(t.Context(), newDeployment(2, 1, 0)))
		settle()
		if d := w.deployments.list()[0]; len(d.Status.Conditions) != 0 || len(d.Annotations) != 0 || len(w.events) != 0 {
			t.Errorf("status %+v, annotations %v, events %q", d.Status, d.Annotations, w.events)
		}
		if n := len(w.wrote()); n > 5 {
			t.Errorf("%d writes", n)
		}
	})
}

// TestDeploymentSetDeleted deletes the ReplicaSet in use, which ends after its pods. The status
// reports them, and then a ReplicaSet of that name exists again.
func TestDeploymentSetDeleted(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		must[*appsv1.Deployment](t)(w.deployments.Create(t.Context(), newDeployment(2, 1, 0)))
		settle()
		rs := w.replicaSets.list()[0]
		foreground := metav1.DeletePropagationForeground
		if err := w.replicaSets.Delete(t.Context(), rs.Namespace, rs.Name, metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
			t.Fatal(err)
		}
		settle() // otherwise pods deleted before that are created again
		for _, pod := range w.pods.list() {
			removeOutside(t, w.pods, pod.Namespace, pod.Name)
		}
		settle()
		if s := w.deployments.list()[0].Status; s.Replicas != 0 || s.AvailableReplicas != 0 || s.UnavailableReplicas != 2 || len(w.pods.list()) != 0 {
			t.Errorf("status %+v with %d pods", s, len(w.pods.list()))
		}
		w.replicaSets.alter(t, keyOf(rs), func(rs *appsv1.ReplicaSet) { rs.Finalizers = nil })
		settle()
		checkDone(t, w.deployments.list()[0], 2, "1")
		if again := w.replicaSets.list()[0]; again.Name != rs.Name || again.UID == rs.UID {
			t.Errorf("%s of UID %s in place of %s of UID %s", again.Name, again.UID, rs.Name, rs.UID)
		}
	})
}

// TestDeploymentHistoryScaledUp has a user scale up an old ReplicaSet just before the history limit
// deletes it. It is not deleted while it has replicas.
func TestDeploymentHistoryScaledUp(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		d := newDeployment(2, 1, 0)
		d.Spec.RevisionHistoryLimit = new(int32(0))
		must[*appsv1.Deployment](t)(w.deployments.Create(t.Context(), d))
		settle()
		w.replicaSets.check = func(old, new *appsv1.ReplicaSet) {
			if new == nil && *old.Spec.Replicas != 0 {
				t.Errorf("%s is deleted with %d replicas", old.Name, *old.Spec.Replicas)
			}
		}
		scaled := false
		w.mu.Lock()
		w.fault = func(verb, name string) (bool, error) {
			if key, ok := strings.CutPrefix(name, "ReplicaSet "); ok && verb == "delete" && !scaled {
				scaled = true
				w.replicaSets.alterLocked(key, w.replicaSets.objects[key], func(rs *appsv1.ReplicaSet) { rs.Spec.Replicas = new(int32(1)) })
			}
			return true, nil
		}
		w.mu.Unlock()
		w.deployments.alter(t, "default/nginx", image(2))
		settle()
		if !scaled || len(w.replicaSets.list()) != 1 {
			t.Errorf("scaled up %t, %d ReplicaSets in the end", scaled, len(w.replicaSets.list()))
		}
		checkDone(t, w.deployments.list()[0], 2, "2")
	})
}

// TestDeploymentRecreateSeesTheEnd has a pod that ends and stays, which the copy of
// pods shows long after that of ReplicaSets. That alone lets the rollout go on.
func TestDeploymentRecreateSeesTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p := launch(t, func(ctx context.Context) []controllers.Runner {
			sets, pods := follow(ctx, w.replicaSets, lag{}), follow(ctx, w.pods, lag{least: time.Minute})
			return []controllers.Runner{w.replicaSetController(t, ctx, lag{}, lag{}), must[*deployment.Controller](t)(deployment.New(deployment.Config{
				Deployments: follow(ctx, w.deployments, lag{}), ReplicaSets: sets, Pods: pods,
				ReplicaSetsByController: localcache.Scan(sets, owner.ByController[*appsv1.ReplicaSet]), PodsByController: localcache.Scan(pods, owner.ByController[*corev1.Pod]),
				Writer: w.deployments, ReplicaSetWriter: w.replicaSets,
			}))}
		})
		d := newDeployment(1, 1, 0)
		d.Spec.ProgressDeadlineSeconds = nil // or it is looked at again for that
		d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
		must[*appsv1.Deployment](t)(w.deployments.Create(t.Context(), d))
		settle()
		pod := w.pods.list()[0]
		w.deployments.alter(t, "default/nginx", image(2))
		settle()
		w.wantSizes(t, "while it ends", map[string]int{})
		w.pods.alter(t, keyOf(pod), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
		time.Sleep(59 * time.Second)
		w.wantSizes(t, "before it is seen", map[string]int{})
		settle()
		w.wantSizes(t, "when it has ended", map[string]int{"nginx:2": 1})
		p.stop(t)
	})
}

// TestDeploymentSelectingAll does nothing but say so.
func TestDeploymentSelectingAll(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		d := newDeployment(2, 1, 0)
		d.Spec.Selector = &metav1.LabelSelector{}
		must[*appsv1.Deployment](t)(w.deployments.Create(t.Context(), d))
		settle()
		const event = "Warning SelectingAll: This deployment is selecting all pods. A non-empty selector is required."
		if len(w.replicaSets.list()) != 0 || !slices.Contains(w.events, event) || w.deployments.list()[0].Status.ObservedGeneration != 1 {
			t.Errorf("%d ReplicaSets, events %q", len(w.replicaSets.list()), w.events)
		}
	})
}

// TestDeploymentUnhealthyGoFirst: pods that do not run give way at once, though
// no pod may become unavailable.
func TestDeploymentUnhealthyGoFirst(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		d := newDeployment(4, 1, 0)
		d.Spec.Template.Spec = podSpec(broken)
		must[*appsv1.Deployment](t)(w.deployments.Create(t.Context(), d))
		settle()
		w.pods.check = func(_, new *corev1.Pod) {
			if n := w.activeLocked(); n > 5 {
				t.Errorf("%d pods", n)
			}
		}
		w.deployments.alter(t, "default/nginx", image(1))
		settle()
		checkDone(t, w.deployments.list()[0], 4, "2")
	})
}

// TestDeploymentPercent checks that surge is rounded up and unavailable pods are rounded down, and
// that ReplicaSets are annotated with both.
func TestDeploymentPercent(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		d := newDeployment(8, 0, 0)
		quarter := intstr.FromString("25%")
		d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &quarter, MaxUnavailable: &quarter}
		must[*appsv1.Deployment](t)(w.deployments.Create(t.Context(), d))
		settle()
		rs := w.replicaSets.list()[0]
		if rs.Annotations["deployment.kubernetes.io/max-replicas"] != "10" || rs.Annotations["deployment.kubernetes.io/desired-replicas"] != "8" {
			t.Errorf("annotations %v", rs.Annotations)
		}
		w.deployments.alter(t, "default/nginx", image(0))
		settle()
		w.wantSizes(t, "stuck", map[string]int{"nginx:1": 6, "nginx:0": 4})
	})
}
