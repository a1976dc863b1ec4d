package admissionregistration

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// webhookRules holds the rules that the old object breaks, which an update need not keep.
type webhookRules struct{ anySideEffects, anyVersions, anyNames bool }

var (
	reviewVersions = []string{"v1", "v1beta1"}
	noSideEffects  = []admissionv1.SideEffectClass{admissionv1.SideEffectClassNone, admissionv1.SideEffectClassNoneOnDryRun}
	sideEffects    = []admissionv1.SideEffectClass{
		admissionv1.SideEffectClassNone, admissionv1.SideEffectClassNoneOnDryRun,
		admissionv1.SideEffectClassSome, admissionv1.SideEffectClassUnknown,
	}
	operations = []admissionv1.OperationType{
		admissionv1.OperationAll, admissionv1.Connect, admissionv1.Create, admissionv1.Delete, admissionv1.Update,
	}
)

func knownVersion(v string) bool { return slices.Contains(reviewVersions, v) }

func rulesKeptBy(old []webhook) webhookRules {
	var r webhookRules
	names := map[string]bool{}
	for _, w := range old {
		r.anySideEffects = r.anySideEffects || w.sideEffects == nil || !slices.Contains(noSideEffects, *w.sideEffects)
		r.anyVersions = r.anyVersions || len(w.versions) > 0 && !slices.ContainsFunc(w.versions, knownVersion)
		r.anyNames = r.anyNames || names[w.name]
		names[w.name] = true
	}
	return r
}

func validateWebhooks(list []webhook, rules webhookRules) field.ErrorList {
	var ps check.Problems
	names := map[string]bool{}
	for i, w := range list {
		p := field.NewPath("webhooks").Index(i)
		checkWebhook(&ps, p, w, rules)
		checkReviewVersions(&ps, p.Child("admissionReviewVersions"), w.versions, rules.anyVersions)
		ps.Unique(rules.anyNames || w.name == "" || !names[w.name], p.Child("name"), w.name)
		names[w.name] = true
	}
	return ps.List
}

func checkWebhook(ps *check.Problems, p *field.Path, w webhook, rules webhookRules) {
	ps.All(validation.IsFullyQualifiedName(p.Child("name"), w.name))
	for i := range w.rules {
		checkOperations(ps, p.Child("rules").Index(i), &w.rules[i])
	}
	check.OneOf(ps, p.Child("failurePolicy"), optional.Deref(*w.failurePolicy), admissionv1.Fail, admissionv1.Ignore)
	check.OneOf(ps, p.Child("matchPolicy"), optional.Deref(*w.matchPolicy), admissionv1.Equivalent, admissionv1.Exact)
	allowed := noSideEffects
	if rules.anySideEffects {
		allowed = sideEffects
	}
	if w.sideEffects == nil {
		ps.Add(field.Required(p.Child("sideEffects"), "must specify one of "+strings.ReplaceAll(check.Join(allowed), ",", ", ")))
	} else {
		check.OneOf(ps, p.Child("sideEffects"), *w.sideEffects, allowed...)
	}
	if n := optional.Deref(*w.timeout); n < 1 || n > 30 {
		ps.Add(field.Invalid(p.Child("timeoutSeconds"), n, "the timeout value must be between 1 and 30 seconds"))
	}
	ps.Selector(p.Child("namespaceSelector"), *w.namespaceSelector)
	ps.Selector(p.Child("objectSelector"), *w.objectSelector)
	if w.reinvocation != nil {
		check.OneOf(ps, p.Child("reinvocationPolicy"), optional.Deref(*w.reinvocation), admissionv1.IfNeededReinvocationPolicy, admissionv1.NeverReinvocationPolicy)
	}
	at := p.Child("clientConfig")
	switch c := w.client; {
	case (c.URL == nil) == (c.Service == nil):
		ps.Add(field.Required(at, "exactly one of url or service is required"))
	case c.URL != nil:
		checkWebhookURL(ps, at.Child("url"), *c.URL)
	default:
		checkServiceReference(ps, at.Child("service"), c.Service)
	}
	checkMatchConditions(ps, p.Child("matchConditions"), w.conditions)
}

func checkReviewVersions(ps *check.Problems, p *field.Path, versions []string, anyOf bool) {
	if len(versions) == 0 {
		ps.Add(field.Required(p, "must specify one of "+strings.Join(reviewVersions, ", ")))
		return
	}
	seen := check.Seen[string]{}
	for i, v := range versions {
		if seen.Again(v) {
			ps.Add(field.Invalid(p.Index(i), v, "duplicate version"))
			continue
		}
		ps.Each(p.Index(i), v, validation.IsDNS1035Label(v))
	}
	ps.Valid(anyOf || slices.ContainsFunc(versions, knownVersion), p, versions,
		"must include at least one of "+strings.Join(reviewVersions, ", "))
}

