package main

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/plane/planetest"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSmall: the predicate and the priority together are shorter than 40 lines.
func TestSmall(t *testing.T) {
	source, err := os.ReadFile("apart.go")
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(source), "\n"); lines >= 40 {
		t.Errorf("apart.go has %d lines", lines)
	}
}

// TestBesideTheDefault runs the program beside the default scheduler of a control plane with two
// nodes. Two of its pods get a node each, and the third waits until one of them leaves. The default
// scheduler binds a pod of the same app, which names it.
func TestBesideTheDefault(t *testing.T) {
	p := planetest.Start(t, planetest.Nodes(2))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, p.KubeconfigFile()) }()
	pods := typed.Pods(p.Client())
	create := func(name, scheduler, app string) {
		_, err := pods.Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": app}},
			Spec:       corev1.PodSpec{SchedulerName: scheduler, Containers: []corev1.Container{{Name: "main", Image: "nginx"}}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	create("one", "apart", "web")
	one := await(t, p, "one", bound)
	create("two", "apart", "web")
	two := await(t, p, "two", bound)
	if one.Spec.NodeName == two.Spec.NodeName {
		t.Errorf("both pods are on %s", one.Spec.NodeName)
	}
	create("default", "", "db")
	await(t, p, "default", bound)
	create("three", "apart", "web")
	await(t, p, "three", func(p *corev1.Pod) bool {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && strings.HasPrefix(c.Message, "0/2 nodes are available: 2 node(s) had a pod of the same app.") {
				return true
			}
		}
		return false
	})
	zero := int64(0)
	if err := pods.Delete(ctx, "default", "two", metav1.DeleteOptions{GracePeriodSeconds: &zero}); err != nil {
		t.Fatal(err)
	}
	if three := await(t, p, "three", bound); three.Spec.NodeName != two.Spec.NodeName {
		t.Errorf("three is on %s, and two was on %s", three.Spec.NodeName, two.Spec.NodeName)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func bound(p *corev1.Pod) bool { return p.Spec.NodeName != "" }

// await returns a pod once it is as wanted.
func await(t *testing.T, p *planetest.Plane, name string, wanted func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	met := make(chan *corev1.Pod, 1)
	defer p.Caches.Pods.Subscribe(func(_, pod *corev1.Pod) {
		if pod == nil || pod.Name != name || !wanted(pod) {
			return
		}
		select {
		case met <- pod:
		default:
		}
	}).Stop()
	select {
	case pod := <-met:
		return pod
	case <-t.Context().Done():
		t.Fatal(context.Cause(t.Context()))
		return nil
	}
}
