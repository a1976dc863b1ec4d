package kube_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/kube"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// client talks to a server in paths and YAML.
type client struct {
	t      *testing.T
	server *apiservertest.Server
	accept string
}

// do sends a request, expects a status, and returns the answer.
func (c client) do(method, path, body string, status int) []byte {
	c.t.Helper()
	data, err := yaml.YAMLToJSON([]byte(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.server.URL+path, bytes.NewReader(data))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", c.accept)
	response, err := c.server.Client().Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	if response.StatusCode != status {
		c.t.Fatalf("%s %s: %s: %s", method, path, response.Status, answer)
	}
	return answer
}

// put replaces an object in the version that it has now.
func (c client) put(path, body string, status int) []byte {
	c.t.Helper()
	data, err := yaml.YAMLToJSON([]byte(body))
	if err != nil {
		c.t.Fatal(err)
	}
	obj := object(c.t, data)
	obj.SetResourceVersion(object(c.t, c.do("GET", path, "", 200)).GetResourceVersion())
	if data, err = json.Marshal(obj.Object); err != nil {
		c.t.Fatal(err)
	}
	return c.do("PUT", path, string(data), status)
}

func object(t *testing.T, data []byte) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(data, &obj.Object); err != nil { // whole numbers stay whole
		t.Fatal(err)
	}
	return obj
}

func value(obj *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(obj.Object, path...)
	return s
}

// TestServed takes the resources through a real server.
func TestServed(t *testing.T) {
	c := client{t, apiservertest.Start(t, apiservertest.WithResources(kube.Resources()...)), "application/json"}
	c.do("POST", "/api/v1/namespaces", `{metadata: {name: team}}`, 201)
	c.do("POST", "/api/v1/nodes", `{metadata: {name: n1}}`, 201)

	const pods = "/api/v1/namespaces/team/pods"
	pod := object(t, c.do("POST", pods, `{metadata: {name: web}, spec: {containers: [{name: web, image: nginx}]}}`, 201))
	if value(pod, "status", "phase") != "Pending" || value(pod, "spec", "dnsPolicy") != "ClusterFirst" || pod.GetGeneration() != 1 {
		t.Errorf("created %v", pod)
	}
	refused := c.do("POST", pods, `{metadata: {name: bad}, spec: {containers: [{name: web}]}}`, 422)
	if !strings.Contains(string(refused), `Pod \"bad\" is invalid: spec.containers[0].image: Required value`) {
		t.Errorf("refused with %s", refused)
	}
	c.do("POST", pods+"/web/binding", `{metadata: {name: web}, target: {kind: Node, name: n1}}`, 201)
	c.do("POST", pods+"/web/binding", `{metadata: {name: web}, target: {kind: Node, name: n1}}`, 409)
	list := object(t, c.do("GET", pods+"?fieldSelector=spec.nodeName%3Dn1", "", 200))
	if items, _, _ := unstructured.NestedSlice(list.Object, "items"); len(items) != 1 {
		t.Errorf("bound pods: %v", list)
	}
	dying := object(t, c.do("DELETE", pods+"/web", "", 200))
	if g := dying.GetDeletionGracePeriodSeconds(); g == nil || *g != 30 {
		t.Errorf("deleted with grace %v", g)
	}
}

func TestServedScale(t *testing.T) {
	c := client{t, apiservertest.Start(t, apiservertest.WithResources(kube.Resources()...)), "application/json"}
	c.do("POST", "/api/v1/namespaces", `{metadata: {name: team}}`, 201)
	const web = "/apis/apps/v1/namespaces/team/deployments/web"
	c.do("POST", "/apis/apps/v1/namespaces/team/deployments", `
metadata: {name: web}
spec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: nginx}]}}}`, 201)
	scale := object(t, c.do("GET", web+"/scale", "", 200))
	if scale.GetKind() != "Scale" || scale.GetAPIVersion() != "autoscaling/v1" || value(scale, "status", "selector") != "app=web" {
		t.Errorf("scale %v", scale)
	}
	c.do("PUT", web+"/scale", `{apiVersion: autoscaling/v1, kind: Scale, metadata: {name: web, namespace: team}, spec: {replicas: 5}}`, 200)
	d := object(t, c.do("GET", web, "", 200))
	if n, _, _ := unstructured.NestedInt64(d.Object, "spec", "replicas"); n != 5 || d.GetGeneration() != 2 {
		t.Errorf("scaled to %v", d)
	}
	c.do("PUT", web+"/scale", `{metadata: {name: web, namespace: team}, spec: {replicas: -5}}`, 422)
}

func TestServedTable(t *testing.T) {
	c := client{t, apiservertest.Start(t, apiservertest.WithResources(kube.Resources()...)), "application/json;as=Table;v=v1;g=meta.k8s.io"}
	c.do("POST", "/api/v1/namespaces", `{metadata: {name: team}}`, 201)
	var table metav1.Table
	if err := json.Unmarshal(c.do("GET", "/api/v1/namespaces", "", 200), &table); err != nil {
		t.Fatal(err)
	}
	if len(table.Rows) != 1 || table.Rows[0].Cells[0] != "team" || table.Rows[0].Cells[1] != "Active" {
		t.Errorf("table %+v", table)
	}
}

// TestServedUpdate replaces objects by what they were made of: what the server
// filled in is no change.
func TestServedUpdate(t *testing.T) {
	c := client{t, apiservertest.Start(t, apiservertest.WithResources(kube.Resources()...)), "application/json"}
	const template = `{metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: nginx}]}}`
	for path, body := range map[string]string{
		"/apis/apps/v1/namespaces/team/deployments":  `{metadata: {name: a}, spec: {selector: {matchLabels: {app: web}}, template: ` + template + `}}`,
		"/apis/apps/v1/namespaces/team/statefulsets": `{metadata: {name: a}, spec: {selector: {matchLabels: {app: web}}, template: ` + template + `}}`,
		"/apis/apps/v1/namespaces/team/daemonsets":   `{metadata: {name: a}, spec: {selector: {matchLabels: {app: web}}, template: ` + template + `}}`,
		"/apis/networking.k8s.io/v1/ingressclasses":  `{metadata: {name: a}, spec: {controller: a/b, parameters: {kind: K, name: a}}}`,
		"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations": `
metadata: {name: a}
webhooks: [{name: a.example.com, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {service: {name: a, namespace: b}}}]`,
		"/api/v1/namespaces/team/services": `{metadata: {name: a}, spec: {ports: [{port: 80}]}}`,
	} {
		before := object(t, c.do("POST", path, body, 201))
		after := object(t, c.put(path+"/a", body, 200))
		if before.GetResourceVersion() != after.GetResourceVersion() {
			t.Errorf("%s: %v\nbecame %v", path, before, after)
		}
	}
}
