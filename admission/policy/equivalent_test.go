package policy_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/planekit/planekit/admission"
	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
)

// twoVersions says that pods are also served in v0, and labels what it converts with the version.
type twoVersions struct {
	broken    bool
	converted int
}

func versionOf(name string) admission.Equivalent {
	return admission.Equivalent{
		Resource: admission.GroupVersionResource{Version: name, Resource: "pods"}, Kind: admission.GroupVersionKind{Version: name, Kind: "Pod"},
	}
}

// All implements [admission.Equivalents].
func (*twoVersions) All() []admission.Equivalent { return []admission.Equivalent{versionOf("v0")} }

// Convert implements [admission.Equivalents].
func (v *twoVersions) Convert(_ context.Context, object any, from, to admission.Equivalent) (any, error) {
	if v.converted++; v.broken || from == to {
		return nil, errors.New("cannot convert")
	}
	pod := object.(*corev1.Pod).DeepCopy()
	pod.APIVersion, pod.Kind, pod.Labels["form"] = to.Kind.Version, "Pod", to.Kind.Version
	return pod, nil
}

func equivalentRequest(v *twoVersions) *admission.Request {
	r := request(&seen{})
	r.Equivalents = v
	return r
}

const inV0 = `{apiGroups: [''], apiVersions: [v0], operations: [CREATE], resources: [pods]}`

// TestEquivalent: a policy with a rule for one version sees requests in another as its own.
func TestEquivalent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const equivalent, exact = "matchPolicy: Equivalent, ", "matchPolicy: Exact, "
		const as = `object.apiVersion == "v0" && object.metadata.labels.form == "v0" && request.kind.version == "v0" && request.resource.version == "v0" &&
			request.requestKind.version == "v1" && request.requestResource.version == "v1"`
		policies, bindings := newCache[*registration.ValidatingAdmissionPolicy](), newCache[*registration.ValidatingAdmissionPolicyBinding]()
		p := run(t, policies, bindings)
		for name, test := range map[string]struct {
			match, holds, binding, want string
			converted                   int
		}{
			"equivalent":              {equivalent + "resourceRules: [" + inV0 + "]", as, "", "", 1},
			"denied":                  {equivalent + "resourceRules: [" + inV0 + "]", "!(" + as + ")", "", "failed expression", 1},
			"exact":                   {exact + "resourceRules: [" + inV0 + "]", "false", "", "", 0},
			"another resource":        {equivalent + "resourceRules: [" + strings.Replace(inV0, "pods", "nodes", 1) + "]", "false", "", "", 0},
			"its own version":         {equivalent + "resourceRules: [" + strings.Replace(inV0, "[v0]", "[v0, v1]", 1) + "]", `request.kind.version == "v1"`, "", "", 0},
			"excluded":                {equivalent + "resourceRules: [" + strings.Replace(inV0, "v0", "v1", 1) + "], excludeResourceRules: [" + inV0 + "]", "false", "", "", 0},
			"excluded exactly":        {exact + "resourceRules: [" + strings.Replace(inV0, "v0", "v1", 1) + "], excludeResourceRules: [" + inV0 + "]", "false", "", "failed expression", 0},
			"a binding of its own":    {equivalent + "resourceRules: [" + inV0 + "]", as, ", matchResources: {matchPolicy: Equivalent, resourceRules: [" + inV0 + "]}", "", 1},
			"a binding that is exact": {equivalent + "resourceRules: [" + inV0 + "]", "false", ", matchResources: {matchPolicy: Exact, resourceRules: [" + inV0 + "]}", "", 0},
		} {
			policies.set(read[registration.ValidatingAdmissionPolicy]("metadata: {name: p}\nspec: {matchConstraints: {" + test.match + "}, validations: [{expression: '" + test.holds + "'}]}"))
			bindings.set(bindingOf(denies + test.binding))
			synctest.Wait()
			v := &twoVersions{}
			err := p.Validate(t.Context(), equivalentRequest(v))
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) || v.converted != test.converted {
				t.Errorf("%s: %v after %d conversions", name, err, v.converted)
			}
			const failed = `pods "nginx" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed to configure binding: failed to convert object version: cannot convert`
			if err := p.Validate(t.Context(), equivalentRequest(&twoVersions{broken: true})); test.converted > 0 && (err == nil || err.Error() != failed) {
				t.Errorf("%s: Validate with a conversion that fails = %v, want %s", name, err, failed)
			}
		}
	})
}

// TestEquivalentMutations: each policy changes the object in the version of its rule, and sees what others have changed
// in another one.
func TestEquivalentMutations(t *testing.T) {
	inTurn := func(name, version, expression string) *registration.MutatingAdmissionPolicy {
		return read[registration.MutatingAdmissionPolicy]("metadata: {name: " + name + "}\nspec: {matchConstraints: {matchPolicy: Equivalent, resourceRules: [" +
			strings.Replace(inV0, "v0", version, 1) + "]}, " + jsonPatch(expression) + "}")
	}
	const add = `[JSONPatch{op: "add", path: "/metadata/labels/`
	m, err := newMutator(
		inTurn("a", "v0", add+`a", value: object.metadata.labels.form}]`),
		inTurn("b", "v0", add+`b", value: object.metadata.labels.a + "b"}]`),
		inTurn("c", "v1", add+`c", value: object.metadata.labels.form + object.metadata.labels.b}]`),
		inTurn("d", "v0", add+`d", value: object.metadata.labels.form + object.metadata.labels.c}]`),
	)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1) // one answer
	go func() { done <- m.Run(ctx) }()
	v := &twoVersions{}
	r := equivalentRequest(v)
	err = m.Mutate(ctx, r)
	labels := r.Object.(*corev1.Pod).Labels
	if err != nil || r.Kind.Version != "v1" || labels["form"] != "v1" || labels["a"] != "v0" || labels["b"] != "v0b" || labels["c"] != "v1v0b" || labels["d"] != "v0v1v0b" {
		t.Errorf("Mutate = %v with version %s and labels %v, want nil, v1 and form=v1 a=v0 b=v0b c=v1v0b d=v0v1v0b",
			err, r.Kind.Version, labels)
	}
	if v.converted != 5 { // twice to v0, and three times back
		t.Errorf("%d conversions", v.converted)
	}
	err = m.Mutate(ctx, equivalentRequest(&twoVersions{broken: true}))
	if err == nil || !strings.Contains(err.Error(), `policy "a" denied request: failed to configure policy: cannot convert`) {
		t.Error(err)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
