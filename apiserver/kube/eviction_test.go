package kube_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/kube"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const evictedPods = "/api/v1/namespaces/team/pods"

func evicting(t *testing.T) client {
	c := client{t, apiservertest.Start(t, apiservertest.WithResources(kube.Resources()...)), "application/json"}
	for n := range 3 {
		path := fmt.Sprintf("%s/web-%d", evictedPods, n)
		c.do("POST", evictedPods, fmt.Sprintf(`{metadata: {name: web-%d, labels: {app: web}}, spec: {containers: [{name: web, image: nginx}]}}`, n), 201)
		pod := object(t, c.do("GET", path, "", 200))
		status := map[string]any{"phase": "Running", "conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}
		if err := unstructured.SetNestedField(pod.Object, status, "status"); err != nil {
			t.Fatal(err)
		}
		data, err := pod.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		c.do("PUT", path+"/status", string(data), 200)
	}
	return c
}

func (c client) evict(name, options string, status int) string {
	c.t.Helper()
	return string(c.do("POST", evictedPods+"/"+name+"/eviction"+options, `{apiVersion: policy/v1, kind: Eviction, metadata: {name: `+name+`}}`, status))
}

// budget lets n pods go.
func (c client) budget(name string, n int, more string) {
	c.t.Helper()
	const path = "/apis/policy/v1/namespaces/team/poddisruptionbudgets"
	c.do("POST", path, `{metadata: {name: `+name+`}, spec: {minAvailable: 2, selector: {matchLabels: {app: web}}`+more+`}}`, 201)
	c.put(path+"/"+name+"/status", fmt.Sprintf(`
metadata: {name: %s}
spec: {}
status: {observedGeneration: 1, disruptionsAllowed: %d, currentHealthy: 2, desiredHealthy: 2, expectedPods: 3}`, name, n), 200)
}

func TestEviction(t *testing.T) {
	c := evicting(t)
	if answer := c.evict("web-0", "", 201); !strings.Contains(answer, `"status":"Success"`) {
		t.Errorf("answer %s", answer)
	}
	c.do("GET", evictedPods+"/web-0", "", 404)
	c.evict("web-0", "", 404)
	c.do("POST", evictedPods+"/web-1/eviction", `{apiVersion: policy/v1, kind: Eviction, metadata: {name: web-2}}`, 400)
	c.do("POST", evictedPods+"/web-1/eviction?dryRun=All", `{apiVersion: policy/v1beta1, kind: Eviction, metadata: {name: web-1}}`, 201)
	c.do("POST", evictedPods+"/web-1/eviction?dryRun=All", `{apiVersion: policy/v1alpha1, kind: Eviction, metadata: {name: web-1}}`, 400)

	c.budget("b", 1, "")
	c.evict("web-1", "?dryRun=All", 201)
	c.do("GET", evictedPods+"/web-1", "", 200)
	c.evict("web-1", "", 201)
	c.do("GET", evictedPods+"/web-1", "", 404)
	refused := c.evict("web-2", "", 429)
	for _, want := range []string{"Cannot evict pod as it would violate the pod's disruption budget.", "DisruptionBudget", "The disruption budget b needs 2 healthy pods and has 2 currently"} {
		if !strings.Contains(refused, want) {
			t.Errorf("%s\nlacks %s", refused, want)
		}
	}
	b := object(t, c.do("GET", "/apis/policy/v1/namespaces/team/poddisruptionbudgets/b", "", 200))
	gone, _, _ := unstructured.NestedMap(b.Object, "status", "disruptedPods")
	allowed, _, _ := unstructured.NestedInt64(b.Object, "status", "disruptionsAllowed")
	if len(gone) != 1 || gone["web-1"] == nil || allowed != 0 {
		t.Errorf("budget %v", b)
	}
	c.budget("c", 1, "")
	if refused := c.evict("web-2", "", 500); !strings.Contains(refused, "more than one PodDisruptionBudget") {
		t.Errorf("refused with %s", refused)
	}
}

// TestEvictionUnhealthy: a pod that does not count as healthy may go though the
// budget is used up, and a budget without a computed status allows nothing.
func TestEvictionUnhealthy(t *testing.T) {
	c := evicting(t)
	c.do("POST", "/apis/policy/v1/namespaces/team/poddisruptionbudgets", `{metadata: {name: b}, spec: {minAvailable: 2, selector: {matchLabels: {app: web}}}}`, 201)
	if refused := c.evict("web-0", "", 429); !strings.Contains(refused, "is still being processed by the server") {
		t.Errorf("refused with %s", refused)
	}
	c.do("DELETE", "/apis/policy/v1/namespaces/team/poddisruptionbudgets/b", "", 200)
	c.budget("b", 0, "")
	c.evict("web-0", "", 429)
	c.do("PUT", evictedPods+"/web-0/status", `{metadata: {name: web-0, labels: {app: web}}, spec: {containers: [{name: web, image: nginx}]}, status: {phase: Running}}`, 200)
	c.evict("web-0", "", 201)
	c.do("POST", evictedPods, `{metadata: {name: new, labels: {app: web}}, spec: {containers: [{name: web, image: nginx}]}}`, 201)
	c.evict("new", "", 201) // it is pending
}