func checkWebhookURL(ps *check.Problems, p *field.Path, s string) {
	const form = "; desired format: https://host[/path]"
	u, err := url.Parse(s)
	if err != nil {
		ps.Add(field.Required(p, "url must be a valid URL: "+err.Error()+form))
		return
	}
	ps.Valid(u.Scheme == "https", p, u.Scheme, "'https' is the only allowed URL scheme"+form)
	ps.Valid(u.Host != "", p, u.Host, "host must be specified"+form)
	if u.User != nil {
		ps.Add(field.Invalid(p, u.User.String(), "user information is not permitted in the URL"))
	}
	ps.Valid(u.Fragment == "", p, u.Fragment, "fragments are not permitted in the URL")
	ps.Valid(u.RawQuery == "", p, u.RawQuery, "query parameters are not permitted in the URL")
}

func checkServiceReference(ps *check.Problems, p *field.Path, s *admissionv1.ServiceReference) {
	// Upstream asks for the name under the path of the namespace, and the other way round.
	ps.Required(p.Child("name"), s.Namespace)
	ps.Required(p.Child("namespace"), s.Name)
	if n := optional.Deref(s.Port); len(validation.IsValidPortNum(int(n))) > 0 {
		ps.Add(field.Invalid(p.Child("port"), n, "port is not valid: "+strings.Join(validation.IsValidPortNum(int(n)), ", ")))
	}
	if s.Path != nil {
		checkWebhookPath(ps, p.Child("path"), *s.Path)
	}
}

func checkWebhookPath(ps *check.Problems, p *field.Path, path string) {
	switch path {
	case "", "/":
		return
	case "//":
		ps.Add(field.Invalid(p, path, "segment[0] may not be empty"))
		return
	}
	ps.Valid(strings.HasPrefix(path, "/"), p, path, "must start with a '/'")
	// Upstream takes the first byte for the slash that it should be.
	for i, step := range strings.Split(strings.TrimSuffix(path[1:], "/"), "/") {
		if step == "" {
			ps.Add(field.Invalid(p, path, fmt.Sprintf("segment[%d] may not be empty", i)))
			continue
		}
		for _, msg := range validation.IsDNS1123Subdomain(step) {
			ps.Add(field.Invalid(p, path, fmt.Sprintf("segment[%d]: %v", i, msg)))
		}
	}
}

// checkMatchConditions checks conditions except their expressions, which the plugin that evaluates
// them compiles.
func checkMatchConditions(ps *check.Problems, p *field.Path, conditions []admissionv1.MatchCondition) {
	ps.AtMost(p, len(conditions), 64)
	names := map[string]bool{}
	for i, c := range conditions {
		at := p.Index(i)
		ps.Required(at.Child("expression"), strings.TrimSpace(c.Expression))
		if ps.Required(at.Child("name"), c.Name) {
			ps.Each(at.Child("name"), c.Name, validation.IsQualifiedName(c.Name))
			ps.Unique(!names[c.Name], at.Child("name"), c.Name)
			names[c.Name] = true
		}
	}
}

func checkOperations(ps *check.Problems, p *field.Path, r *admissionv1.RuleWithOperations) {
	at := p.Child("operations")
	ps.Present(len(r.Operations) > 0, at, "")
	ps.Valid(len(r.Operations) < 2 || !slices.Contains(r.Operations, admissionv1.OperationAll), at, r.Operations,
		"if '*' is present, must not specify other operations")
	for i, op := range r.Operations {
		check.OneOf(ps, at.Index(i), op, operations...)
	}
	for _, list := range []struct {
		path, what string
		values     []string
	}{{"apiGroups", "API groups", r.APIGroups}, {"apiVersions", "API versions", r.APIVersions}} {
		ps.Present(len(list.values) > 0, p.Child(list.path), "")
		ps.Valid(len(list.values) < 2 || !slices.Contains(list.values, "*"), p.Child(list.path), list.values,
			fmt.Sprintf("if '*' is present, must not specify other %s", list.what))
	}
	for i, v := range r.APIVersions {
		ps.Required(p.Child("apiVersions").Index(i), v)
	}
	checkRuleResources(ps, p.Child("resources"), r.Resources)
	if r.Scope != nil {
		check.OneOf(ps, p.Child("scope"), *r.Scope, admissionv1.AllScopes, admissionv1.ClusterScope, admissionv1.NamespacedScope)
	}
}

// checkRuleResources adds errors for resources that a wildcard of the same rule covers.
func checkRuleResources(ps *check.Problems, p *field.Path, resources []string) {
	ps.Present(len(resources) > 0, p, "")
	ofAll, allOf := map[string]bool{}, map[string]bool{}
	plain := false
	for i, s := range resources {
		if !ps.Required(p.Index(i), s) {
			continue
		}
		resource, sub, ok := strings.Cut(s, "/")
		if !ok {
			plain = s != "*"
			continue
		}
		ps.Valid(!allOf[resource], p.Index(i), s, fmt.Sprintf("if '%s/*' is present, must not specify %s", resource, s))
		ps.Valid(!ofAll[sub], p.Index(i), s, fmt.Sprintf("if '*/%s' is present, must not specify %s", sub, s))
		allOf[resource] = allOf[resource] || sub == "*"
		ofAll[sub] = ofAll[sub] || resource == "*"
	}
	ps.Valid(len(resources) < 2 || !slices.Contains(resources, "*/*"), p, resources, "if '*/*' is present, must not specify other resources")
	ps.Valid(!plain || !slices.Contains(resources, "*"), p, resources, "if '*' is present, must not specify other resources without subresources")
}
