package admissionregistration

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	"github.com/planekit/planekit/kinds"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Limits of a policy's audit annotations: how many, and how long in bytes.
const (
	maxAuditAnnotations = 20
	maxAuditExpression  = 5 << 10
)

// ValidatingAdmissionPolicies returns the resource of the kind ValidatingAdmissionPolicy. Package
// admission/policy compiles and evaluates its expressions.
func ValidatingAdmissionPolicies() apiserver.Resource {
	type policy = admissionv1.ValidatingAdmissionPolicy
	return apiserver.For(kinds.ValidatingAdmissionPolicies, apiserver.Resource{
		Conditional: true,
		Versions:    define.Formerly(kinds.ValidatingAdmissionPolicies, "v1beta1"),
		Strategy: define.Strategy[*policy]{
			Counted: func(p *policy) any { return &p.Spec },
			Default: func(p *policy) {
				optional.SetIfNil(&p.Spec.FailurePolicy, admissionv1.Fail)
				completeMatch(p.Spec.MatchConstraints)
			},
			Create:         func(p *policy) { p.Status = admissionv1.ValidatingAdmissionPolicyStatus{} },
			Update:         func(p, old *policy) { old.Status.DeepCopyInto(&p.Status) },
			Validate:       validateAdmissionPolicy,
			ValidateUpdate: func(p, _ *policy) field.ErrorList { return validateAdmissionPolicy(p) },
		}.Erase(),
		Columns: []apiserver.Column{
			column.Number("Validations", "Validations indicates the number of validation rules defined in this configuration",
				func(p *policy) int64 { return int64(len(p.Spec.Validations)) }),
			column.Text("ParamKind", "ParamKind specifies the kind of resources used to parameterize this policy",
				func(p *policy) string { return paramKind(p.Spec.ParamKind) }),
			column.Age[*policy](),
		},
		Subresources: []apiserver.Subresource{
			define.Status(define.Strategy[*policy]{
				Update: func(p, old *policy) {
					old.Spec.DeepCopyInto(&p.Spec)
					metav1.ResetObjectMetaForStatus(&p.ObjectMeta, &old.ObjectMeta)
				},
				ValidateUpdate: func(p, _ *policy) field.ErrorList { return validateAdmissionPolicyStatus(p) },
			}, "spec", "metadata"),
		},
	})
}

// unset is how tables show what is not set.
const unset = "<unset>"

func paramKind(k *admissionv1.ParamKind) string {
	if k == nil {
		return unset
	}
	return k.APIVersion + "/" + k.Kind
}

func paramRef(ref *admissionv1.ParamRef) string {
	switch {
	case ref == nil:
	case ref.Name != "" && ref.Namespace != "":
		return ref.Namespace + "/" + ref.Name
	case ref.Name != "":
		return "*/" + ref.Name
	case ref.Selector != nil:
		return ref.Selector.String()
	}
	return unset
}

func completeMatch(m *admissionv1.MatchResources) {
	if m == nil {
		return
	}
	optional.SetIfNil(&m.MatchPolicy, admissionv1.Equivalent)
	optional.SetIfNil(&m.NamespaceSelector, metav1.LabelSelector{})
	optional.SetIfNil(&m.ObjectSelector, metav1.LabelSelector{})
	for _, list := range [][]admissionv1.NamedRuleWithOperations{m.ResourceRules, m.ExcludeResourceRules} {
		for i := range list {
			optional.SetIfNil(&list[i].Scope, admissionv1.AllScopes)
		}
	}
}

func validateAdmissionPolicy(policy *admissionv1.ValidatingAdmissionPolicy) field.ErrorList {
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
	}
	checkMatchConditions(&ps, p.Child("matchConditions"), spec.MatchConditions)
	checkVariables(&ps, p.Child("variables"), spec.Variables)
	if len(spec.Validations)+len(spec.AuditAnnotations) == 0 {
		const message = "validations or auditAnnotations must contain at least one item"
		ps.Add(field.Required(p.Child("validations"), message), field.Required(p.Child("auditAnnotations"), message))
	}
	for i := range spec.Validations {
		checkRule(&ps, p.Child("validations").Index(i), &spec.Validations[i])
	}
	checkAuditAnnotations(&ps, p.Child("auditAnnotations"), policy.Name, spec.AuditAnnotations)
	return ps.List
}

func checkVariables(ps *check.Problems, p *field.Path, list []admissionv1.Variable) {
	for i, v := range list {
		at := p.Index(i)
		if strings.TrimSpace(v.Name) == "" {
			ps.Add(field.Required(at.Child("name"), "name is not specified"))
		} else {
			ps.Valid(isIdentifier(v.Name), at.Child("name"), v.Name, "must be a valid CEL identifier")
		}
		ps.Present(strings.TrimSpace(v.Expression) != "", at.Child("expression"), "expression is not specified")
	}
}

