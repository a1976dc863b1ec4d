package policy

import (
	"context"
	"strings"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/internal/budget"
	"github.com/planekit/planekit/internal/invalid"
	registration "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Check refuses policies whose expressions do not compile. It implements [admission.Validator] as a function.
func (p *Plugin) Check(ctx context.Context, r *admission.Request) error {
	policy, ok := r.Object.(*registration.ValidatingAdmissionPolicy)
	if !ok || r.Subresource != "" {
		return nil
	}
	if old, ok := r.OldObject.(*registration.ValidatingAdmissionPolicy); ok && equality.Semantic.DeepEqual(old.Spec, policy.Spec) {
		return nil
	}
	problems := p.compiler.check(ctx, &policy.Spec)
	if err := budget.From(ctx).Err(); err != nil {
		return err // problems are not complete
	}
	if len(problems) > 0 {
		return invalid.Object(schema.GroupKind{Group: r.Kind.Group, Kind: r.Kind.Kind}, policy.Name, problems)
	}
	return nil
}

// Check refuses policies whose expressions do not compile. It implements [admission.Validator] as a function.
func (m *Mutator) Check(ctx context.Context, r *admission.Request) error {
	policy, ok := r.Object.(*registration.MutatingAdmissionPolicy)
	if !ok || r.Subresource != "" {
		return nil
	}
	if old, ok := r.OldObject.(*registration.MutatingAdmissionPolicy); ok && equality.Semantic.DeepEqual(old.Spec, policy.Spec) {
		return nil
	}
	p := m.compiler.mutating(ctx, policy)
	c := problems{}
	c.shared(p)
	for i, mutation := range p.mutations {
		of := "applyConfiguration"
		if mutation.patch {
			of = "jsonPatch"
		}
		c.add(field.NewPath("spec", "mutations").Index(i).Child(of, "expression"), mutation.change)
	}
	if err := budget.From(ctx).Err(); err != nil {
		return err
	}
	if len(c.list) > 0 {
		return invalid.Object(schema.GroupKind{Group: r.Kind.Group, Kind: r.Kind.Kind}, policy.Name, c.list)
	}
	return nil
}

// problems collects what is wrong with the expressions of a policy. Another check refuses empty ones.
type problems struct{ list field.ErrorList }

func (c *problems) add(path *field.Path, e expression) {
	if e.err != nil && strings.TrimSpace(e.text) != "" {
		c.list = append(c.list, field.Invalid(path, e.text, e.err.Error()))
	}
}

// shared adds those of the expressions that policies of both kinds have.
func (c *problems) shared(p *policy) {
	path := field.NewPath("spec")
	for i, e := range p.variables {
		c.add(path.Child("variables").Index(i).Child("expression"), e)
	}
	for i, e := range p.conditions {
		c.add(path.Child("matchConditions").Index(i).Child("expression"), e)
	}
}

// check returns what is wrong with the expressions of a policy.
func (c *compiler) check(ctx context.Context, spec *registration.ValidatingAdmissionPolicySpec) field.ErrorList {
	p := c.validating(ctx, &registration.ValidatingAdmissionPolicy{Spec: *spec})
	found, path := problems{}, field.NewPath("spec")
	found.shared(p)
	for i, v := range p.validations {
		found.add(path.Child("validations").Index(i).Child("expression"), v.holds)
		found.add(path.Child("validations").Index(i).Child("messageExpression"), v.message)
	}
	for i, e := range p.annotations {
		found.add(path.Child("auditAnnotations").Index(i).Child("valueExpression"), e)
	}
	return found.list
}
