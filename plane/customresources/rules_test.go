package customresources_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/plane/customresources"
	"github.com/planekit/planekit/plane/planetest"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/yaml"
)

const dimmers = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: dimmers.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: dimmers, kind: Dimmer}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          level: {type: integer, x-kubernetes-validations: [{rule: self <= 100, message: too bright}]}
          room: {type: string, maxLength: 50, x-kubernetes-validations: [{rule: self == oldSelf, message: it cannot move}]}
`

func parse[T any](t *testing.T, text string) *T {
	t.Helper()
	out := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRules: an object is refused by the rules of its definition, and by a policy whose parameters are objects of
// the definition.
func TestRules(t *testing.T) {
	definitions, err := customresources.Parse([]byte(dimmers))
	if err != nil {
		t.Fatal(err)
	}
	p := planetest.Start(t, planetest.CustomResources(definitions[0]))
	const path = "/apis/example.com/v1/namespaces/default/dimmers"
	send := func(method, path, body string) string {
		r := client.Request{Method: method, Path: path, Body: []byte(body)}
		if method == "PATCH" {
			r.ContentType = "application/merge-patch+json"
		}
		response, err := p.Client().Do(t.Context(), r)
		return fmt.Sprint(string(response.Body), err)
	}
	dimmer := func(name, fields string) string {
		return `{"apiVersion":"example.com/v1","kind":"Dimmer","metadata":{"name":"` + name + `"},` + fields + `}`
	}
	want := func(got, text string) {
		t.Helper()
		if !strings.Contains(got, text) {
			t.Fatalf("%s\nwant %q", got, text)
		}
	}
	want(send("POST", path, dimmer("a", `"level":101`)), `Dimmer.example.com "a" is invalid: level: Invalid value: 101: too bright`)
	want(send("POST", path, dimmer("a", `"level":50,"room":"hall"`)), `"level":50`)
	want(send("PATCH", path+"/a", `{"level":50,"room":"attic"}`), "room: Invalid value: \"attic\": it cannot move")

	policies, bindings := typed.ValidatingAdmissionPolicies(p.Client()), typed.ValidatingAdmissionPolicyBindings(p.Client())
	policy := parse[admissionv1.ValidatingAdmissionPolicy](t, `
metadata: {name: dim}
spec:
  paramKind: {apiVersion: example.com/v1, kind: Dimmer}
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  validations: [{expression: "int(object.data.level) <= params.level", messageExpression: "'at most ' + string(params.level)"}]
`)
	broken := policy.DeepCopy()
	broken.Spec.Validations[0].Expression = "object."
	if _, err := policies.Create(t.Context(), broken); err == nil || !strings.Contains(err.Error(), "spec.validations[0].expression: Invalid value: \"object.\": compilation failed") {
		t.Error(err)
	}
	if _, err := policies.Create(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	binding := parse[admissionv1.ValidatingAdmissionPolicyBinding](t, `
metadata: {name: hall}
spec: {policyName: dim, validationActions: [Deny], paramRef: {name: a, parameterNotFoundAction: Deny}}
`)
	if _, err := bindings.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	const maps = "/api/v1/namespaces/default/configmaps"
	n := 0
	planetest.Eventually(t, func() error { // the policy is read from a cache
		n++
		got := send("POST", maps, fmt.Sprintf(`{"metadata":{"name":"m%d"},"data":{"level":"51"}}`, n))
		if !strings.Contains(got, `is forbidden: ValidatingAdmissionPolicy 'dim' with binding 'hall' denied request: at most 50`) {
			return fmt.Errorf("the answer is %s", got)
		}
		return nil
	})
	want(send("POST", maps, `{"metadata":{"name":"ok"},"data":{"level":"50"}}`), `"name":"ok"`)
	want(send("PATCH", path+"/a", `{"level":10}`), `"level":10`)
	want(send("POST", maps, `{"metadata":{"name":"late"},"data":{"level":"50"}}`), "denied request: at most 10")
	want(send("DELETE", path+"/a", ""), "a")
	want(send("POST", maps, `{"metadata":{"name":"late"},"data":{"level":"50"}}`), "failed to configure binding: no params found")
}
