package policy_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/planekit/planekit/admission/policy"
	"github.com/planekit/planekit/internal/budget"
	registration "k8s.io/api/admissionregistration/v1"
)

// TestPoliciesByParameters: a request that the budget does not cover is refused, also by policies whose failures are
// ignored, before all policies, bindings and parameters are multiplied.
func TestPoliciesByParameters(t *testing.T) {
	ignoring := policyOf("failurePolicy: Ignore, paramKind: {apiVersion: v1, kind: ConfigMap}, validations: [{expression: 'true'}]")
	var bindings []*registration.ValidatingAdmissionPolicyBinding
	for i := range 100 {
		b := bindingOf(denies + ", paramRef: {selector: {}, parameterNotFoundAction: Deny}")
		b.Name = fmt.Sprint("b", i)
		bindings = append(bindings, b)
	}
	p := start(t, []*registration.ValidatingAdmissionPolicy{ignoring}, bindings)
	if err := p.Validate(t.Context(), request(&seen{})); err != nil {
		t.Errorf("Validate() with 100 bindings and the default budget = %v, want nil", err)
	}
	ctx := budget.Attach(t.Context(), budget.Limits{Steps: 20_000, Bytes: 1 << 20})
	if err := p.Validate(ctx, request(&seen{})); !errors.Is(err, budget.ErrExceeded) {
		t.Errorf("Validate() with 100 bindings and 20,000 steps = %v, want ErrExceeded", err)
	}
}

// TestAnnotationsByParameters: the values of audit annotations count.
func TestAnnotationsByParameters(t *testing.T) {
	annotating := policyOf(`validations: [{expression: 'true'}], auditAnnotations: [{key: k, valueExpression: '"0123456789".replace("", "0123456789")'}]`)
	p := start(t, []*registration.ValidatingAdmissionPolicy{annotating}, []*registration.ValidatingAdmissionPolicyBinding{bindingOf(denies)})
	ctx := budget.Attach(t.Context(), budget.Limits{Steps: 1_000_000, Bytes: 100})
	if err := p.Validate(ctx, request(&seen{})); !errors.Is(err, budget.ErrExceeded) {
		t.Errorf("Validate() with an annotation of 120 bytes and a budget of 100 = %v, want ErrExceeded", err)
	}
}

// TestMutationsByBytes: each change costs what the object has bytes.
func TestMutationsByBytes(t *testing.T) {
	p := mutatingOf("p", jsonPatch(`[JSONPatch{op: "add", path: "/metadata/labels/a", value: "b"}]`))
	if _, err := mutate(t.Context(), p); err != nil {
		t.Errorf("a change within the default budget = %v, want nil", err)
	}
	ctx := budget.Attach(policy.WithRounds(t.Context()), budget.Limits{Steps: 1000, Bytes: 1 << 20})
	if _, err := mutate(ctx, p); err == nil || budget.From(ctx).Err() == nil {
		t.Errorf("a change beyond the budget = %v, and the budget says %v, want errors", err, budget.From(ctx).Err())
	}
}
