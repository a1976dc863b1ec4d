package main

import (
	"os"
	"strings"
	"testing"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/planetest"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == serveCommand {
		main()
	}
	goleak.VerifyTestMain(m)
}

// newSide returns a control plane in this process, and a client over the wire.
func newSide(t *testing.T) *side {
	p := planetest.Start(t, planetest.With(func(c *plane.Config) { c.NoScheduler, c.Controllers = true, inMemory().Controllers }))
	s := &side{kind: planekitMemory}
	var err error
	if s.api, err = kubeconfig.Connect(p.KubeconfigFile()); err != nil {
		t.Fatal(err)
	}
	if s.watcher, err = watch(t.Context(), s.api); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestRollOut: a Deployment of 500 replicas becomes 500 pods of its ReplicaSet
// and never one more, and nothing is left when it is deleted.
func TestRollOut(t *testing.T) {
	const replicas = 500
	s := newSide(t)
	ctx := t.Context()
	if _, err := typed.Deployments(s.api).Create(ctx, newDeployment("web", replicas)); err != nil {
		t.Fatal(err)
	}
	if err := s.watcher.await(ctx, func() bool { return s.watcher.of("web").counted >= replicas }); err != nil {
		t.Fatal(err)
	}
	sets, _, err := typed.ReplicaSets(s.api).List(ctx, namespace, metav1.ListOptions{})
	if err != nil || len(sets) != 1 {
		t.Fatalf("%d replica sets: %v", len(sets), err)
	}
	pods, _, err := typed.Pods(s.api).List(ctx, namespace, metav1.ListOptions{})
	if err != nil || len(pods) != replicas {
		t.Errorf("%d pods: %v", len(pods), err)
	}
	for _, pod := range pods {
		if !metav1.IsControlledBy(pod, sets[0]) {
			t.Errorf("%s belongs to %v", pod.Name, pod.OwnerReferences)
		}
	}
	if err := s.remove(ctx, "web", replicas); err != nil {
		t.Error(err)
	}
	left(t, "deployments", s.api, typed.Deployments)
	left(t, "replica sets", s.api, typed.ReplicaSets)
	left(t, "pods", s.api, typed.Pods)
}

func left[T client.Object](t *testing.T, what string, api *client.Client, of func(*client.Client) client.Resource[T]) {
	t.Helper()
	if list, _, err := of(api).List(t.Context(), namespace, metav1.ListOptions{}); err != nil || len(list) > 0 {
		t.Errorf("%d %s are left: %v", len(list), what, err)
	}
}

// TestTooMany: a pod more than there should be fails a round, also when it is
// gone before the end.
func TestTooMany(t *testing.T) {
	s := newSide(t)
	ctx := t.Context()
	if _, err := s.rollOut(ctx, "web", 3); err != nil {
		t.Fatal(err)
	}
	extra := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "extra", Labels: map[string]string{"app": "db"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "db", Image: "db"}}},
	}
	if _, err := typed.Pods(s.api).Create(ctx, extra); err != nil {
		t.Fatal(err)
	}
	if err := typed.Pods(s.api).Delete(ctx, namespace, "extra", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if f, err := s.rollOut(ctx, "db", 3); err == nil || err.Error() != "4 pods were made" {
		t.Errorf("rollOut(db, 3) = %+v, %v, want the error \"4 pods were made\"", f, err)
	}
}

// TestTable: the program starts itself as the server, and prints what it
// measured.
func TestTable(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out, options{runs: 1, defaultRuns: 1, kinds: []kind{planekitMemory}}); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"| 3 replicas |", "| 500 replicas |", "| " + string(planekitMemory) + " |"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("no %q in\n%s", line, out.String())
		}
	}
}

func TestJudge(t *testing.T) {
	for verdict, took := range map[string]cost{"3.33x, met.": {took: 300}, "2.00x, missed.": {took: 500}} {
		r := results{}
		for range 3 {
			r.add(planekit, 500, figures{exist: took})
			r.add(stock, 500, figures{exist: cost{took: 1000}})
		}
		// What is not the median does not count.
		r.add(planekit, 500, figures{exist: cost{took: 1e6}})
		r.add(stock, 500, figures{exist: cost{took: 1}})
		var out strings.Builder
		if r.judge(&out); !strings.HasSuffix(out.String(), verdict+"\n") {
			t.Errorf("%s of %v", out.String(), took)
		}
	}
}

func TestChosen(t *testing.T) {
	if list, err := chosen(""); err != nil || len(list) != len(kinds) {
		t.Errorf("chosen(\"\") = %v, %v, want all %d kinds", list, err, len(kinds))
	}
	if list, err := chosen("stock,planekit in memory"); err != nil || len(list) != 2 {
		t.Errorf("chosen(\"stock,planekit in memory\") = %v, %v, want 2 kinds", list, err)
	}
	if _, err := chosen("stock,nothing"); err == nil {
		t.Error("a side that there is not")
	}
}
