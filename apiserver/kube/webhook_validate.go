package kube

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// webhookRules are rules that were broken before and need not be kept yet.
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
	var ps problems
	names := map[string]bool{}
	for i, w := range list {
		p := field.NewPath("webhooks").Index(i)
		checkWebhook(&ps, p, w, rules)
		checkReviewVersions(&ps, p.Child("admissionReviewVersions"), w.versions, rules.anyVersions)
		ps.unique(rules.anyNames || w.name == "" || !names[w.name], p.Child("name"), w.name)
		names[w.name] = true
	}
	return ps.list
}

func checkWebhook(ps *problems, p *field.Path, w webhook, rules webhookRules) {
	ps.all(validation.IsFullyQualifiedName(p.Child("name"), w.name))
	for i := range w.rules {
		checkOperations(ps, p.Child("rules").Index(i), &w.rules[i])
	}
	oneOf(ps, p.Child("failurePolicy"), deref(*w.failurePolicy), admissionv1.Fail, admissionv1.Ignore)
	oneOf(ps, p.Child("matchPolicy"), deref(*w.matchPolicy), admissionv1.Equivalent, admissionv1.Exact)
	allowed := noSideEffects
	if rules.anySideEffects {
		allowed = sideEffects
	}
	if w.sideEffects == nil {
		ps.add(field.Required(p.Child("sideEffects"), "must specify one of "+strings.ReplaceAll(joined(allowed), ",", ", ")))
	} else {
		oneOf(ps, p.Child("sideEffects"), *w.sideEffects, allowed...)
	}
	if n := deref(*w.timeout); n < 1 || n > 30 {
		ps.add(field.Invalid(p.Child("timeoutSeconds"), n, "the timeout value must be between 1 and 30 seconds"))
	}
	ps.selector(p.Child("namespaceSelector"), *w.namespaceSelector)
	ps.selector(p.Child("objectSelector"), *w.objectSelector)
	if w.reinvocation != nil {
		oneOf(ps, p.Child("reinvocationPolicy"), deref(*w.reinvocation), admissionv1.IfNeededReinvocationPolicy, admissionv1.NeverReinvocationPolicy)
	}
	at := p.Child("clientConfig")
	switch c := w.client; {
	case (c.URL == nil) == (c.Service == nil):
		ps.add(field.Required(at, "exactly one of url or service is required"))
	case c.URL != nil:
		checkWebhookURL(ps, at.Child("url"), *c.URL)
	default:
		checkServiceReference(ps, at.Child("service"), c.Service)
	}
	checkMatchConditions(ps, p.Child("matchConditions"), w.conditions)
}

func checkReviewVersions(ps *problems, p *field.Path, versions []string, anyOf bool) {
	if len(versions) == 0 {
		ps.add(field.Required(p, "must specify one of "+strings.Join(reviewVersions, ", ")))
		return
	}
	for i, v := range versions {
		if slices.Contains(versions[:i], v) {
			ps.add(field.Invalid(p.Index(i), v, "duplicate version"))
			continue
		}
		ps.each(p.Index(i), v, validation.IsDNS1035Label(v))
	}
	ps.valid(anyOf || slices.ContainsFunc(versions, knownVersion), p, versions,
		"must include at least one of "+strings.Join(reviewVersions, ", "))
}

func checkWebhookURL(ps *problems, p *field.Path, s string) {
	const form = "; desired format: https://host[/path]"
	u, err := url.Parse(s)
	if err != nil {
		ps.add(field.Required(p, "url must be a valid URL: "+err.Error()+form))
		return
	}
	ps.valid(u.Scheme == "https", p, u.Scheme, "'https' is the only allowed URL scheme"+form)
	ps.valid(u.Host != "", p, u.Host, "host must be specified"+form)
	if u.User != nil {
		ps.add(field.Invalid(p, u.User.String(), "user information is not permitted in the URL"))
	}
	ps.valid(u.Fragment == "", p, u.Fragment, "fragments are not permitted in the URL")
	ps.valid(u.RawQuery == "", p, u.RawQuery, "query parameters are not permitted in the URL")
}

