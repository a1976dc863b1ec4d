package policy

import (
	"context"
	"strings"

	"github.com/planekit/planekit/admission"
	registration "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Check refuses policies whose expressions do not compile. It implements [admission.Validator] as a function.
func (p *Plugin) Check(_ context.Context, r *admission.Request) error {
	policy, ok := r.Object.(*registration.ValidatingAdmissionPolicy)
	if !ok || r.Subresource != "" {
		return nil
	}
	if old, ok := r.OldObject.(*registration.ValidatingAdmissionPolicy); ok && equality.Semantic.DeepEqual(old.Spec, policy.Spec) {
		return nil
	}
	if problems := p.compiler.check(&policy.Spec); len(problems) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Group: r.Kind.Group, Kind: r.Kind.Kind}, policy.Name, problems)
	}
	return nil
}

// check returns what is wrong with the expressions of a policy. Another check refuses empty ones.
func (c *compiler) check(spec *registration.ValidatingAdmissionPolicySpec) field.ErrorList {
	var problems field.ErrorList
	add := func(path *field.Path, e expression) {
		if e.err != nil && strings.TrimSpace(e.text) != "" {
			problems = append(problems, field.Invalid(path, e.text, e.err.Error()))
		}
	}
	path := field.NewPath("spec")
	p := c.policy(&registration.ValidatingAdmissionPolicy{Spec: *spec})
	for i, e := range p.variables {
		add(path.Child("variables").Index(i).Child("expression"), e)
	}
	for i, e := range p.conditions {
		add(path.Child("matchConditions").Index(i).Child("expression"), e)
	}
	for i, v := range p.validations {
		add(path.Child("validations").Index(i).Child("expression"), v.holds)
		add(path.Child("validations").Index(i).Child("messageExpression"), v.message)
	}
	for i, e := range p.annotations {
		add(path.Child("auditAnnotations").Index(i).Child("valueExpression"), e)
	}
	return problems
}
