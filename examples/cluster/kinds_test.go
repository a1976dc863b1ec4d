package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestEveryKindGoes deletes objects of kinds that have no controller here:
// with their owner, and with their namespace.
func TestEveryKindGoes(t *testing.T) {
	api := start(t, t.TempDir(), "--storage", "memory", "--nodes", "0").client(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}
	if _, err := typed.Namespaces(api).Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	service, err := typed.Services(api).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	slices := typed.EndpointSlices(api)
	if _, err := slices.Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web-1", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Service", Name: "web", UID: service.UID},
		}},
		AddressType: discoveryv1.AddressTypeIPv4,
	}); err != nil {
		t.Fatal(err)
	}
	if err := typed.Services(api).Delete(t.Context(), "team", "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the endpoint slice goes with its service", func() bool {
		_, err := slices.Get(t.Context(), "team", "web-1")
		return apierrors.IsNotFound(err)
	})

	for path, body := range map[string]string{
		"/api/v1/namespaces/team/services":                     `{"metadata":{"name":"a"},"spec":{"clusterIP":"None"}}`,
		"/api/v1/namespaces/team/persistentvolumeclaims":       `{"metadata":{"name":"a"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`,
		"/api/v1/namespaces/team/resourcequotas":               `{"metadata":{"name":"a"}}`,
		"/apis/apps/v1/namespaces/team/controllerrevisions":    `{"metadata":{"name":"a"},"revision":1,"data":{}}`,
		"/apis/policy/v1/namespaces/team/poddisruptionbudgets": `{"metadata":{"name":"a","finalizers":[]}}`,
	} {
		if _, err := api.Do(t.Context(), client.Request{Method: http.MethodPost, Path: path, Body: []byte(body)}); err != nil {
			t.Fatalf("POST %s: %v", path, err)
		}
	}
	if err := typed.Namespaces(api).Delete(t.Context(), "", "team", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace goes", func() bool {
		_, err := typed.Namespaces(api).Get(t.Context(), "", "team")
		return apierrors.IsNotFound(err)
	})
	for _, r := range kube.Resources() {
		if !r.Namespaced {
			continue
		}
		answer, err := api.Do(t.Context(), client.Request{Path: collection(r, "team")})
		if err != nil {
			t.Fatal(err)
		}
		if n := count(t, answer.Body); n > 0 {
			t.Errorf("%d %s are left", n, r.Plural)
		}
	}
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !done(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// collection is the path of a resource in a namespace.
func collection(r apiserver.Resource, namespace string) string {
	root := "/apis/" + r.Group
	if r.Group == "" {
		root = "/api"
	}
	return strings.Join([]string{root, r.Version, "namespaces", namespace, r.Plural}, "/")
}

// count counts the objects of a list in JSON.
func count(t *testing.T, list []byte) int {
	t.Helper()
	var items struct{ Items []json.RawMessage }
	if err := json.Unmarshal(list, &items); err != nil {
		t.Fatal(err)
	}
	return len(items.Items)
}
