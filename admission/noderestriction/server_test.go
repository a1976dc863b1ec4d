package noderestriction_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/noderestriction"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestServer has a kubelet that may do everything by its rights write what is not
// its own, over HTTP, by every way to write.
func TestServer(t *testing.T) {
	var s *apiservertest.Server
	do := func(client *http.Client, method, path, kind, body string) (int, []byte) {
		t.Helper()
		r, err := http.NewRequest(method, s.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", kind)
		response, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		data, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, data
	}
	c := noderestriction.Config{Pods: localcache.NewMap[*corev1.Pod](), Nodes: localcache.NewMap[*corev1.Node]()}
	c.LookupPod = func(_ context.Context, namespace, name string) (*corev1.Pod, error) {
		code, data := do(s.As("admin"), "GET", "/api/v1/namespaces/"+namespace+"/pods/"+name, "application/json", "")
		if code == http.StatusNotFound {
			return nil, apierrors.NewNotFound(corev1.Resource("pods"), name)
		}
		p := &corev1.Pod{}
		return p, json.Unmarshal(data, p)
	}
	all := authz.Func(func(context.Context, authz.Attributes) (authz.Decision, string, error) { return authz.Allow, "", nil })
	s = apiservertest.Start(t, apiservertest.WithResources(kube.Resources()...), apiservertest.WithAuthorizer(all),
		apiservertest.WithAdmission(admission.Chain{Validators: []admission.Validator{start(t, c)}}))
	const asJSON, merge, apply = "application/json", "application/merge-patch+json", "application/apply-patch+yaml"
	podOn := func(name, node string) string {
		return `{"metadata":{"name":"` + name + `"},"spec":{"nodeName":"` + node + `","containers":[{"name":"c","image":"i"}]}}`
	}
	const pods, nodes, leases = "/api/v1/namespaces/default/pods", "/api/v1/nodes", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
	for _, object := range []struct{ path, body string }{
		{"/api/v1/namespaces", `{"metadata":{"name":"default"}}`}, {"/api/v1/namespaces", `{"metadata":{"name":"kube-node-lease"}}`},
		{pods, podOn("mine", "n1")}, {pods, podOn("other", "n2")}, {nodes, `{"metadata":{"name":"n2"}}`},
	} {
		if code, data := do(s.As("admin"), "POST", object.path, asJSON, object.body); code != 201 && code != 409 {
			t.Fatalf("POST %s = %d %s, want 201 or 409", object.path, code, data)
		}
	}
	node := s.As("system:node:n1", user.Nodes)
	for _, test := range []struct {
		method, path, kind, body string
		code                     int
		text                     string
	}{
		{"POST", nodes, asJSON, `{"metadata":{"name":"n1","labels":{"kubernetes.io/hostname":"n1"}},"spec":{"taints":[{"key":"t","effect":"NoSchedule"}]}}`, 201, ""},
		{"POST", nodes, asJSON, `{"metadata":{"name":"n3"}}`, 403, `nodes "n3" is forbidden: node "n1" is not allowed to modify node "n3"`},
		{"PATCH", nodes + "/n1", merge, `{"spec":{"taints":null}}`, 403, `nodes "n1" is forbidden: node "n1" is not allowed to modify taints`},
		{"PATCH", nodes + "/n1", merge, `{"metadata":{"labels":{"node-restriction.kubernetes.io/x":"y"}}}`, 403, "is not allowed to modify labels: node-restriction.kubernetes.io/x"},
		{"PATCH", nodes + "/n1?fieldManager=k", apply, `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1","labels":{"k8s.io/x":"y"}}}`, 403, "is not allowed to modify labels: k8s.io/x"},
		{"PATCH", nodes + "/n1/status", merge, `{"status":{"nodeInfo":{"kubeletVersion":"x"}}}`, 200, ""},
		{"PATCH", nodes + "/n2/status", merge, `{"status":{}}`, 403, `is not allowed to modify node`},
		{"PATCH", nodes + "/n1", merge, `{"metadata":{"labels":{"mine":"x"}}}`, 200, ""},
		{"DELETE", nodes + "/n2", asJSON, "", 403, `is not allowed to modify node`},

		{"PATCH", pods + "/mine/status", merge, `{"status":{"phase":"Running"}}`, 200, ""},
		{"PATCH", pods + "/other/status", merge, `{"status":{"phase":"Failed"}}`, 403, "can only update pod status for pods with spec.nodeName set to itself"},
		{"PATCH", pods + "/mine", merge, `{"metadata":{"labels":{"a":"b"}}}`, 403, "can only create and delete mirror pods"},
		{"POST", pods, asJSON, podOn("new", "n1"), 403, `pod does not have "kubernetes.io/config.mirror" annotation`},
		{"POST", pods + "/other/eviction", asJSON, `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"other"}}`, 403, "node n1 can only evict pods with spec.nodeName set to itself"},
		{"POST", pods + "/none/eviction", asJSON, `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"none"}}`, 404, "not found"},
		{"DELETE", pods + "/other", asJSON, "", 403, "can only delete pods with spec.nodeName set to itself"},
		{"DELETE", pods, asJSON, "", 403, "can only delete pods with spec.nodeName set to itself"},

		{"POST", leases, asJSON, `{"metadata":{"name":"n1"}}`, 201, ""},
		{"POST", leases, asJSON, `{"metadata":{"name":"n2"}}`, 403, "can only access node lease with the same name as the requesting node"},
		{"PATCH", leases + "/n3?fieldManager=k", apply, `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"n3"}}`, 403, "can only access node lease"},
		{"POST", "/apis/storage.k8s.io/v1/csinodes", asJSON, `{"metadata":{"name":"n2"},"spec":{"drivers":[]}}`, 403, "can only access CSINode with the same name"},
	} {
		code, data := do(node, test.method, test.path, test.kind, test.body)
		var status struct{ Message string }
		if err := json.Unmarshal(data, &status); err != nil {
			t.Errorf("%s %s: decode the answer %q: %v", test.method, test.path, data, err)
		}
		if code != test.code || !strings.Contains(status.Message, test.text) {
			t.Errorf("%s %s = %d %s, want %d with %q", test.method, test.path, code, bytes.TrimSpace(data), test.code, test.text)
		}
	}
	if code, data := do(s.As("admin"), "GET", pods+"/other", asJSON, ""); code != 200 {
		t.Errorf("the pod of another: %d %s", code, data)
	}
	if code, data := do(node, "DELETE", pods+"/mine", asJSON, ""); code != 200 {
		t.Errorf("own pod: %d %s", code, data)
	}
}