var (
	identifier = regexp.MustCompile(`^[_a-zA-Z][_a-zA-Z0-9]*$`)
	reserved   = strings.Fields("true false null in as break const continue else for function if import let loop package namespace return var void while")
)

// isIdentifier reports whether an expression can use the name.
func isIdentifier(name string) bool {
	return identifier.MatchString(name) && !slices.Contains(reserved, name)
}

func checkParamKind(ps *check.Problems, p *field.Path, k *admissionv1.ParamKind) {
	at := p.Child("apiVersion")
	group, version, ok := strings.Cut(k.APIVersion, "/")
	if !ok {
		group, version = "", k.APIVersion
	}
	switch {
	case k.APIVersion == "":
		ps.Add(field.Required(at, ""))
	case strings.Contains(version, "/"):
		ps.Add(field.Invalid(at, k.APIVersion, "unexpected GroupVersion string: "+k.APIVersion))
	default:
		if group != "" {
			joinedMessages(ps, at, group, "", validation.IsDNS1123Subdomain(group))
		}
		if version == "" {
			ps.Add(field.Invalid(at, k.APIVersion, "version must be specified"))
		} else {
			joinedMessages(ps, at, version, "", validation.IsDNS1035Label(version))
		}
	}
	if ps.Required(p.Child("kind"), k.Kind) {
		joinedMessages(ps, p.Child("kind"), k.Kind, "may have mixed case, but should otherwise match: ", validation.IsDNS1035Label(strings.ToLower(k.Kind)))
	}
}

func joinedMessages(ps *check.Problems, p *field.Path, value, before string, messages []string) {
	if len(messages) > 0 {
		ps.Add(field.Invalid(p, value, before+strings.Join(messages, ",")))
	}
}

func checkMatch(ps *check.Problems, p *field.Path, m *admissionv1.MatchResources) {
	check.OneOf(ps, p.Child("matchPolicy"), optional.Deref(m.MatchPolicy), admissionv1.Equivalent, admissionv1.Exact)
	ps.Selector(p.Child("namespaceSelector"), m.NamespaceSelector)
	ps.Selector(p.Child("objectSelector"), m.ObjectSelector)
	for _, list := range []struct {
		path  string
		rules []admissionv1.NamedRuleWithOperations
	}{{"resourceRules", m.ResourceRules}, {"excludeResourceRules", m.ExcludeResourceRules}} {
		for i := range list.rules {
			rule, at := &list.rules[i], p.Child(list.path).Index(i)
			seen := check.Seen[string]{}
			for j, name := range rule.ResourceNames {
				ps.Each(at.Child("resourceNames").Index(j), name, content.IsPathSegmentName(name))
				ps.Unique(!seen.Again(name), at.Child("resourceNames").Index(j), name)
			}
			checkOperations(ps, at, &rule.RuleWithOperations)
		}
	}
}

func checkRule(ps *check.Problems, p *field.Path, v *admissionv1.Validation) {
	ps.Present(strings.TrimSpace(v.Expression) != "", p.Child("expression"), "expression is not specified")
	ps.Valid(v.MessageExpression == "" || strings.TrimSpace(v.MessageExpression) != "",
		p.Child("messageExpression"), v.MessageExpression, "must be non-empty if specified")
	message := strings.TrimSpace(v.Message)
	ps.Valid(v.Message == "" || message != "", p.Child("message"), v.Message, "must be non-empty if specified")
	ps.Valid(!strings.ContainsAny(message, "\r\n"), p.Child("message"), v.Message, "must not contain line breaks")
	if v.Reason != nil {
		check.OneOf(ps, p.Child("reason"), *v.Reason, metav1.StatusReasonForbidden, metav1.StatusReasonInvalid, metav1.StatusReasonRequestEntityTooLarge)
	}
}

func checkAuditAnnotations(ps *check.Problems, p *field.Path, name string, list []admissionv1.AuditAnnotation) {
	ps.Valid(len(list) <= maxAuditAnnotations, p, list, fmt.Sprintf("must not have more than %d auditAnnotations", maxAuditAnnotations))
	seen := map[string]bool{}
	for i, a := range list {
		at := p.Index(i)
		if name == "" {
			ps.Add(field.Invalid(at.Child("key"), a.Key, "requires metadata.name be non-empty"))
		} else {
			ps.Each(at.Child("key"), name+"/"+a.Key, validation.IsQualifiedName(name+"/"+a.Key))
		}
		ps.Present(strings.TrimSpace(a.ValueExpression) != "", at.Child("valueExpression"), "valueExpression is not specified")
		ps.Present(len(a.ValueExpression) <= maxAuditExpression, at.Child("valueExpression"), fmt.Sprintf("must not exceed %d bytes in length", maxAuditExpression))
		ps.Unique(!seen[a.Key], at.Child("key"), a.Key)
		seen[a.Key] = true
	}
}

