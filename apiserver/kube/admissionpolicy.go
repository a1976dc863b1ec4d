package kube

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/planekit/planekit/apiserver"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Limits of a policy's audit annotations: how many, and how long in bytes.
const (
	maxAuditAnnotations = 20
	maxAuditExpression  = 5 << 10
)

// admissionPolicies are stored and checked but for whether their expressions
// mean something. Nothing here evaluates them.
func admissionPolicies() apiserver.Resource {
	type policy = admissionv1.ValidatingAdmissionPolicy
	return apiserver.Resource{
		Group:   admissionv1.GroupName,
		Version: "v1",
		Kind:    "ValidatingAdmissionPolicy",
		Plural:  "validatingadmissionpolicies",
		New:     func() runtime.Object { return &policy{} },
		NewList: func() runtime.Object { return &admissionv1.ValidatingAdmissionPolicyList{} },
		Strategy: strategy[*policy]{
			complete: func(p *policy) {
				setIfNil(&p.Spec.FailurePolicy, admissionv1.Fail)
				completeMatch(p.Spec.MatchConstraints)
			},
			create: func(p *policy) {
				p.Status = admissionv1.ValidatingAdmissionPolicyStatus{}
				p.Generation = 1
			},
			update: func(p, old *policy) {
				old.Status.DeepCopyInto(&p.Status)
				p.Generation = nextGeneration(old.Generation, differ(&p.Spec, &old.Spec))
			},
			validate:       validateAdmissionPolicy,
			validateUpdate: func(p, _ *policy) field.ErrorList { return validateAdmissionPolicy(p) },
		}.erase(),
		Columns: []apiserver.Column{
			number("Validations", "Validations indicates the number of validation rules defined in this configuration",
				func(p *policy) int64 { return int64(len(p.Spec.Validations)) }),
			text("ParamKind", "ParamKind specifies the kind of resources used to parameterize this policy", func(p *policy) string {
				if p.Spec.ParamKind == nil {
					return "<unset>"
				}
				return p.Spec.ParamKind.APIVersion + "/" + p.Spec.ParamKind.Kind
			}),
			age[*policy](),
		},
		Subresources: []apiserver.Subresource{
			status(strategy[*policy]{
				update: func(p, old *policy) {
					old.Spec.DeepCopyInto(&p.Spec)
					metav1.ResetObjectMetaForStatus(&p.ObjectMeta, &old.ObjectMeta)
				},
				validateUpdate: func(p, _ *policy) field.ErrorList { return validateAdmissionPolicyStatus(p) },
			}, "spec", "metadata"),
		},
	}
}

func completeMatch(m *admissionv1.MatchResources) {
	if m == nil {
		return
	}
	setIfNil(&m.MatchPolicy, admissionv1.Equivalent)
	setIfNil(&m.NamespaceSelector, metav1.LabelSelector{})
	setIfNil(&m.ObjectSelector, metav1.LabelSelector{})
	for _, list := range [][]admissionv1.NamedRuleWithOperations{m.ResourceRules, m.ExcludeResourceRules} {
		for i := range list {
			setIfNil(&list[i].Scope, admissionv1.AllScopes)
		}
	}
}

func validateAdmissionPolicy(policy *admissionv1.ValidatingAdmissionPolicy) field.ErrorList {
	var ps problems
	p, spec := field.NewPath("spec"), &policy.Spec
	oneOf(&ps, p.Child("failurePolicy"), deref(spec.FailurePolicy), admissionv1.Fail, admissionv1.Ignore)
	if spec.ParamKind != nil {
		checkParamKind(&ps, p.Child("paramKind"), spec.ParamKind)
	}
	match := p.Child("matchConstraints")
	if spec.MatchConstraints == nil {
		ps.add(field.Required(match, ""))
	} else {
		checkMatch(&ps, match, spec.MatchConstraints)
		ps.present(len(spec.MatchConstraints.ResourceRules) > 0, match.Child("resourceRules"), "")
	}
	checkMatchConditions(&ps, p.Child("matchConditions"), spec.MatchConditions)
	for i, v := range spec.Variables {
		at := p.Child("variables").Index(i)
		if strings.TrimSpace(v.Name) == "" {
			ps.add(field.Required(at.Child("name"), "name is not specified"))
		} else {
			ps.valid(isIdentifier(v.Name), at.Child("name"), v.Name, "must be a valid CEL identifier")
		}
		ps.present(strings.TrimSpace(v.Expression) != "", at.Child("expression"), "expression is not specified")
	}
	if len(spec.Validations)+len(spec.AuditAnnotations) == 0 {
		const message = "validations or auditAnnotations must contain at least one item"
		ps.add(field.Required(p.Child("validations"), message), field.Required(p.Child("auditAnnotations"), message))
	}
	for i := range spec.Validations {
		checkRule(&ps, p.Child("validations").Index(i), &spec.Validations[i])
	}
	checkAuditAnnotations(&ps, p.Child("auditAnnotations"), policy.Name, spec.AuditAnnotations)
	return ps.list
}

