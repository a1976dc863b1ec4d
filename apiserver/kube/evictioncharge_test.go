package kube_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const budgetsPath = "/apis/policy/v1/namespaces/team/poddisruptionbudgets"

// left returns how many disruptions the budget b allows.
func (c client) left() int64 {
	c.t.Helper()
	b := object(c.t, c.do("GET", budgetsPath+"/b", "", 200))
	n, _, _ := unstructured.NestedInt64(b.Object, "status", "disruptionsAllowed")
	return n
}

// send sends a request from any goroutine and returns the answer, 0 if there is none.
func (c client) send(method, path, body string) (int, string) {
	data, err := yaml.YAMLToJSON([]byte(body))
	if err != nil {
		return 0, err.Error()
	}
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.server.URL+path, bytes.NewReader(data))
	if err != nil {
		return 0, err.Error()
	}
	r.Header.Set("Content-Type", map[string]string{"PATCH": "application/merge-patch+json", "POST": "application/json"}[method])
	response, err := c.server.Client().Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(answer)
}

// TestEvictionMarks: an evicted pod says why it ends, also where no budget asks.
func TestEvictionMarks(t *testing.T) {
	for _, budgets := range []int{0, 1} {
		c := evicting(t)
		if budgets > 0 {
			c.budget("b", 1, "")
		}
		if status, answer := c.patch("application/merge-patch+json", evictedPods+"/web-0", `{"metadata": {"finalizers": ["example.com/stay"]}}`); status != 200 {
			t.Fatalf("PATCH of web-0 with a finalizer = %d %s, want 200", status, answer)
		}
		c.evict("web-0", "?dryRun=All", 201)
		pod := object(t, c.do("GET", evictedPods+"/web-0", "", 200))
		if conditions, _, _ := unstructured.NestedSlice(pod.Object, "status", "conditions"); len(conditions) != 1 {
			t.Errorf("after a dry run: conditions %v", conditions)
		}
		c.evict("web-0", "", 201)
		pod = object(t, c.do("GET", evictedPods+"/web-0", "", 200))
		conditions, _, _ := unstructured.NestedSlice(pod.Object, "status", "conditions")
		if len(conditions) != 2 || pod.GetDeletionTimestamp() == nil {
			t.Fatalf("deleted %v, conditions %v", pod.GetDeletionTimestamp(), conditions)
		}
		got := conditions[1].(map[string]any)
		since := got["lastTransitionTime"]
		delete(got, "lastTransitionTime")
		delete(got, "lastProbeTime")
		want := map[string]any{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}
		if fmt.Sprint(got) != fmt.Sprint(want) || since == nil {
			t.Errorf("condition %v since %v", got, since)
		}
	}
}

// TestEvictionChargesOnce: what does not delete a pod costs no disruption.
func TestEvictionChargesOnce(t *testing.T) {
	c := evicting(t)
	c.budget("b", 2, "")
	body := func(options string) string {
		return `{apiVersion: policy/v1, kind: Eviction, metadata: {name: web-0}, deleteOptions: ` + options + `}`
	}
	const path = evictedPods + "/web-0/eviction"
	c.do("POST", path, body(`{dryRun: [All]}`), 201)
	c.do("GET", evictedPods+"/web-0", "", 200)
	c.do("POST", path, body(`{preconditions: {resourceVersion: "1"}}`), 409)
	c.do("POST", path, body(`{preconditions: {uid: other}}`), 409)
	if answer := string(c.do("POST", path, body(`{ignoreStoreReadErrorWithClusterBreakingPotential: true}`), 422)); !strings.Contains(answer, "can not be set for pod eviction, try after removing the option") {
		t.Errorf("answer %s", answer)
	}
	if n := c.left(); n != 2 {
		t.Errorf("%d disruptions are allowed, want 2", n)
	}
	version := object(t, c.do("GET", evictedPods+"/web-0", "", 200)).GetResourceVersion()
	c.do("POST", path, body(`{preconditions: {resourceVersion: "`+version+`"}}`), 201)
	c.do("GET", evictedPods+"/web-0", "", 404)
	if n := c.left(); n != 1 {
		t.Errorf("%d disruptions are allowed, want 1", n)
	}
}

