package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/informer"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A Resource and a Selection are sources for an informer.
var (
	_ informer.Source[*corev1.Pod] = client.Resource[*corev1.Pod]{}
	_ informer.Source[*corev1.Pod] = client.Selection[*corev1.Pod]{}
)

// clients returns clients of a real server: over TLS in both encodings, and in process.
func clients(t *testing.T) map[string]*client.Client {
	server := apiservertest.Start(t, apiservertest.WithResources(kube.Resources()...))
	k, err := kubeconfig.Parse(server.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	wired, _, err := k.Client("")
	if err != nil {
		t.Fatal(err)
	}
	asJSON := wired
	asJSON.JSON = true
	all := map[string]*client.Client{}
	for name, config := range map[string]client.Config{
		"protobuf": wired, "json": asJSON,
		"memory": client.InProcess(server.As("root", "system:masters").Transport),
	} {
		c, err := client.New(config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		all[name] = c
	}
	return all
}

// TestAgainstAServer creates, binds, changes and deletes a pod on a real API server while a Sync
// follows it.
func TestAgainstAServer(t *testing.T) {
	for name, c := range clients(t) {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			pods := typed.Pods(c)
			if _, err := typed.Namespaces(c).Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
				t.Fatal(err)
			}
			p := pod("web", "")
			p.Namespace = name
			created, err := pods.Create(ctx, p)
			if err != nil || created.UID == "" || created.Kind != "Pod" {
				t.Fatalf("Create = %+v, %v, want a Pod with a UID", created, err)
			}
			if _, err := pods.Create(ctx, p); !apierrors.IsAlreadyExists(err) {
				t.Errorf("a second time: %v", err)
			}
			listed, revision, err := pods.List(ctx, name, metav1.ListOptions{Limit: 1})
			if err != nil || len(listed) != 1 || listed[0].UID != created.UID {
				t.Fatalf("List(%q) = %v, %v, want the one pod with the UID %s", name, listed, err, created.UID)
			}
			if err := pods.Post(ctx, name, "web", "binding", &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: name}, Target: corev1.ObjectReference{Kind: "Node", Name: "a"}}); err != nil {
				t.Fatal(err)
			}
			bound, err := pods.Get(ctx, name, "web")
			if err != nil || bound.Spec.NodeName != "a" {
				t.Fatalf("Get(web) after its binding = %+v, %v, want a pod on the node a", bound, err)
			}
			bound.Status.Phase = corev1.PodRunning
			running, err := pods.UpdateStatus(ctx, bound)
			if err != nil || running.Status.Phase != corev1.PodRunning {
				t.Fatal(err)
			}
			if _, err := pods.UpdateStatus(ctx, bound); !apierrors.IsConflict(err) {
				t.Errorf("an old revision: %v", err)
			}
			labelled, err := pods.Patch(ctx, name, "web", types.StrategicMergePatchType, []byte(`{"metadata":{"labels":{"tier":"x"}}}`))
			if err != nil || labelled.Labels["tier"] != "x" {
				t.Fatal(err)
			}
			zero := int64(0)
			if err := pods.Delete(ctx, name, "web", metav1.DeleteOptions{GracePeriodSeconds: &zero}); err != nil {
				t.Fatal(err)
			}
			if _, err := pods.Get(ctx, name, "web"); !apierrors.IsNotFound(err) {
				t.Errorf("after the deletion: %v", err)
			}
			if err := pods.Post(ctx, name, "web", "eviction", &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "web"}}); !apierrors.IsNotFound(err) {
				t.Errorf("evicting what is gone: %v", err)
			}
			sink := &recorder{stop: cancel, last: "remove"}
			if err := pods.Where(name, "", "").Sync(ctx, revision, sink); !errors.Is(err, context.Canceled) {
				t.Errorf("the sync ended with %v", err)
			}
			want := []string{
				fmt.Sprintf("put %s web", bound.ResourceVersion), fmt.Sprintf("put %s web", running.ResourceVersion), fmt.Sprintf("put %s web", labelled.ResourceVersion)}
			if len(sink.calls) != 4 || !slices.Equal(sink.calls[:3], want) {
				t.Errorf("the sink received %q, want %q and a removal", sink.calls, want)
			}
		})
	}
}
