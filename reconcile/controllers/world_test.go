package controllers_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/deployment"
	"github.com/planekit/planekit/reconcile/controllers/owner"
	"github.com/planekit/planekit/reconcile/controllers/replicaset"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// world is an API with workloads.
type world struct {
	*api
	deployments *collection[*appsv1.Deployment]
	replicaSets *collection[*appsv1.ReplicaSet]
	pods        *collection[*corev1.Pod]
	jobs        *collection[*batchv1.Job]
	// log is the controllers', if a test reads it.
	log logr.Logger
}

func newWorld() *world {
	a := &api{}
	return &world{
		api:         a,
		deployments: newCollection(a, "Deployment", func() *appsv1.Deployment { return &appsv1.Deployment{} }),
		replicaSets: newCollection(a, "ReplicaSet", func() *appsv1.ReplicaSet { return &appsv1.ReplicaSet{} }),
		pods:        newPods(a),
		jobs:        newCollection(a, "Job", func() *batchv1.Job { return &batchv1.Job{} }),
	}
}

// process is one life of the controllers, with copies of its own.
type process struct {
	cancel  context.CancelFunc
	done    chan error
	runners []controllers.Runner
}

func (p *process) stop(t *testing.T) {
	t.Helper()
	p.cancel()
	if err := <-p.done; err != nil {
		t.Errorf("Run: %v", err)
	}
}

func launch(t *testing.T, make func(ctx context.Context) []controllers.Runner) *process {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	runners := make(ctx)
	p := &process{cancel, newDone(), runners}
	go func() { p.done <- controllers.Run(ctx, runners...) }()
	return p
}

func newDone() chan error { return make(chan error, 1) }

func (w *world) runReplicaSets(t *testing.T, l lag) *process {
	t.Helper()
	return launch(t, func(ctx context.Context) []controllers.Runner {
		return []controllers.Runner{w.replicaSetController(t, ctx, l, l)}
	})
}

func (w *world) replicaSetController(t *testing.T, ctx context.Context, l, podLag lag) controllers.Runner {
	t.Helper()
	pods := follow(ctx, w.pods, podLag)
	return must[*replicaset.Controller](t)(replicaset.New(replicaset.Config{
		ReplicaSets: follow(ctx, w.replicaSets, l), Pods: pods, PodsByController: localcache.Scan(pods, owner.ByController[*corev1.Pod]),
		Writer: w.replicaSets, PodWriter: w.pods, Events: w.api, Log: w.log,
	}))
}

func (w *world) runDeployments(t *testing.T, l lag) *process {
	t.Helper()
	return launch(t, func(ctx context.Context) []controllers.Runner {
		return []controllers.Runner{w.replicaSetController(t, ctx, l, l), w.deploymentController(t, ctx, l, l)}
	})
}

// deploymentController has copies of Deployments, and of all that they own, that
// lag each in their way.
func (w *world) deploymentController(t *testing.T, ctx context.Context, l, ownedLag lag) controllers.Runner {
	t.Helper()
	sets, pods := follow(ctx, w.replicaSets, ownedLag), follow(ctx, w.pods, ownedLag)
	return must[*deployment.Controller](t)(deployment.New(deployment.Config{
		Deployments: follow(ctx, w.deployments, l), ReplicaSets: sets, Pods: pods,
		ReplicaSetsByController: localcache.Scan(sets, owner.ByController[*appsv1.ReplicaSet]), PodsByController: localcache.Scan(pods, owner.ByController[*corev1.Pod]),
		Writer: w.deployments, ReplicaSetWriter: w.replicaSets, Events: w.api, Log: w.log,
	}))
}

// broken is an image that never gets ready.
const broken = "nginx:0"

// kubelet makes pods run, become ready, and end when they are deleted, each
// after some time. It ends with the bubble's context, and rests while there is
// nothing to do.
func (w *world) kubelet(ctx context.Context, random *rand.Rand) {
	act := func() (idle bool, changed <-chan struct{}) {
		w.mu.Lock()
		defer w.mu.Unlock()
		idle = true
		for key, pod := range w.pods.objects {
			ends := pod.DeletionTimestamp != nil
			starts := (pod.Status.Phase == "" || pod.Status.Phase == corev1.PodPending) && pod.Spec.Containers[0].Image != broken
			if !ends && !starts {
				continue
			}
			idle = false
			switch {
			case random.IntN(3) > 0:
			case ends:
				w.pods.alterLocked(key, pod, func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = new(int64) })
			default:
				w.pods.alterLocked(key, pod, makeReady)
			}
		}
		return idle, w.pods.changed
	}
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Duration(1+random.IntN(900)) * time.Millisecond):
			}
			if idle, changed := act(); idle {
				select {
				case <-ctx.Done():
					return
				case <-changed:
				}
			}
		}
	}()
}

func makeReady(p *corev1.Pod) {
	p.Spec.NodeName = "node"
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
}

func podReady(p *corev1.Pod) bool {
	return len(p.Status.Conditions) == 1 && p.Status.Conditions[0].Status == corev1.ConditionTrue
}

// active counts the pods that are neither ended nor about to.
func active(pods []*corev1.Pod) (n int) {
	for _, p := range pods {
		if isActive(p) {
			n++
		}
	}
	return n
}

func isActive(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodFailed && p.Status.Phase != corev1.PodSucceeded
}

func (w *world) activeLocked() (n int) {
	for _, p := range w.pods.objects {
		if isActive(p) {
			n++
		}
	}
	return n
}

func newReplicaSet(name string, replicas int32) *appsv1.ReplicaSet {
	labels := map[string]string{"app": name}
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec("nginx:1")},
		},
	}
}

func podSpec(image string) corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: image}}}
}

// settle lets an hour go by, which is longer than any backoff after the last
// fault, and everything come to rest.
func settle() {
	time.Sleep(time.Hour)
	synctest.Wait()
}

var errLost = errors.New("connection reset by peer")

// faults makes a share of writes, of 100, fail, half of them after they were
// applied. stop ends that.
func (w *api) faults(random *rand.Rand, share int) (stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	random = rand.New(rand.NewPCG(random.Uint64(), 7))
	w.fault = func(string, string) (bool, error) {
		if random.IntN(100) >= share {
			return true, nil
		}
		return random.IntN(2) == 0, errLost
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.fault = nil
	}
}
