package mutating

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	registration "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// expressions lists the expressions of mutations: JSON patches begin with a bracket.
var expressions = []string{
	`Object{}`,
	`Object{metadata: Object.metadata{labels: {"x": "1"}}}`,
	`Object{metadata: Object.metadata{labels: {"app": "other"}, annotations: {"n": string(object.spec.replicas)}}}`,
	`Object{metadata: Object.metadata{?labels: has(object.metadata.labels) ? optional.of({"y": "2"}) : optional.none()}}`,
	`Object{spec: Object.spec{replicas: object.spec.replicas + 1}}`,
	`Object{spec: Object.spec{replicas: 5, paused: true}}`,
	`Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: [Object.spec.template.spec.containers{name: "side", image: "s"}]}}}}`,
	`Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: object.spec.template.spec.containers.map(c, Object.spec.template.spec.containers{name: c.name, imagePullPolicy: "Always"})}}}}`,
	`Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: [Object.spec.template.spec.containers{name: "web", env: [Object.spec.template.spec.containers.env{name: "B", value: "3"}, Object.spec.template.spec.containers.env{name: "C", value: "4"}]}]}}}}`,
	`Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{nodeSelector: {"a": "b"}}}}}`,
	`Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{tolerations: [Object.spec.template.spec.tolerations{key: "y"}]}}}}`,
	`Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: [Object.spec.template.spec.containers{name: "web", args: ["b"]}]}}}}`,
	`Object{spec: Object.spec{selector: Object.spec.selector{matchLabels: {"a": "b"}}}}`,
	`Object{spec: Object.spec{wrong: 1}}`,
	`Object{spec: Object.spec{replicas: "many"}}`,
	`Object{spec: Object.status{replicas: 1}}`,
	`Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{volumes: [Object.spec.template.spec.volumes{name: "v", emptyDir: Object.spec.template.spec.volumes.emptyDir{}}]}}}}`,
	`Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: [Object.spec.template.spec.containers{image: "s"}]}}}}`,
	`Object{metadata: Object.metadata{labels: {"v": variables.v}}}`,
	`Object{metadata: Object.metadata{labels: {"v": variables.missing}}}`,
	`Object{metadata: Object.metadata{labels: {"who": request.userInfo.username, "may": string(authorizer.group("").resource("pods").check("get").allowed())}}}`,
	`Object{metadata: Object.metadata{labels: {"ns": namespaceObject.metadata.name}}}`,
	`Object{metadata: Object.metadata{labels: {"x": object.metadata.labels["none"]}}}`,
	`"text"`, `Object{`, `object`, `Object.spec{}`, `{"metadata": {}}`,
	`[]`, `[JSONPatch{}]`, `["a"]`, `JSONPatch{op: "add"}`, `[JSONPatch{op: 5}]`,
	`[JSONPatch{op: "add", path: "/metadata/labels/x", value: "1"}]`,
	`[JSONPatch{op: "add", path: "/metadata/labels/" + jsonpatch.escapeKey("d/e~f"), value: "1"}]`,
	`[JSONPatch{op: "remove", path: "/metadata/labels/a~1b"}]`,
	`[JSONPatch{op: "remove", path: "/metadata/labels/none"}]`,
	`[JSONPatch{op: "replace", path: "/spec/replicas", value: object.spec.replicas + 1}]`,
	`[JSONPatch{op: "replace", path: "/spec/replicas", value: "many"}]`,
	`[JSONPatch{op: "test", path: "/spec/replicas", value: 2}, JSONPatch{op: "replace", path: "/spec/replicas", value: 7}]`,
	`[JSONPatch{op: "test", path: "/spec/replicas", value: 100}, JSONPatch{op: "replace", path: "/spec/replicas", value: 7}]`,
	`[JSONPatch{op: "copy", from: "/metadata/labels/app", path: "/metadata/labels/copy"}]`,
	`[JSONPatch{op: "move", from: "/metadata/labels/app", path: "/metadata/labels/moved"}]`,
	`[JSONPatch{op: "copy", from: "/metadata/labels/none", path: "/metadata/labels/copy"}]`,
	`[JSONPatch{op: "add", path: "/spec/template/spec/containers/-", value: Object.spec.template.spec.containers{name: "side", image: "s", env: [Object.spec.template.spec.containers.env{name: "A"}]}}]`,
	`[JSONPatch{op: "add", path: "/spec/template/spec/containers/-", value: Object.spec.template{name: "side"}}]`,
	`[JSONPatch{op: "add", path: "/spec/template/spec/containers/-", value: Object.spec.template.spec.containers{name: "side", env: [Object.spec{}]}}]`,
	`[JSONPatch{op: "add", path: "/spec/template/spec/nodeSelector", value: {"a": "b"}}]`,
	`[JSONPatch{op: "replace", path: "/spec/template/spec/containers/0/args", value: ["x", "y"]}]`,
	`[JSONPatch{op: "replace", path: "/spec/template/spec/containers/9", value: {}}]`,
	`[JSONPatch{op: "add", path: "/spec/unknown", value: 5}]`,
	`[JSONPatch{op: "add", path: "/spec/minReadySeconds", value: 5}, JSONPatch{op: "add", path: "/spec/paused", value: true}]`,
	`[JSONPatch{op: "add", path: "/metadata/annotations", value: {"big": string(1.5)}}]`,
	`[JSONPatch{op: "add", path: "/metadata/annotations/x", value: "1"}]`,
	`[JSONPatch{op: "invent", path: "/spec"}]`,
	`object.spec.template.spec.containers.map(c, JSONPatch{op: "add", path: "/metadata/labels/" + c.name, value: c.image})`,
	`[JSONPatch{op: "add", path: "/metadata/labels/x", value: object.metadata.labels["none"]}]`,
	`[JSONPatch{op: "add", path: "/metadata/labels/v", value: variables.v}]`,
	`[JSONPatch{op: "add", path: "spec", value: 1}]`,
}

