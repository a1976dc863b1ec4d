package customresources_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/plane/customresources"
	"github.com/planekit/planekit/plane/planetest"
	admissionapi "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
)

const gates = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gates.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: gates, kind: Gate}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.doors, statusReplicasPath: .status.doors}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: &part {type: object, properties: {doors: {type: integer}, by: {type: string}, hook: {type: string}, policy: {type: string}}}
          status: *part
`

const gatePath = "/apis/example.com/v1/namespaces/default/gates"

// gatekeeper is a webhook. It adds to what it mutates, and refuses what is from a thief or has 13 doors.
func gatekeeper(t *testing.T, w http.ResponseWriter, r *http.Request) {
	var review admissionapi.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		t.Error(err)
	}
	q := review.Request
	review.Response = &admissionapi.AdmissionResponse{UID: q.UID, Allowed: true}
	object := string(q.Object.Raw)
	switch {
	case r.URL.Path == "/validate":
		review.Response.Allowed = !strings.Contains(object, "thief") && !strings.Contains(object, `:13`)
	case q.SubResource == "scale" && strings.Contains(object, `"replicas":2`):
		review.Response.Patch = []byte(`[{"op":"replace","path":"/spec/replicas","value":3}]`)
	case q.SubResource == "status":
		review.Response.Patch = []byte(`[{"op":"add","path":"/status/hook","value":"yes"}]`)
	case q.SubResource == "":
		review.Response.Patch = []byte(`[{"op":"add","path":"/spec/hook","value":"yes"}]`)
	}
	if review.Response.Patch != nil {
		review.Response.PatchType = new(admissionapi.PatchTypeJSONPatch)
	}
	review.Request = nil
	if err := json.NewEncoder(w).Encode(review); err != nil {
		t.Error(err)
	}
}

// guard registers the webhook and policies for gates, their status and their scale.
func guard(t *testing.T, p *planetest.Plane) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { gatekeeper(t, w, r) }))
	t.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	const about = `[{apiGroups: [example.com], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [gates, gates/status, gates/scale]}]`
	hook := func(path string) string {
		return fmt.Sprintf(`{metadata: {name: gates}, webhooks: [{name: gates.example.com, sideEffects: None, admissionReviewVersions: [v1], rules: %s,
  clientConfig: {url: %q, caBundle: %q}}]}`, about, server.URL+path, jsonText(authority))
	}
	api := p.Client()
	_, err := typed.MutatingWebhookConfigurations(api).Create(t.Context(), parse[admissionv1.MutatingWebhookConfiguration](t, hook("/mutate")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err = typed.ValidatingWebhookConfigurations(api).Create(t.Context(), parse[admissionv1.ValidatingWebhookConfiguration](t, hook("/validate"))); err != nil {
		t.Fatal(err)
	}
	for name, spec := range map[string]string{
		"gates": about + `}, mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression:
  "has(request.subResource) ? Object{status: Object.status{policy: 'yes'}} : Object{spec: Object.spec{policy: 'yes'}}"}}]}`,
		"scales": strings.ReplaceAll(about, "gates, gates/status, ", "") + `}, mutations: [{patchType: JSONPatch, jsonPatch: {expression:
  "[JSONPatch{op: 'replace', path: '/spec/replicas', value: object.spec.replicas + 1}]"}}]}`,
	} {
		spec = strings.ReplaceAll(spec, "gates/status, gates/scale", "gates/status")
		if _, err = typed.MutatingAdmissionPolicies(api).Create(t.Context(), parse[admissionv1.MutatingAdmissionPolicy](t, `
