package planetest_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/plane/planetest"
	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ExampleStart() {
	var t *testing.T // that of the test function
	p := planetest.Start(t, planetest.Nodes(1))
	_, err := typed.Deployments(p.Client()).Create(t.Context(), newWeb(2))
	if err != nil {
		t.Fatal(err)
	}
	await(t, p, "default/web", func(d *appsv1.Deployment) bool { return d != nil && d.Status.AvailableReplicas == 2 })
}

func newWeb(replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}},
			},
		},
	}
}

// await waits until a Deployment is as wanted; nil is one that does not exist.
func await(t *testing.T, p *planetest.Plane, key string, wanted func(*appsv1.Deployment) bool) {
	t.Helper()
	met := make(chan struct{}, 1)
	subscription := p.Caches.Deployments.Subscribe(func(_, new *appsv1.Deployment) {
		if (new == nil || new.Namespace+"/"+new.Name == key) && wanted(new) {
			select {
			case met <- struct{}{}:
			default:
			}
		}
	})
	defer subscription.Stop()
	select {
	case <-met:
	case <-t.Context().Done():
		t.Fatal(context.Cause(t.Context()))
	}
}

// TestWorkload rolls a Deployment out onto nodes, and garbage collection removes what
// it made.
func TestWorkload(t *testing.T) {
	t.Parallel()
	p := planetest.Start(t, planetest.Nodes(2))
	api := p.Client()
	if _, err := typed.Deployments(api).Create(t.Context(), newWeb(3)); err != nil {
		t.Fatal(err)
	}
	await(t, p, "default/web", func(d *appsv1.Deployment) bool { return d != nil && d.Status.AvailableReplicas == 3 })
	gone := make(chan struct{}, 1)
	look := func() {
		for range p.Caches.Pods.All() {
			return
		}
		for range p.Caches.ReplicaSets.All() {
			return
		}
		select {
		case gone <- struct{}{}:
		default:
		}
	}
	zero := int64(0)
	pods, _, err := typed.Pods(api).List(t.Context(), "default", metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	log, _, err := api.Stream(t.Context(), client.Request{Method: http.MethodGet, Path: "/api/v1/namespaces/default/pods/" + pods[0].Name + "/log"})
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(log)
	if err != nil || !strings.Contains(string(text), "web is simulated") || log.Close() != nil {
		t.Errorf("log %q: %v", text, err)
	}
	if err := typed.Deployments(api).Delete(t.Context(), "default", "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods { // spares the test their grace period
		err := typed.Pods(api).Delete(t.Context(), "default", pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &zero})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
	defer p.Caches.Pods.Subscribe(func(_, _ *corev1.Pod) { look() }).Stop()
	defer p.Caches.ReplicaSets.Subscribe(func(_, _ *appsv1.ReplicaSet) { look() }).Stop()
	look()
	<-gone
}

// TestUsers has RBAC decide about clients within the process and over the wire.
func TestUsers(t *testing.T) {
	t.Parallel()
	p := planetest.Start(t)
	_, _, err := typed.Pods(p.As("jane")).List(t.Context(), "default", metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("jane lists pods: %v", err)
	}
	if _, _, err := typed.Pods(p.As("root", "system:masters")).List(t.Context(), "default", metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	loaded, err := kubeconfig.Load(p.KubeconfigFile())
	if err != nil {
		t.Fatal(err)
	}
	config, _, err := loaded.Client("")
	if err != nil {
		t.Fatal(err)
	}
	wire, err := client.New(config)
	if err != nil {
		t.Fatal(err)
	}
	defer wire.Close()
	if _, _, err := typed.Pods(wire).List(t.Context(), "default", metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	if r := p.REST("jane", "makers"); r.Host != p.URL() || len(r.CAData) == 0 || len(r.CertData) == 0 || len(r.KeyData) == 0 {
		t.Errorf("REST(jane, makers) has the host %s and %d, %d and %d bytes of CA, certificate and key, want %s and none empty",
			r.Host, len(r.CAData), len(r.CertData), len(r.KeyData), p.URL())
	}
}

// TestCachesHaveRows checks that each kind of the table is collected by its own kind.
func TestCachesHaveRows(t *testing.T) {
	t.Parallel()
	p := planetest.Start(t)
	seen := map[string]bool{}
	for _, k := range p.Caches.Kinds {
		if g := k.Garbage(p.Client()); g.GroupVersionKind != k.GroupVersionKind || g.Namespaced != k.Namespaced {
			t.Errorf("%v is collected as %v", k.GroupVersionKind, g.GroupVersionKind)
		}
		if seen[k.GroupVersionKind.String()] {
			t.Errorf("%v has two rows", k.GroupVersionKind)
		}
		seen[k.GroupVersionKind.String()] = true
	}
	if !seen[corev1.SchemeGroupVersion.WithKind("Pod").String()] || len(seen) < 30 {
		t.Errorf("%d kinds", len(seen))
	}
}
