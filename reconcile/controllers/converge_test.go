package controllers_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/events"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/informer"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/deployment"
	"github.com/planekit/planekit/reconcile/controllers/owner"
	"github.com/planekit/planekit/reconcile/controllers/replicaset"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// plane is a real API server with Deployments and ReplicaSets at work.
type plane struct {
	api         *client.Client
	deployments *informer.Informer[*appsv1.Deployment]
	pods        *informer.Informer[*corev1.Pod]
}

// startPlane starts all of it. It ends with the test.
func startPlane(tb testing.TB, wire bool) *plane {
	tb.Helper()
	server := apiservertest.Start(tb, apiservertest.WithResources(kube.Resources()...))
	config := client.InProcess(server.As("admin", "system:masters").Transport)
	if wire {
		config = client.Config{Server: server.URL, Transport: server.Client().Transport}
	}
	api := must2(tb, client.New, config)
	recorder := must2(tb, events.New, events.Config{Client: api, Component: "test"})
	p := &plane{api: api, deployments: copied(tb, typed.Deployments(api)), pods: copied(tb, typed.Pods(api))}
	sets := copied(tb, typed.ReplicaSets(api))
	podsByController := informer.NewIndex(p.pods, owner.ByController[*corev1.Pod])
	setsByController := informer.NewIndex(sets, owner.ByController[*appsv1.ReplicaSet])
	replicaSets := must2(tb, replicaset.New, replicaset.Config{
		ReplicaSets: sets, Pods: p.pods, PodsByController: podsByController, ReplicaSetsByController: setsByController,
		Writer: typed.ReplicaSets(api), PodWriter: typed.Pods(api), Events: recorder,
	})
	deployments := must2(tb, deployment.New, deployment.Config{
		Deployments: p.deployments, ReplicaSets: sets, Pods: p.pods,
		ReplicaSetsByController: setsByController, PodsByController: podsByController,
		Writer: typed.Deployments(api), ReplicaSetWriter: typed.ReplicaSets(api), Events: recorder,
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := newDone()
	go func() { done <- controllers.Run(ctx, recorder, p.deployments, sets, p.pods, replicaSets, deployments) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			tb.Errorf("Run: %v", err)
		}
	})
	return p
}

func must2[C, T any](tb testing.TB, make func(C) (T, error), config C) T {
	tb.Helper()
	made, err := make(config)
	if err != nil {
		tb.Fatal(err)
	}
	return made
}

func copied[T client.Object](tb testing.TB, source informer.Source[T]) *informer.Informer[T] {
	tb.Helper()
	return must2(tb, informer.New, informer.Config[T]{
		Source:   source,
		Key:      func(object T) string { return object.GetNamespace() + "/" + object.GetName() },
		Revision: func(object T) string { return object.GetResourceVersion() },
		UID:      func(object T) string { return string(object.GetUID()) },
	})
}

// makeReadyForReal has every pod run and be ready as soon as it is seen.
func (p *plane) makeReadyForReal(tb testing.TB) (stop func()) {
	writer := typed.Pods(p.api)
	return p.pods.Subscribe(func(_, pod *corev1.Pod) {
		if pod == nil || pod.Status.Phase == corev1.PodRunning {
			return
		}
		running := pod.DeepCopy()
		makeReady(running)
		running.Spec = pod.Spec
		if _, err := writer.UpdateStatus(context.Background(), running); err != nil {
			tb.Error(err)
		}
	}).Stop
}

// until waits for a Deployment that is as reached says.
func (p *plane) until(tb testing.TB, reached func(*appsv1.Deployment) bool) {
	tb.Helper()
	hit := make(chan struct{}, 1)
	defer p.deployments.Subscribe(func(_, d *appsv1.Deployment) {
		if d != nil && reached(d) {
			select {
			case hit <- struct{}{}:
			default:
			}
		}
	}).Stop()
	select {
	case <-hit:
	case <-time.After(time.Minute):
		tb.Fatal("the Deployment does not converge")
	}
}

func available(n int32) func(*appsv1.Deployment) bool {
	return func(d *appsv1.Deployment) bool {
		s := d.Status
		return s.AvailableReplicas == n && s.UpdatedReplicas == n && s.ObservedGeneration == d.Generation
	}
}

func realDeployment(name string, n int32) *appsv1.Deployment {
	d := newDeployment(n, 1, 0)
	d.Name = name
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	d.Spec.Template.Labels = d.Spec.Selector.MatchLabels
	return d
}

// TestConvergesFast starts a server, the controllers and a Deployment of three
// replicas, and waits for its pods to be available.
func TestConvergesFast(t *testing.T) {
	// Ten times what it takes at most on a machine that has nothing else to do.
	const bound = 3 * time.Second
	start := time.Now()
	p := startPlane(t, false)
	stop := p.makeReadyForReal(t)
	defer stop()
	if _, err := typed.Deployments(p.api).Create(t.Context(), realDeployment("web", 3)); err != nil {
		t.Fatal(err)
	}
	p.until(t, available(3))
	took := time.Since(start)
	t.Logf("from nothing to three available pods: %v", took.Round(time.Millisecond))
	if took > bound {
		t.Errorf("took %v, want %v at most", took, bound)
	}
}

// BenchmarkConverge is a Deployment, of which the pods are made, in a server
// that runs already: through memory and over TLS.
func BenchmarkConverge(b *testing.B) {
	for _, replicas := range []int32{3, 500} {
		for _, wire := range []bool{false, true} {
			b.Run(fmt.Sprintf("replicas=%d/wire=%t", replicas, wire), func(b *testing.B) {
				p := startPlane(b, wire)
				n := 0
				for b.Loop() {
					n++
					if _, err := typed.Deployments(p.api).Create(b.Context(), realDeployment(fmt.Sprint("web-", n), replicas)); err != nil {
						b.Fatal(err)
					}
					p.until(b, func(d *appsv1.Deployment) bool {
						return d.Name == fmt.Sprint("web-", n) && d.Status.Replicas == replicas
					})
				}
			})
		}
	}
}