metadata: {name: `+name+`}
spec: {reinvocationPolicy: Never, matchConstraints: {resourceRules: `+spec)); err != nil {
			t.Fatal(err)
		}
		if _, err = typed.MutatingAdmissionPolicyBindings(api).Create(t.Context(), parse[admissionv1.MutatingAdmissionPolicyBinding](t, `
metadata: {name: `+name+`}
spec: {policyName: `+name+`}`)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err = typed.ValidatingAdmissionPolicies(api).Create(t.Context(), parse[admissionv1.ValidatingAdmissionPolicy](t, `
metadata: {name: gates}
spec:
  matchConstraints: {resourceRules: `+about+`}
  validations:
  - expression: "!has(request.subResource) ? object.spec.doors != 7 : request.subResource == 'status' ? object.status.doors != 7 : object.spec.replicas != 8"
`)); err != nil {
		t.Fatal(err)
	}
	if _, err = typed.ValidatingAdmissionPolicyBindings(api).Create(t.Context(), parse[admissionv1.ValidatingAdmissionPolicyBinding](t, `
metadata: {name: gates}
spec: {policyName: gates, validationActions: [Deny]}`)); err != nil {
		t.Fatal(err)
	}
}

// jsonText returns data as encoding/json writes it, without the quotes.
func jsonText(data []byte) string {
	text, _ := json.Marshal(data)
	return strings.Trim(string(text), `"`)
}

// TestAdmissionOfSubresources: webhooks and policies of both kinds decide on custom objects, on their status
// and on their scale.
func TestAdmissionOfSubresources(t *testing.T) {
	definitions, err := customresources.Parse([]byte(gates))
	if err != nil {
		t.Fatal(err)
	}
	p := planetest.Start(t, planetest.CustomResources(definitions[0]))
	guard(t, p)
	do := func(method, path, body string) (string, error) {
		r := client.Request{Method: method, Path: gatePath + path, Body: []byte(body)}
		if method == "PATCH" {
			r.ContentType = "application/merge-patch+json"
		}
		response, err := p.Client().Do(t.Context(), r)
		return string(response.Body), err
	}
	gate := func(name, spec string) string {
		return fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Gate","metadata":{"name":%q},"spec":%s}`, name, spec)
	}
	n, name := 0, ""
	planetest.Eventually(t, func() error { // webhooks and policies are read from caches
		n++
		name = fmt.Sprint("/g", n)
		body, made := do("POST", "", gate(name[1:], `{"doors":1}`))
		_, thief := do("POST", "", gate("t", `{"doors":1,"by":"thief"}`))
		_, seven := do("POST", "", gate("s", `{"doors":7}`))
		if made != nil || !strings.Contains(body, `"hook":"yes","policy":"yes"`) ||
			thief == nil || !strings.Contains(thief.Error(), "admission webhook") || seven == nil || !strings.Contains(seven.Error(), "ValidatingAdmissionPolicy 'gates'") {
			return fmt.Errorf("%s; %v; %v; %v", body, made, thief, seven)
		}
		return nil
	})
	for _, test := range []struct{ path, body, want, err string }{
		{name + "/status", `{"status":{"doors":1}}`, `"hook":"yes","policy":"yes"`, ""},
		{name + "/status", `{"status":{"doors":7}}`, "", "ValidatingAdmissionPolicy 'gates' with binding 'gates' denied request: failed expression"},
		{name + "/status", `{"status":{"doors":13}}`, "", `admission webhook "gates.example.com" denied the request`},
		{name + "/scale", `{"spec":{"replicas":1}}`, `"spec":{"replicas":3}`, ""},
		{name + "/scale", `{"spec":{"replicas":7}}`, "", "ValidatingAdmissionPolicy 'gates' with binding 'gates' denied request: failed expression"},
		{name + "/scale", `{"spec":{"replicas":12}}`, "", `admission webhook "gates.example.com" denied the request`},
		{name, `{"spec":{"doors":7}}`, "", "ValidatingAdmissionPolicy 'gates' with binding 'gates' denied request: failed expression"},
	} {
		body, err := do("PATCH", test.path, test.body)
		if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) || !strings.Contains(body, test.want) {
			t.Errorf("PATCH of %s with %s = %s, %v, want %q in the answer and the error %q",
				test.path, test.body, body, err, test.want, test.err)
		}
	}
}
