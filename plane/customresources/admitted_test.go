package customresources_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/plane/customresources"
	"github.com/planekit/planekit/plane/planetest"
	admissionapi "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
)

const lampsDefinition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: lamps.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: lamps, kind: Lamp}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              color: {type: string, default: red}
              rooms: {type: array, items: {type: object, properties: {name: {type: string}, level: {type: integer, default: 1}}}}
`

// TestAdmittedObjectsAreCompleted: what a mutating webhook and a policy make of a custom object is completed by its schema
// as what a client sends: unknown fields go, defaults come, and the owners of fields are kept.
func TestAdmittedObjectsAreCompleted(t *testing.T) {
	definitions, err := customresources.Parse([]byte(lampsDefinition))
	if err != nil {
		t.Fatal(err)
	}
	p := planetest.Start(t, planetest.CustomResources(definitions[0]))
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionapi.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		review.Response = &admissionapi.AdmissionResponse{UID: review.Request.UID, Allowed: true, PatchType: new(admissionapi.PatchTypeJSONPatch), Patch: []byte(
			`[{"op":"remove","path":"/spec/color"}, {"op":"add","path":"/spec/unknown","value":{"a":1}}, {"op":"add","path":"/spec/rooms/-","value":{"name":"hook","no":1}}]`)}
		review.Request = nil
		if err := json.NewEncoder(w).Encode(review); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	const about = `[{apiGroups: [example.com], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [lamps]}]`
	api := p.Client()
	_, err = typed.MutatingWebhookConfigurations(api).Create(t.Context(), parse[admissionv1.MutatingWebhookConfiguration](t, fmt.Sprintf(
		`{metadata: {name: lamps}, webhooks: [{name: lamps.example.com, sideEffects: None, admissionReviewVersions: [v1], rules: %s, clientConfig: {url: %q, caBundle: %q}}]}`,
		about, server.URL, jsonText(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))))
	if err != nil {
		t.Fatal(err)
	}
	if _, err = typed.MutatingAdmissionPolicies(api).Create(t.Context(), parse[admissionv1.MutatingAdmissionPolicy](t, `
metadata: {name: lamps}
spec: {reinvocationPolicy: Never, matchConstraints: {resourceRules: `+about+`}, mutations: [{patchType: JSONPatch, jsonPatch: {expression:
  "[JSONPatch{op: 'add', path: '/spec/alien', value: 1}, JSONPatch{op: 'add', path: '/spec/rooms/-', value: {'name': 'policy'}}]"}}]}`)); err != nil {
		t.Fatal(err)
	}
	if _, err = typed.MutatingAdmissionPolicyBindings(api).Create(t.Context(), parse[admissionv1.MutatingAdmissionPolicyBinding](t, `
metadata: {name: lamps}
spec: {policyName: lamps}`)); err != nil {
		t.Fatal(err)
	}
	const path = "/apis/example.com/v1/namespaces/default/lamps"
	const lamp = `{"apiVersion":"example.com/v1","kind":"Lamp","metadata":{"name":"a"},"spec":{"color":"blue","rooms":[{"name":"client"}]}}`
	planetest.Eventually(t, func() error { // the webhook and the policy are read from caches
		answer, err := api.Do(t.Context(), client.Request{Method: "POST", Path: path, Query: url.Values{"dryRun": {"All"}}, ContentType: "application/json", Body: []byte(lamp)})
		if err == nil && !(strings.Contains(string(answer.Body), `"hook"`) && strings.Contains(string(answer.Body), `"policy"`)) {
			err = fmt.Errorf("not admitted: %s", answer.Body)
		}
		return err
	})
	room := func(name string) any { return map[string]any{"name": name, "level": 1.0} }
	check := func(method, path, body string, want ...any) {
		t.Helper()
		contentType := "application/json"
		if method == "PATCH" {
			contentType = "application/merge-patch+json"
		}
		answer, err := api.Do(t.Context(), client.Request{Method: method, Path: path, ContentType: contentType, Body: []byte(body)})
		if err != nil {
			t.Fatalf("%s %s of a Lamp: %v, want it admitted", method, path, err)
		}
		var got struct {
			Metadata struct{ ManagedFields []any }
			Spec     map[string]any
		}
		if err := json.Unmarshal(answer.Body, &got); err != nil {
			t.Fatal(err)
		}
		if want := map[string]any{"color": "red", "rooms": want}; !reflect.DeepEqual(got.Spec, want) || len(got.Metadata.ManagedFields) == 0 {
			t.Errorf("%s %s: spec %v, want %v; managedFields %v, want some", method, path, got.Spec, want, got.Metadata.ManagedFields)
		}
	}
	check("POST", path, lamp, room("client"), room("policy"), room("hook"))
	check("GET", path+"/a", "", room("client"), room("policy"), room("hook"))
	check("PATCH", path+"/a", `{"spec":{"color":"blue","rooms":[]}}`, room("policy"), room("hook"))
	check("GET", path+"/a", "", room("policy"), room("hook"))
}