func checkServiceReference(ps *problems, p *field.Path, s *admissionv1.ServiceReference) {
	// Upstream asks for the name under the path of the namespace, and the other way round.
	ps.required(p.Child("name"), s.Namespace)
	ps.required(p.Child("namespace"), s.Name)
	if n := deref(s.Port); len(validation.IsValidPortNum(int(n))) > 0 {
		ps.add(field.Invalid(p.Child("port"), n, "port is not valid: "+strings.Join(validation.IsValidPortNum(int(n)), ", ")))
	}
	if s.Path != nil {
		checkWebhookPath(ps, p.Child("path"), *s.Path)
	}
}

func checkWebhookPath(ps *problems, p *field.Path, path string) {
	switch path {
	case "", "/":
		return
	case "//":
		ps.add(field.Invalid(p, path, "segment[0] may not be empty"))
		return
	}
	ps.valid(strings.HasPrefix(path, "/"), p, path, "must start with a '/'")
	// Upstream takes the first byte for the slash that it should be.
	for i, step := range strings.Split(strings.TrimSuffix(path[1:], "/"), "/") {
		if step == "" {
			ps.add(field.Invalid(p, path, fmt.Sprintf("segment[%d] may not be empty", i)))
			continue
		}
		for _, msg := range validation.IsDNS1123Subdomain(step) {
			ps.add(field.Invalid(p, path, fmt.Sprintf("segment[%d]: %v", i, msg)))
		}
	}
}

// checkMatchConditions checks conditions but for whether their expressions mean
// something: that is for who evaluates them to say.
func checkMatchConditions(ps *problems, p *field.Path, conditions []admissionv1.MatchCondition) {
	ps.atMost(p, len(conditions), 64)
	names := map[string]bool{}
	for i, c := range conditions {
		at := p.Index(i)
		ps.required(at.Child("expression"), strings.TrimSpace(c.Expression))
		if ps.required(at.Child("name"), c.Name) {
			ps.each(at.Child("name"), c.Name, validation.IsQualifiedName(c.Name))
			ps.unique(!names[c.Name], at.Child("name"), c.Name)
			names[c.Name] = true
		}
	}
}

func checkOperations(ps *problems, p *field.Path, r *admissionv1.RuleWithOperations) {
	at := p.Child("operations")
	ps.present(len(r.Operations) > 0, at, "")
	ps.valid(len(r.Operations) < 2 || !slices.Contains(r.Operations, admissionv1.OperationAll), at, r.Operations,
		"if '*' is present, must not specify other operations")
	for i, op := range r.Operations {
		oneOf(ps, at.Index(i), op, operations...)
	}
	for _, list := range []struct {
		path, what string
		values     []string
	}{{"apiGroups", "API groups", r.APIGroups}, {"apiVersions", "API versions", r.APIVersions}} {
		ps.present(len(list.values) > 0, p.Child(list.path), "")
		ps.valid(len(list.values) < 2 || !slices.Contains(list.values, "*"), p.Child(list.path), list.values,
			fmt.Sprintf("if '*' is present, must not specify other %s", list.what))
	}
	for i, v := range r.APIVersions {
		ps.required(p.Child("apiVersions").Index(i), v)
	}
	checkRuleResources(ps, p.Child("resources"), r.Resources)
	if r.Scope != nil {
		oneOf(ps, p.Child("scope"), *r.Scope, admissionv1.AllScopes, admissionv1.ClusterScope, admissionv1.NamespacedScope)
	}
}

// checkRuleResources refuses what is said already with a wildcard.
func checkRuleResources(ps *problems, p *field.Path, resources []string) {
	ps.present(len(resources) > 0, p, "")
	ofAll, allOf := map[string]bool{}, map[string]bool{}
	plain := false
	for i, s := range resources {
		if !ps.required(p.Index(i), s) {
			continue
		}
		resource, sub, ok := strings.Cut(s, "/")
		if !ok {
			plain = s != "*"
			continue
		}
		ps.valid(!allOf[resource], p.Index(i), s, fmt.Sprintf("if '%s/*' is present, must not specify %s", resource, s))
		ps.valid(!ofAll[sub], p.Index(i), s, fmt.Sprintf("if '*/%s' is present, must not specify %s", sub, s))
		allOf[resource] = allOf[resource] || sub == "*"
		ofAll[sub] = ofAll[sub] || resource == "*"
	}
	ps.valid(len(resources) < 2 || !slices.Contains(resources, "*/*"), p, resources, "if '*/*' is present, must not specify other resources")
	ps.valid(!plain || !slices.Contains(resources, "*"), p, resources, "if '*' is present, must not specify other resources without subresources")
}
