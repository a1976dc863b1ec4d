package admissionregistration

import (
	"strings"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	"github.com/planekit/planekit/kinds"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// MutatingAdmissionPolicies returns the resource of the kind MutatingAdmissionPolicy. Package
// admission/policy compiles and evaluates its expressions.
func MutatingAdmissionPolicies() apiserver.Resource {
	type policy = admissionv1.MutatingAdmissionPolicy
	return apiserver.For(kinds.MutatingAdmissionPolicies, apiserver.Resource{
		Conditional: true,
		Versions:    define.Formerly(kinds.MutatingAdmissionPolicies, "v1beta1"),
		Strategy: define.Strategy[*policy]{
			Counted: func(p *policy) any { return &p.Spec },
			Default: func(p *policy) {
				optional.SetIfNil(&p.Spec.FailurePolicy, admissionv1.Fail)
				completeMatch(p.Spec.MatchConstraints)
			},
			Validate:       validateMutatingPolicy,
			ValidateUpdate: func(p, _ *policy) field.ErrorList { return validateMutatingPolicy(p) },
		}.Erase(),
		Columns: []apiserver.Column{
			column.Number("Mutations", "Mutation indicates the number of mutations rules defined in this configuration",
				func(p *policy) int64 { return int64(len(p.Spec.Mutations)) }),
			column.Text("ParamKind", "ParamKind specifies the kind of resources used to parameterize this policy",
				func(p *policy) string { return paramKind(p.Spec.ParamKind) }),
			column.Age[*policy](),
		},
	})
}

func validateMutatingPolicy(policy *admissionv1.MutatingAdmissionPolicy) field.ErrorList {
	var ps check.Problems
	p, spec := field.NewPath("spec"), &policy.Spec
	check.OneOf(&ps, p.Child("failurePolicy"), optional.Deref(spec.FailurePolicy), admissionv1.Fail, admissionv1.Ignore)
	if spec.ParamKind != nil {
		checkParamKind(&ps, p.Child("paramKind"), spec.ParamKind)
	}
	match := p.Child("matchConstraints")
	if spec.MatchConstraints == nil {
		ps.Add(field.Required(match, ""))
	} else {
		checkMatch(&ps, match, spec.MatchConstraints)
		ps.Present(len(spec.MatchConstraints.ResourceRules) > 0, match.Child("resourceRules"), "")
		checkMutatingOperations(&ps, match, spec.MatchConstraints)
	}
	checkMatchConditions(&ps, p.Child("matchConditions"), spec.MatchConditions)
	checkVariables(&ps, p.Child("variables"), spec.Variables)
	ps.Present(len(spec.Mutations) > 0, p.Child("mutations"), "mutations must contain at least one item")
	for i := range spec.Mutations {
		checkMutation(&ps, p.Child("mutations").Index(i), &spec.Mutations[i])
	}
	check.RequiredOneOf(&ps, p.Child("reinvocationPolicy"), spec.ReinvocationPolicy,
		admissionv1.IfNeededReinvocationPolicy, admissionv1.NeverReinvocationPolicy)
	return ps.List
}

// checkMutatingOperations refuses rules about deletions, which have no object to mutate.
func checkMutatingOperations(ps *check.Problems, p *field.Path, m *admissionv1.MatchResources) {
	for i := range m.ResourceRules {
		for _, op := range m.ResourceRules[i].Operations {
			check.OneOf(ps, p.Child("resourceRules", "operations"), op,
				admissionv1.OperationAll, admissionv1.Connect, admissionv1.Create, admissionv1.Update)
		}
	}
}

func checkMutation(ps *check.Problems, p *field.Path, m *admissionv1.Mutation) {
	const whenApply, whenPatch = "specified when patchType is ApplyConfiguration", "specified when patchType is JSONPatch"
	switch m.PatchType {
	case admissionv1.PatchTypeJSONPatch:
		if m.JSONPatch == nil {
			ps.Add(field.Required(p.Child("jsonPatch"), "must be "+whenPatch))
		} else {
			ps.Required(p.Child("jsonPatch", "expression"), strings.TrimSpace(m.JSONPatch.Expression))
		}
		ps.Valid(m.ApplyConfiguration == nil, p.Child("applyConfiguration"), "{applyConfiguration}", "must not be "+whenPatch)
	case admissionv1.PatchTypeApplyConfiguration:
		if m.ApplyConfiguration == nil {
			ps.Add(field.Required(p.Child("applyConfiguration"), "must be "+whenApply))
		} else {
			ps.Required(p.Child("applyConfiguration", "expression"), strings.TrimSpace(m.ApplyConfiguration.Expression))
		}
		ps.Valid(m.JSONPatch == nil, p.Child("jsonPatch"), "{jsonPatch}", "must not be "+whenApply)
	default:
		check.RequiredOneOf(ps, p.Child("patchType"), m.PatchType, admissionv1.PatchTypeApplyConfiguration, admissionv1.PatchTypeJSONPatch)
	}
}

// MutatingAdmissionPolicyBindings returns the resource of the kind MutatingAdmissionPolicyBinding.
func MutatingAdmissionPolicyBindings() apiserver.Resource {
	type binding = admissionv1.MutatingAdmissionPolicyBinding
	return apiserver.For(kinds.MutatingAdmissionPolicyBindings, apiserver.Resource{
		Conditional: true,
		Versions:    define.Formerly(kinds.MutatingAdmissionPolicyBindings, "v1beta1"),
		Strategy: define.Strategy[*binding]{
			Counted:        func(b *binding) any { return &b.Spec },
			Default:        func(b *binding) { completeMatch(b.Spec.MatchResources) },
			Validate:       validateMutatingBinding,
			ValidateUpdate: func(b, _ *binding) field.ErrorList { return validateMutatingBinding(b) },
		}.Erase(),
		Columns: []apiserver.Column{
			column.Text("PolicyName", "PolicyName indicates the policy definition which the policy binding binded to",
				func(b *binding) string { return b.Spec.PolicyName }),
			column.Text("ParamRef", "ParamRef indicates the param resource which sets the configuration param",
				func(b *binding) string { return paramRef(b.Spec.ParamRef) }),
			column.Age[*binding](),
		},
	})
}

func validateMutatingBinding(b *admissionv1.MutatingAdmissionPolicyBinding) field.ErrorList {
	var ps check.Problems
	p, spec := field.NewPath("spec"), &b.Spec
	checkBinding(&ps, p, spec.PolicyName, spec.ParamRef, spec.MatchResources)
	if spec.MatchResources != nil {
		checkMutatingOperations(&ps, p.Child("matchResources"), spec.MatchResources)
	}
	return ps.List
}