var (
	identifier = regexp.MustCompile(`^[_a-zA-Z][_a-zA-Z0-9]*$`)
	reserved   = strings.Fields("true false null in as break const continue else for function if import let loop package namespace return var void while")
)

// isIdentifier reports whether an expression can use the name.
func isIdentifier(name string) bool {
	return identifier.MatchString(name) && !slices.Contains(reserved, name)
}

func checkParamKind(ps *problems, p *field.Path, k *admissionv1.ParamKind) {
	at := p.Child("apiVersion")
	group, version, ok := strings.Cut(k.APIVersion, "/")
	if !ok {
		group, version = "", k.APIVersion
	}
	switch {
	case k.APIVersion == "":
		ps.add(field.Required(at, ""))
	case strings.Contains(version, "/"):
		ps.add(field.Invalid(at, k.APIVersion, "unexpected GroupVersion string: "+k.APIVersion))
	default:
		if group != "" {
			joinedMessages(ps, at, group, "", validation.IsDNS1123Subdomain(group))
		}
		if version == "" {
			ps.add(field.Invalid(at, k.APIVersion, "version must be specified"))
		} else {
			joinedMessages(ps, at, version, "", validation.IsDNS1035Label(version))
		}
	}
	if ps.required(p.Child("kind"), k.Kind) {
		joinedMessages(ps, p.Child("kind"), k.Kind, "may have mixed case, but should otherwise match: ", validation.IsDNS1035Label(strings.ToLower(k.Kind)))
	}
}

func joinedMessages(ps *problems, p *field.Path, value, before string, messages []string) {
	if len(messages) > 0 {
		ps.add(field.Invalid(p, value, before+strings.Join(messages, ",")))
	}
}

func checkMatch(ps *problems, p *field.Path, m *admissionv1.MatchResources) {
	oneOf(ps, p.Child("matchPolicy"), deref(m.MatchPolicy), admissionv1.Equivalent, admissionv1.Exact)
	ps.selector(p.Child("namespaceSelector"), m.NamespaceSelector)
	ps.selector(p.Child("objectSelector"), m.ObjectSelector)
	for _, list := range []struct {
		path  string
		rules []admissionv1.NamedRuleWithOperations
	}{{"resourceRules", m.ResourceRules}, {"excludeResourceRules", m.ExcludeResourceRules}} {
		for i := range list.rules {
			rule, at := &list.rules[i], p.Child(list.path).Index(i)
			for j, name := range rule.ResourceNames {
				ps.each(at.Child("resourceNames").Index(j), name, content.IsPathSegmentName(name))
				ps.unique(!slices.Contains(rule.ResourceNames[:j], name), at.Child("resourceNames").Index(j), name)
			}
			checkOperations(ps, at, &rule.RuleWithOperations)
		}
	}
}

func checkRule(ps *problems, p *field.Path, v *admissionv1.Validation) {
	ps.present(strings.TrimSpace(v.Expression) != "", p.Child("expression"), "expression is not specified")
	ps.valid(v.MessageExpression == "" || strings.TrimSpace(v.MessageExpression) != "",
		p.Child("messageExpression"), v.MessageExpression, "must be non-empty if specified")
	message := strings.TrimSpace(v.Message)
	ps.valid(v.Message == "" || message != "", p.Child("message"), v.Message, "must be non-empty if specified")
	ps.valid(!strings.ContainsAny(message, "\r\n"), p.Child("message"), v.Message, "must not contain line breaks")
	if v.Reason != nil {
		oneOf(ps, p.Child("reason"), *v.Reason, metav1.StatusReasonForbidden, metav1.StatusReasonInvalid, metav1.StatusReasonRequestEntityTooLarge)
	}
}

func checkAuditAnnotations(ps *problems, p *field.Path, name string, list []admissionv1.AuditAnnotation) {
	ps.valid(len(list) <= maxAuditAnnotations, p, list, fmt.Sprintf("must not have more than %d auditAnnotations", maxAuditAnnotations))
	seen := map[string]bool{}
	for i, a := range list {
		at := p.Index(i)
		if name == "" {
			ps.add(field.Invalid(at.Child("key"), a.Key, "requires metadata.name be non-empty"))
		} else {
			ps.each(at.Child("key"), name+"/"+a.Key, validation.IsQualifiedName(name+"/"+a.Key))
		}
		ps.present(strings.TrimSpace(a.ValueExpression) != "", at.Child("valueExpression"), "valueExpression is not specified")
		ps.present(len(a.ValueExpression) <= maxAuditExpression, at.Child("valueExpression"), fmt.Sprintf("must not exceed %d bytes in length", maxAuditExpression))
		ps.unique(!seen[a.Key], at.Child("key"), a.Key)
		seen[a.Key] = true
	}
}

