package kube_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/kube"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// patch sends a patch of a type and returns the answer with its status.
func (c client) patch(kind, path, body string) (int, []byte) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), "PATCH", c.server.URL+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Content-Type", kind)
	response, err := c.server.Client().Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return response.StatusCode, answer
}

// owned returns the fields of obj that manager owns, as JSON; empty if none.
func owned(obj *unstructured.Unstructured, manager string) string {
	for _, e := range obj.GetManagedFields() {
		if e.Manager == manager {
			return e.FieldsV1.GetRawString()
		}
	}
	return ""
}

const podTemplate = `template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: nginx}]}}`

// TestApplyScale scales every kind that has replicas by server-side apply.
func TestApplyScale(t *testing.T) {
	c := client{t, apiservertest.Start(t, apiservertest.WithResources(kube.Resources()...)), "application/json"}
	c.do("POST", "/api/v1/namespaces", `{metadata: {name: team}}`, 201)
	for path, spec := range map[string]string{
		"/apis/apps/v1/namespaces/team/deployments":      `{selector: {matchLabels: {app: web}}, ` + podTemplate + `}`,
		"/apis/apps/v1/namespaces/team/replicasets":      `{selector: {matchLabels: {app: web}}, ` + podTemplate + `}`,
		"/apis/apps/v1/namespaces/team/statefulsets":     `{serviceName: web, selector: {matchLabels: {app: web}}, ` + podTemplate + `}`,
		"/api/v1/namespaces/team/replicationcontrollers": `{selector: {app: web}, ` + podTemplate + `}`,
	} {
		t.Run(path[strings.LastIndex(path, "/")+1:], func(t *testing.T) {
			c := client{t, c.server, c.accept}
			c.do("POST", path+"?fieldManager=creator", `{metadata: {name: web}, spec: `+spec+`}`, 201)
			const three = `{apiVersion: autoscaling/v1, kind: Scale, metadata: {name: web}, spec: {replicas: 3}}`
			code, answer := c.patch("application/apply-patch+yaml", path+"/web/scale?fieldManager=scaler&force=true", three)
			if code != 200 || value(object(t, answer), "kind") != "Scale" {
				t.Fatalf("the apply of 3 replicas by scaler = %d %s, want 200 and a Scale", code, answer)
			}
			obj := object(t, c.do("GET", path+"/web", "", 200))
			if n, _, _ := unstructured.NestedInt64(obj.Object, "spec", "replicas"); n != 3 {
				t.Errorf("replicas: %d", n)
			}
			if owned(obj, "scaler") != `{"f:spec":{"f:replicas":{}}}` || strings.Contains(owned(obj, "creator"), "f:replicas") {
				t.Errorf("owners: %v", obj.GetManagedFields())
			}
			const two = `{apiVersion: autoscaling/v1, kind: Scale, metadata: {name: web}, spec: {replicas: 2}}`
			if code, answer := c.patch("application/apply-patch+yaml", path+"/web/scale?fieldManager=rival", two); code != 409 {
				t.Errorf("the apply of 2 replicas by rival = %d %s, want 409", code, answer)
			}
			if code, answer := c.patch("application/apply-patch+yaml", path+"/web/scale?fieldManager=rival&force=true", strings.Replace(two, "2", "-2", 1)); code != 422 {
				t.Errorf("the forced apply of -2 replicas by rival = %d %s, want 422", code, answer)
			}
		})
	}
}

