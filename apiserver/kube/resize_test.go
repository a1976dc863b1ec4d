package kube_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/kube"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestResize reads and changes a pod through pods/resize as kubectl does.
func TestResize(t *testing.T) {
	c := client{t, apiservertest.Start(t, apiservertest.WithResources(kube.Resources()...)), "application/json"}
	const pods, web = "/api/v1/namespaces/team/pods", "/api/v1/namespaces/team/pods/web"
	c.do("POST", pods, `{metadata: {name: web}, spec: {containers: [{name: web, image: nginx, resources: {requests: {cpu: 100m}}}]}}`, 201)
	cpu := func(body []byte) string {
		t.Helper()
		containers, _, err := unstructured.NestedSlice(object(t, body).Object, "spec", "containers")
		if err != nil || len(containers) != 1 {
			t.Fatal(containers, err)
		}
		amount, _, _ := unstructured.NestedString(containers[0].(map[string]any), "resources", "requests", "cpu")
		return amount
	}
	if got := cpu(c.do("GET", web+"/resize", "", 200)); got != "100m" {
		t.Error(got)
	}
	patch := func(path, body string, status int) []byte {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "PATCH", c.server.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/strategic-merge-patch+json")
		response, err := c.server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		answer, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != status {
			t.Fatalf("PATCH %s with %s = %s %s, %v, want %d", path, body, response.Status, answer, err, status)
		}
		return answer
	}
	const grow = `{"spec":{"containers":[{"name":"web","resources":{"requests":{"cpu":"200m"}}}]}}`
	patch(web, grow, 422)
	if body := patch(web+"/resize", grow, 200); cpu(body) != "200m" || object(t, body).GetGeneration() != 2 {
		t.Errorf("PATCH of the resize = %s, want cpu 200m and generation 2", body)
	}
	if body := c.do("GET", web, "", 200); cpu(body) != "200m" {
		t.Errorf("GET of the resized pod = %s, want cpu 200m", body)
	}
	changed := strings.Replace(string(c.do("GET", web+"/resize", "", 200)), `"200m"`, `"300m"`, 1)
	if body := c.do("PUT", web+"/resize", changed, 200); cpu(body) != "300m" || object(t, body).GetGeneration() != 3 {
		t.Errorf("PUT of the resize = %s, want cpu 300m and generation 3", body)
	}
	c.do("PUT", web+"/resize", changed, 409) // of an old version
	refusal := patch(web+"/resize", `{"spec":{"containers":[{"name":"web","resources":{"requests":{"cpu":null}}}]}}`, 422)
	if !strings.Contains(string(refusal), "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed") {
		t.Errorf("PATCH of the resize without a request = 422 %s, want resource requests cannot be removed", refusal)
	}
	patch(pods+"/none/resize", grow, 404)
	c.do("DELETE", web+"/resize", "", 405)

	var list struct {
		Resources []struct {
			Name, Kind string
			Verbs      []string
		}
	}
	if err := json.Unmarshal(c.do("GET", "/api/v1", "", 200), &list); err != nil {
		t.Fatal(err)
	}
	for _, r := range list.Resources {
		if r.Name == "pods/resize" {
			if r.Kind != "Pod" || strings.Join(r.Verbs, " ") != "get patch update" {
				t.Errorf("discovery: %+v", r)
			}
			return
		}
	}
	t.Error("discovery does not have pods/resize")
}