func validateAdmissionPolicyStatus(policy *admissionv1.ValidatingAdmissionPolicy) field.ErrorList {
	var ps problems
	p, s := field.NewPath("status"), &policy.Status
	if s.TypeChecking != nil {
		for i, w := range s.TypeChecking.ExpressionWarnings {
			at := p.Child("typeChecking", "expressionWarnings").Index(i)
			ps.required(at.Child("warning"), w.Warning)
			ps.required(at.Child("fieldRef"), strings.TrimSpace(w.FieldRef))
		}
	}
	ps.all(metavalidation.ValidateConditions(s.Conditions, p.Child("conditions")))
	return ps.list
}

func admissionPolicyBindings() apiserver.Resource {
	type binding = admissionv1.ValidatingAdmissionPolicyBinding
	return apiserver.Resource{
		Group:   admissionv1.GroupName,
		Version: "v1",
		Kind:    "ValidatingAdmissionPolicyBinding",
		Plural:  "validatingadmissionpolicybindings",
		New:     func() runtime.Object { return &binding{} },
		NewList: func() runtime.Object { return &admissionv1.ValidatingAdmissionPolicyBindingList{} },
		Strategy: strategy[*binding]{
			complete: func(b *binding) { completeMatch(b.Spec.MatchResources) },
			create:   func(b *binding) { b.Generation = 1 },
			update: func(b, old *binding) {
				b.Generation = nextGeneration(old.Generation, differ(&b.Spec, &old.Spec))
			},
			validate:       validateAdmissionBinding,
			validateUpdate: func(b, _ *binding) field.ErrorList { return validateAdmissionBinding(b) },
		}.erase(),
		Columns: []apiserver.Column{
			text("PolicyName", "PolicyName indicates the policy definition which the policy binding binded to",
				func(b *binding) string { return b.Spec.PolicyName }),
			text("ParamRef", "ParamRef indicates the param resource which sets the configration param", func(b *binding) string {
				ref := b.Spec.ParamRef
				switch {
				case ref == nil:
					return "<unset>"
				case ref.Name != "" && ref.Namespace != "":
					return ref.Namespace + "/" + ref.Name
				case ref.Name != "":
					return "*/" + ref.Name
				case ref.Selector != nil:
					return ref.Selector.String()
				}
				return "<unset>"
			}),
			age[*binding](),
		},
	}
}

func validateAdmissionBinding(b *admissionv1.ValidatingAdmissionPolicyBinding) field.ErrorList {
	var ps problems
	p, spec := field.NewPath("spec"), &b.Spec
	ps.named(p.Child("policyName"), spec.PolicyName)
	if spec.ParamRef != nil {
		checkParamRef(&ps, p.Child("paramRef"), spec.ParamRef)
	}
	if spec.MatchResources != nil {
		checkMatch(&ps, p.Child("matchResources"), spec.MatchResources)
	}
	at, actions := p.Child("validationActions"), spec.ValidationActions
	for i, action := range actions {
		oneOf(&ps, at.Index(i), action, admissionv1.Audit, admissionv1.Deny, admissionv1.Warn)
		ps.unique(!slices.Contains(actions[:i], action), at.Index(i), action)
	}
	ps.valid(!slices.Contains(actions, admissionv1.Deny) || !slices.Contains(actions, admissionv1.Warn), at, actions,
		"must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)")
	ps.present(len(actions) > 0, at, "at least one validation action is required")
	return ps.list
}

func checkParamRef(ps *problems, p *field.Path, ref *admissionv1.ParamRef) {
	const message = "name and selector are mutually exclusive"
	if ref.Name != "" {
		ps.each(p.Child("name"), ref.Name, content.IsPathSegmentName(ref.Name))
		ps.allowed(ref.Selector == nil, p.Child("name"), message)
	}
	if ref.Selector != nil {
		ps.selector(p.Child("selector"), ref.Selector)
		ps.allowed(ref.Name == "", p.Child("selector"), message)
	}
	ps.present(ref.Name != "" || ref.Selector != nil, p, "one of name or selector must be specified")
	someOf(ps, p.Child("parameterNotFoundAction"), deref(ref.ParameterNotFoundAction), admissionv1.DenyAction, admissionv1.AllowAction)
}
