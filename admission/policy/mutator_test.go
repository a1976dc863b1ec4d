package policy_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/policy"
	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// podSchema is part of the schema of pods.
type podSchema struct{ typed.ParseableType }

func newPodSchema() podSchema {
	parser, err := typed.NewParser(`types:
- name: pod
  map:
    fields:
    - {name: apiVersion, type: {scalar: string}}
    - {name: kind, type: {scalar: string}}
    - {name: metadata, type: {namedType: any}}
    - name: spec
      type:
        map:
          fields:
          - name: containers
            type: {list: {elementType: {namedType: any}, elementRelationship: associative, keys: [name]}}
          - {name: nodeSelector, type: {map: {elementType: {scalar: string}, elementRelationship: atomic}}}
          elementType: {namedType: any}
    - {name: status, type: {namedType: any}}
- name: any
  scalar: untyped
  list: {elementType: {namedType: any}, elementRelationship: atomic}
  map: {elementType: {namedType: any}, elementRelationship: separable}
`)
	if err != nil {
		panic(err)
	}
	return podSchema{parser.Type("pod")}
}

// Type implements [policy.Schemas].
func (s podSchema) Type(_ context.Context, kind schema.GroupVersionKind) (typed.ParseableType, error) {
	if kind.Kind != "Pod" {
		return typed.ParseableType{}, errors.New("there is no such kind")
	}
	return s.ParseableType, nil
}

func mutatingOf(name, spec string) *registration.MutatingAdmissionPolicy {
	return read[registration.MutatingAdmissionPolicy]("metadata: {name: " + name + "}" + pods + spec + "}")
}

func newMutator(policies ...*registration.MutatingAdmissionPolicy) (*policy.Mutator, error) {
	var bindings []*registration.MutatingAdmissionPolicyBinding
	for _, p := range policies {
		bindings = append(bindings, read[registration.MutatingAdmissionPolicyBinding]("metadata: {name: b}\nspec: {policyName: "+p.Name+"}"))
	}
	return policy.NewMutator(policy.MutatorConfig{
		Policies: newCache(policies...), Bindings: newCache(bindings...), Params: params{}, Schemas: newPodSchema(),
		Namespaces: namespaces{"web": {}}, Lookup: func(context.Context, string) (*corev1.Namespace, error) { return nil, nil },
	})
}

// mutate returns the pod that policies make of that of request.
func mutate(ctx context.Context, policies ...*registration.MutatingAdmissionPolicy) (*corev1.Pod, error) {
	m, err := newMutator(policies...)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	done := make(chan error, 1) // one answer
	go func() { done <- m.Run(ctx) }()
	r := request(&seen{})
	err = m.Mutate(ctx, r)
	stop()
	return r.Object.(*corev1.Pod), errors.Join(err, <-done)
}