// TestResets changes more than a path lets through, and looks who owns it.
func TestResets(t *testing.T) {
	c := client{t, apiservertest.Start(t, apiservertest.WithResources(kube.Resources()...)), "application/json"}
	c.do("POST", "/api/v1/namespaces", `{metadata: {name: team}}`, 201)
	const (
		core, apps  = "/api/v1/namespaces/team/", "/apis/apps/v1/namespaces/team/"
		attachments = "/apis/storage.k8s.io/v1/volumeattachments"
		policies    = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
		fairness    = "/apis/flowcontrol.apiserver.k8s.io/v1/"
	)
	c.do("POST", core+"pods", `{metadata: {name: web}, spec: {containers: [{name: web, image: nginx}]}}`, 201)
	c.do("POST", apps+"deployments", `{metadata: {name: web}, spec: {selector: {matchLabels: {app: web}}, `+podTemplate+`}}`, 201)
	c.do("POST", "/api/v1/nodes", `{metadata: {name: n1, labels: {b: c}}}`, 201)
	c.do("POST", attachments, `{metadata: {name: web}, spec: {attacher: a, nodeName: n1, source: {persistentVolumeName: v}}}`, 201)
	c.do("POST", policies, `{metadata: {name: web}, spec: {validations: [{expression: "true"}], matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}}}`, 201)
	c.do("POST", fairness+"prioritylevelconfigurations", `{metadata: {name: web}, spec: {type: Limited, limited: {limitResponse: {type: Reject}}}}`, 201)
	c.do("POST", fairness+"flowschemas", `{metadata: {name: web}, spec: {priorityLevelConfiguration: {name: web}}}`, 201)
	const meta = `"metadata":{"labels":{"a":"b"},"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"u"}]}`
	for path, want := range map[string]struct{ body, owned string }{
		core + "pods/web/status":        {`{` + meta + `,"spec":{"nodeName":"n"},"status":{"phase":"Running"}}`, `{"f:metadata":{"f:labels":{".":{},"f:a":{}}},"f:status":{"f:phase":{}}}`},
		apps + "deployments/web/status": {`{"metadata":{"labels":{"a":"b"},"annotations":{"a":"b"}},"spec":{"replicas":7},"status":{"observedGeneration":1}}`, `{"f:metadata":{"f:annotations":{".":{},"f:a":{}}},"f:status":{"f:observedGeneration":{}}}`},
		"/api/v1/nodes/n1/status":       {`{"metadata":{"labels":{"a":"b"}},"spec":{"unschedulable":true},"status":{"phase":"Running"}}`, `{"f:metadata":{"f:labels":{"f:a":{}}},"f:status":{"f:phase":{}}}`},
		"/api/v1/namespaces/team":       {`{"metadata":{"labels":{"a":"b"}},"spec":{"finalizers":["x.example/y"]},"status":{"phase":"Terminating"}}`, `{"f:metadata":{"f:labels":{"f:a":{}}}}`},
		"/api/v1/namespaces/team/status": {`{"spec":{"finalizers":["x.example/y"]},"status":{"conditions":[{"type":"T","status":"True"}]}}`,
			`{"f:status":{"f:conditions":{".":{},"k:{\"type\":\"T\"}":{".":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}}}}}`},
		attachments + "/web/status": {`{"metadata":{"labels":{"a":"b"}},"status":{"attached":true}}`, `{"f:status":{"f:attached":{}}}`},
		policies + "/web/status":    {`{"metadata":{"labels":{"a":"b"}},"status":{"observedGeneration":1}}`, `{"f:status":{"f:observedGeneration":{}}}`},
		fairness + "flowschemas/web/status": {`{` + meta + `,"spec":{"matchingPrecedence":7},"status":{"conditions":[{"type":"T","status":"True"}]}}`,
			`{"f:status":{"f:conditions":{".":{},"k:{\"type\":\"T\"}":{".":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}}}}}`},
		fairness + "prioritylevelconfigurations/web/status": {`{` + meta + `,"spec":{"type":"Exempt"},"status":{"conditions":[{"type":"T","status":"True"}]}}`,
			`{"f:status":{"f:conditions":{".":{},"k:{\"type\":\"T\"}":{".":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}}}}}`},
	} {
		manager := "m" + strings.ReplaceAll(path, "/", "-")
		code, answer := c.patch("application/merge-patch+json", path+"?fieldManager="+manager, want.body)
		if code != 200 {
			t.Errorf("PATCH %s with %s = %d %s, want 200", path, want.body, code, answer)
			continue
		}
		if got := owned(object(t, answer), manager); got != want.owned {
			t.Errorf("%s: owns %s\nnot %s", path, got, want.owned)
		}
	}
}
