package pluginset_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/plane/planetest"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/yaml"
)

func parse[T any](t *testing.T, text string) *T {
	t.Helper()
	out := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestMutatingPolicies: a control plane changes what policies say, by the schemas that it serves.
func TestMutatingPolicies(t *testing.T) {
	p := planetest.Start(t, planetest.WithoutNetwork())
	policies, bindings := typed.MutatingAdmissionPolicies(p.Client()), typed.MutatingAdmissionPolicyBindings(p.Client())
	policy := parse[admissionv1.MutatingAdmissionPolicy](t, `
metadata: {name: a}
spec:
  reinvocationPolicy: Never
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  variables: [{name: team, expression: "object.metadata.labels.team"}]
  matchConditions: [{name: team, expression: "has(object.metadata.labels) && 'team' in object.metadata.labels"}]
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: >
        Object{
          metadata: Object.metadata{labels: {"owner": variables.team}},
          spec: Object.spec{containers: [Object.spec.containers{name: "side", image: "sidecar"}]}
        }
  - patchType: JSONPatch
    jsonPatch:
      expression: >
        [JSONPatch{op: "test", path: "/spec/containers/1/name", value: "side"},
         JSONPatch{op: "add", path: "/metadata/labels/" + jsonpatch.escapeKey("example.com/team"), value: variables.team}]
`)
	broken := policy.DeepCopy()
	broken.Spec.Mutations[0].ApplyConfiguration.Expression = "Object{"
	broken.Spec.Mutations[1].JSONPatch.Expression = "Object{}"
	_, err := policies.Create(t.Context(), broken)
	for _, want := range []string{
		`spec.mutations[0].applyConfiguration.expression: Invalid value: "Object{": compilation failed`,
		`spec.mutations[1].jsonPatch.expression: Invalid value: "Object{}": must evaluate to list(JSONPatch) but got Object`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
	if _, err := policies.Create(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	if _, err := bindings.Create(t.Context(), parse[admissionv1.MutatingAdmissionPolicyBinding](t, "metadata: {name: b}\nspec: {policyName: a}")); err != nil {
		t.Fatal(err)
	}
	n := 0
	create := func(labels string) string {
		n++
		answer, err := p.Client().Do(t.Context(), client.Request{Method: "POST", Path: "/api/v1/namespaces/default/pods", Body: fmt.Appendf(nil,
			`{"metadata":{"name":"p%d","labels":{%s}},"spec":{"containers":[{"name":"web","image":"nginx"}]}}`, n, labels)})
		if err != nil {
			return err.Error()
		}
		return string(answer.Body)
	}
	planetest.Eventually(t, func() error { // the policy is read from a cache
		got := create(`"team":"blue"`)
		for _, want := range []string{
			`"owner":"blue"`, `"example.com/team":"blue"`, `"name":"side","image":"sidecar"`, `"name":"web","image":"nginx"`,
		} {
			if !strings.Contains(got, want) {
				return fmt.Errorf("no %s in %s", want, got)
			}
		}
		if strings.Count(got, `"terminationMessagePath"`) != 2 {
			return fmt.Errorf("the containers have no defaults: %s", got)
		}
		return nil
	})
	if got := create(""); strings.Contains(got, "side") {
		t.Errorf("without a team: %s", got)
	}
}