// A policy takes pods off the network of their node, and adds a container.
func ExampleMutator() {
	pod, err := mutate(context.Background(), mutatingOf("p", `mutations: [
		{patchType: JSONPatch, jsonPatch: {expression: '[JSONPatch{op: "remove", path: "/spec/hostNetwork"}]'}},
		{patchType: ApplyConfiguration, applyConfiguration: {expression: 'Object{spec: Object.spec{containers: [Object.spec.containers{name: "side", image: "sidecar"}]}}'}}
	]`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(pod.Spec.HostNetwork)
	for _, c := range pod.Spec.Containers {
		fmt.Println(strings.TrimSpace(c.Name + " " + c.Image))
	}
	// Output:
	// false
	// a
	// b
	// side sidecar
}

func jsonPatch(expression string) string {
	return fmt.Sprintf("mutations: [{patchType: JSONPatch, jsonPatch: {expression: %q}}]", expression)
}

func apply(expression string) string {
	return fmt.Sprintf("mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: %q}}]", expression)
}

// TestRefusedMutations: policies cannot make objects that are too large, of another kind or elsewhere, nor run forever.
func TestRefusedMutations(t *testing.T) {
	var doubled []string
	for i := range 40 {
		of := `["0123456789"]`
		if i > 0 {
			of = fmt.Sprintf("[variables.v%d, variables.v%d]", i-1, i-1)
		}
		doubled = append(doubled, fmt.Sprintf("{name: v%d, expression: %q}", i, of))
	}
	doubling := "variables: [" + strings.Join(doubled, ",") + "], "
	for name, test := range map[string]struct{ spec, want string }{
		"values that contain one another": {doubling + apply(`Object{metadata: Object.metadata{labels: variables.v39}}`), "the mutation is too large"},
		"copies of copies": {jsonPatch(`[JSONPatch{op: "add", path: "/metadata/annotations", value: {"a": "0123456789".replace("", "0123456789")}}] +
			lists.range(40).map(i, JSONPatch{op: "copy", from: "/metadata", path: "/metadata/annotations/" + string(i)})`), "the patch makes the object larger than 3145728 bytes"},
		"another kind":     {jsonPatch(`[JSONPatch{op: "replace", path: "/kind", value: "Secret"}]`), "makes a /v1, Kind=Secret of a /v1, Kind=Pod"},
		"an unknown field": {jsonPatch(`[JSONPatch{op: "add", path: "/spec/invented", value: 1}]`), `unknown field "spec.invented"`},
		"an atomic map":    {apply(`Object{spec: Object.spec{nodeSelector: {"a": "b"}}}`), "may not mutate atomic arrays, maps or structs: .spec.nodeSelector"},
	} {
		pod, err := mutate(t.Context(), mutatingOf("p", test.spec))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
		if len(pod.Labels) != 1 || pod.Namespace != "web" {
			t.Errorf("%s: the pod has changed: %+v", name, pod.ObjectMeta)
		}
	}
}

// TestIgnoredMutations: a policy whose failures are ignored keeps what it has changed before.
func TestIgnoredMutations(t *testing.T) {
	broken := mutatingOf("a", `failurePolicy: Ignore, mutations: [
		{patchType: JSONPatch, jsonPatch: {expression: '[JSONPatch{op: "add", path: "/metadata/labels/first", value: "1"}]'}},
		{patchType: JSONPatch, jsonPatch: {expression: '[JSONPatch{op: "remove", path: "/metadata/labels/none"}]'}}
	]`)
	pod, err := mutate(t.Context(), broken, mutatingOf("b", jsonPatch(`[JSONPatch{op: "add", path: "/metadata/labels/second", value: object.metadata.labels.first}]`)))
	if err != nil || pod.Labels["second"] != "1" {
		t.Errorf("mutate = %v, %v, want the label second=1", pod, err)
	}
}

// TestManyVariables: variables of which each needs the one before are evaluated as deep as the stack surely allows.
func TestManyVariables(t *testing.T) {
	var list []registration.Variable
	for i := range 1010 {
		of := "1"
		if i > 0 {
			of = fmt.Sprintf("variables.v%d + 1", i-1)
		}
		list = append(list, registration.Variable{Name: fmt.Sprint("v", i), Expression: of})
	}
	label := func(last int) string {
		return fmt.Sprintf(`{patchType: JSONPatch, jsonPatch: {expression: '[JSONPatch{op: "add", path: "/metadata/labels/n", value: string(variables.v%d)}]'}}`, last)
	}
	p := mutatingOf("p", "mutations: ["+label(900)+", "+label(1009)+"]")
	p.Spec.Variables = list
	pod, err := mutate(t.Context(), p)
	if err == nil || !strings.Contains(err.Error(), "more than 1000 variables need one another") || pod == nil || pod.Labels["n"] != "901" {
		t.Errorf("mutate = %v, %v, want a pod with the label n=901 and an error with %q",
			pod, err, "more than 1000 variables need one another")
	}
}

// TestRounds: in a second round only policies that may be repeated apply, if anything has changed.
func TestRounds(t *testing.T) {
	counting := func(name, reinvocation string) *registration.MutatingAdmissionPolicy {
		return mutatingOf(name, "reinvocationPolicy: "+reinvocation+", "+jsonPatch(
			`[JSONPatch{op: "add", path: "/metadata/labels/`+name+`", value: has(object.metadata.labels.`+name+`) ? object.metadata.labels.`+name+` + "x" : "x"}]`))
	}
	m, err := newMutator(counting("never", "Never"), counting("needed", "IfNeeded"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(policy.WithRounds(t.Context()))
	done := make(chan error, 1) // one answer
	go func() { done <- m.Run(ctx) }()
	r := request(&seen{})
	if err := m.Mutate(ctx, r); err != nil || !policy.Repeats(ctx) {
		t.Errorf("%v, repeats: %v", err, policy.Repeats(ctx))
	}
	if err := m.Mutate(ctx, r); err != nil || policy.Repeats(ctx) {
		t.Errorf("%v, repeats: %v", err, policy.Repeats(ctx))
	}
	if labels := r.Object.(*corev1.Pod).Labels; labels["never"] != "x" || labels["needed"] != "xx" {
		t.Errorf("two rounds of Mutate give the labels %v, want never=x needed=xx", labels)
	}
	none := request(&seen{})
	none.Operation = admission.Delete
	if err := m.Mutate(ctx, none); err != nil {
		t.Error(err)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestCheckMutations: expressions that do not compile are refused.
func TestCheckMutations(t *testing.T) {
	m, err := newMutator()
	if err != nil {
		t.Fatal(err)
	}
	r := &admission.Request{
		Operation: admission.Create, Kind: admission.GroupVersionKind{Group: registration.GroupName, Version: "v1", Kind: "MutatingAdmissionPolicy"},
		Object: mutatingOf("p", `variables: [{name: v, expression: "1 +"}], matchConditions: [{name: c, expression: "1"}], `+apply(`Object.spec{}`)),
	}
	err = m.Check(t.Context(), r)
	for _, want := range []string{
		`spec.variables[0].expression: Invalid value: "1 +": compilation failed`,
		`spec.matchConditions[0].expression: Invalid value: "1": must evaluate to bool but got int`,
		`spec.mutations[0].applyConfiguration.expression: Invalid value: "Object.spec{}": must evaluate to Object but got Object.spec`,
	} {
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
	r.OldObject = r.Object
	if err := m.Check(t.Context(), r); err != nil {
		t.Errorf("unchanged: %v", err)
	}
}