// TestEvictionAlwaysAllow: with that policy a pod that is not ready may go whatever
// the budget allows.
func TestEvictionAlwaysAllow(t *testing.T) {
	c := evicting(t)
	c.do("POST", budgetsPath, `{metadata: {name: b}, spec: {minAvailable: 3, unhealthyPodEvictionPolicy: AlwaysAllow, selector: {matchLabels: {app: web}}}}`, 201)
	c.put(budgetsPath+"/b/status", `{metadata: {name: b}, spec: {}, status: {observedGeneration: 1, disruptionsAllowed: 0, currentHealthy: 1, desiredHealthy: 3, expectedPods: 3}}`, 200)
	c.evict("web-0", "", 429)
	c.do("PUT", evictedPods+"/web-0/status", `{metadata: {name: web-0, labels: {app: web}}, spec: {containers: [{name: web, image: nginx}]}, status: {phase: Running}}`, 200)
	c.evict("web-0", "", 201)
	c.do("GET", evictedPods+"/web-0", "", 404)
}

// TestEvictionsConcurrent checks that many requests at once evict no more pods than the budget
// allows, and that the status lists each evicted pod.
func TestEvictionsConcurrent(t *testing.T) {
	const pods, allowed, changes = 40, 7, 20
	c := evicting(t)
	for n := range pods {
		name := fmt.Sprintf("many-%d", n)
		c.do("POST", evictedPods, `{metadata: {name: `+name+`, labels: {app: web}}, spec: {containers: [{name: web, image: nginx}]}}`, 201)
		c.do("PUT", evictedPods+"/"+name+"/status", `{metadata: {name: `+name+`, labels: {app: web}}, spec: {containers: [{name: web, image: nginx}]}, status: {phase: Running, conditions: [{type: Ready, status: "True"}]}}`, 200)
	}
	c.budget("b", allowed, "")
	var all sync.WaitGroup
	var granted, refused atomic.Int32
	for n := range pods {
		name := fmt.Sprintf("many-%d", n)
		all.Go(func() {
			status, answer := c.send("POST", evictedPods+"/"+name+"/eviction", `{apiVersion: policy/v1, kind: Eviction, metadata: {name: `+name+`}}`)
			switch {
			case status == http.StatusCreated:
				granted.Add(1)
			case status == http.StatusTooManyRequests:
				refused.Add(1)
			default:
				t.Errorf("the eviction of %s = %d %s, want 201 or 429", name, status, answer)
			}
		})
		// The pod changes all the time, as a kubelet's reports have it.
		all.Go(func() {
			for i := range changes {
				status, answer := c.send("PATCH", evictedPods+"/"+name, fmt.Sprintf(`{"metadata": {"annotations": {"seen": "%d"}}}`, i))
				if status != http.StatusOK && status != http.StatusNotFound {
					t.Errorf("PATCH of %s = %d %s, want 200 or 404", name, status, answer)
				}
			}
		})
	}
	all.Wait()
	if granted.Load() != allowed || refused.Load() != pods-allowed {
		t.Errorf("%d granted, %d refused, of %d allowed", granted.Load(), refused.Load(), allowed)
	}
	left := object(t, c.do("GET", evictedPods, "", 200)).Object["items"].([]any)
	if len(left) != 3+pods-allowed {
		t.Errorf("%d pods are left", len(left))
	}
	b := object(t, c.do("GET", budgetsPath+"/b", "", 200))
	disrupted, _, _ := unstructured.NestedMap(b.Object, "status", "disruptedPods")
	if len(disrupted) != allowed || c.left() != 0 {
		t.Errorf("disrupted %v, %d left", disrupted, c.left())
	}
	conditions, _, _ := unstructured.NestedSlice(b.Object, "status", "conditions")
	if len(conditions) != 1 || conditions[0].(map[string]any)["reason"] != "InsufficientPods" {
		t.Errorf("conditions %v", conditions)
	}
}

// TestEvictionWaits: a budget that is being computed asks to come back in 10 s.
func TestEvictionWaits(t *testing.T) {
	c := evicting(t)
	c.do("POST", budgetsPath, `{metadata: {name: b}, spec: {minAvailable: 2, selector: {matchLabels: {app: web}}}}`, 201)
	status := object(t, []byte(c.evict("web-0", "", 429)))
	seconds, _, _ := unstructured.NestedInt64(status.Object, "details", "retryAfterSeconds")
	causes, _, _ := unstructured.NestedSlice(status.Object, "details", "causes")
	if seconds != 10 || len(causes) != 1 || causes[0].(map[string]any)["reason"] != "DisruptionBudget" ||
		causes[0].(map[string]any)["message"] != "The disruption budget b is still being processed by the server." {
		t.Errorf("status %v", status)
	}
}