func mutationOf(text string) registration.Mutation {
	if strings.HasPrefix(text, "[") || strings.Contains(text, "JSONPatch") {
		return registration.Mutation{PatchType: registration.PatchTypeJSONPatch, JSONPatch: &registration.JSONPatch{Expression: text}}
	}
	return registration.Mutation{PatchType: registration.PatchTypeApplyConfiguration, ApplyConfiguration: &registration.ApplyConfiguration{Expression: text}}
}

func policyOf(name string, mutations ...string) *registration.MutatingAdmissionPolicy {
	fail, equivalent := registration.Fail, registration.Equivalent
	p := &registration.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: registration.MutatingAdmissionPolicySpec{
		FailurePolicy: &fail, ReinvocationPolicy: registration.NeverReinvocationPolicy,
		MatchConstraints: &registration.MatchResources{
			MatchPolicy: &equivalent, NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{},
			ResourceRules: []registration.NamedRuleWithOperations{{RuleWithOperations: registration.RuleWithOperations{
				Operations: []registration.OperationType{registration.Create},
				Rule:       registration.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
			}}},
		},
		Variables: []registration.Variable{
			{Name: "v", Expression: "string(object.spec.replicas)"}, {Name: "missing", Expression: "object.spec.missing"},
		},
	}}
	for _, m := range mutations {
		p.Spec.Mutations = append(p.Spec.Mutations, mutationOf(m))
	}
	return p
}

func compare(t *testing.T, d *documents, policies []*registration.MutatingAdmissionPolicy, between func(metav1.Object)) outcome {
	t.Helper()
	got, want := ours(t, d, policies, deployment(), between), theirs(t, d, policies, deployment(), between)
	if !reflect.DeepEqual(got, want) {
		var all []string
		for _, p := range policies {
			all = append(all, describe(p))
		}
		t.Errorf("%s:\n%+v\n%+v\nwant\n%+v\n%+v", strings.Join(all, "\n"), got, got.status.Details, want, want.status.Details)
	}
	return want
}

// TestExpressions: each expression has the same effect, or the same error.
func TestExpressions(t *testing.T) {
	d := readSchemas(t)
	for _, text := range expressions {
		compare(t, d, []*registration.MutatingAdmissionPolicy{policyOf("p", text)}, nil)
	}
}

// TestRandomPolicies: several policies with conditions, failure policies and a second round have the same outcome.
func TestRandomPolicies(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	d := readSchemas(t)
	conditions := []string{"true", "object.spec.replicas > 2", "!('x' in object.metadata.labels)", "object.metadata.labels['none'] == 'a'", "false"}
	counts := map[bool]int{}
	for range 150 {
		var policies []*registration.MutatingAdmissionPolicy
		for i := range 1 + random.IntN(3) {
			var mutations []string
			for range 1 + random.IntN(2) {
				mutations = append(mutations, expressions[random.IntN(len(expressions))])
			}
			p := policyOf(fmt.Sprint("p", i), mutations...)
			if random.IntN(2) == 0 {
				ignore := registration.Ignore
				p.Spec.FailurePolicy = &ignore
			}
			if random.IntN(2) == 0 {
				p.Spec.ReinvocationPolicy = registration.IfNeededReinvocationPolicy
			}
			if random.IntN(3) == 0 {
				p.Spec.MatchConditions = []registration.MatchCondition{{Name: "c", Expression: conditions[random.IntN(len(conditions))]}}
			}
			policies = append(policies, p)
		}
		var between func(metav1.Object)
		switch random.IntN(3) {
		case 0:
			between = func(metav1.Object) {}
		case 1:
			between = func(o metav1.Object) { o.SetLabels(map[string]string{"changed": "1"}) }
		}
		counts[compare(t, d, policies, between).status.Code == 0]++
	}
	t.Log(counts)
	if counts[true] < 30 || counts[false] < 10 {
		t.Errorf("admitted or not: %v", counts)
	}
}