func validateAdmissionPolicyStatus(policy *admissionv1.ValidatingAdmissionPolicy) field.ErrorList {
	var ps check.Problems
	p, s := field.NewPath("status"), &policy.Status
	if s.TypeChecking != nil {
		for i, w := range s.TypeChecking.ExpressionWarnings {
			at := p.Child("typeChecking", "expressionWarnings").Index(i)
			ps.Required(at.Child("warning"), w.Warning)
			ps.Required(at.Child("fieldRef"), strings.TrimSpace(w.FieldRef))
		}
	}
	ps.All(metavalidation.ValidateConditions(s.Conditions, p.Child("conditions")))
	return ps.List
}

// ValidatingAdmissionPolicyBindings returns the resource of the kind ValidatingAdmissionPolicyBinding.
func ValidatingAdmissionPolicyBindings() apiserver.Resource {
	type binding = admissionv1.ValidatingAdmissionPolicyBinding
	return apiserver.For(kinds.ValidatingAdmissionPolicyBindings, apiserver.Resource{
		Conditional: true,
		Versions:    define.Formerly(kinds.ValidatingAdmissionPolicyBindings, "v1beta1"),
		Strategy: define.Strategy[*binding]{
			Counted:        func(b *binding) any { return &b.Spec },
			Default:        func(b *binding) { completeMatch(b.Spec.MatchResources) },
			Validate:       validateAdmissionBinding,
			ValidateUpdate: func(b, _ *binding) field.ErrorList { return validateAdmissionBinding(b) },
		}.Erase(),
		Columns: []apiserver.Column{
			column.Text("PolicyName", "PolicyName indicates the policy definition which the policy binding binded to",
				func(b *binding) string { return b.Spec.PolicyName }),
			column.Text("ParamRef", "ParamRef indicates the param resource which sets the configration param",
				func(b *binding) string { return paramRef(b.Spec.ParamRef) }),
			column.Age[*binding](),
		},
	})
}

// checkBinding checks what the bindings of validating and of mutating policies share.
func checkBinding(ps *check.Problems, p *field.Path, policy string, params *admissionv1.ParamRef, match *admissionv1.MatchResources) {
	ps.Named(p.Child("policyName"), policy)
	if params != nil {
		checkParamRef(ps, p.Child("paramRef"), params)
	}
	if match != nil {
		checkMatch(ps, p.Child("matchResources"), match)
	}
}

func validateAdmissionBinding(b *admissionv1.ValidatingAdmissionPolicyBinding) field.ErrorList {
	var ps check.Problems
	p, spec := field.NewPath("spec"), &b.Spec
	checkBinding(&ps, p, spec.PolicyName, spec.ParamRef, spec.MatchResources)
	at, actions := p.Child("validationActions"), spec.ValidationActions
	for i, action := range actions {
		check.OneOf(&ps, at.Index(i), action, admissionv1.Audit, admissionv1.Deny, admissionv1.Warn)
		ps.Unique(!slices.Contains(actions[:i], action), at.Index(i), action)
	}
	ps.Valid(!slices.Contains(actions, admissionv1.Deny) || !slices.Contains(actions, admissionv1.Warn), at, actions,
		"must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)")
	ps.Present(len(actions) > 0, at, "at least one validation action is required")
	return ps.List
}

func checkParamRef(ps *check.Problems, p *field.Path, ref *admissionv1.ParamRef) {
	const message = "name and selector are mutually exclusive"
	if ref.Name != "" {
		ps.Each(p.Child("name"), ref.Name, content.IsPathSegmentName(ref.Name))
		ps.Allowed(ref.Selector == nil, p.Child("name"), message)
	}
	if ref.Selector != nil {
		ps.Selector(p.Child("selector"), ref.Selector)
		ps.Allowed(ref.Name == "", p.Child("selector"), message)
	}
	ps.Present(ref.Name != "" || ref.Selector != nil, p, "one of name or selector must be specified")
	check.RequiredOneOf(ps, p.Child("parameterNotFoundAction"), optional.Deref(ref.ParameterNotFoundAction), admissionv1.DenyAction, admissionv1.AllowAction)
}
