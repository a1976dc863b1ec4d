// Package rules finds the requests that webhooks and policies are about, by their operation, resource and
// labels.
package rules

import (
	"slices"
	"strings"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/internal/selector"
	registration "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// A Rule is a registration.RuleWithOperations with parsed resources.
type Rule struct {
	operations       []registration.OperationType
	groups, versions []string
	resources        []pair
	scope            registration.ScopeType
}

// pair is a resource and a subresource; the latter is empty for the resource itself.
type pair struct{ resource, sub string }

const anything = "*"

// New returns a rule.
func New(from *registration.RuleWithOperations) Rule {
	r := Rule{operations: from.Operations, groups: from.APIGroups, versions: from.APIVersions, scope: registration.AllScopes}
	if from.Scope != nil {
		r.scope = *from.Scope
	}
	for _, s := range from.Resources {
		resource, sub, _ := strings.Cut(s, "/")
		r.resources = append(r.resources, pair{resource, sub})
	}
	return r
}

// Covers reports whether the rule is about r.
func (u *Rule) Covers(r *admission.Request) bool { return u.CoversAs(r, r.Resource) }

// CoversAs reports whether the rule would be about r if that were for another resource.
func (u *Rule) CoversAs(r *admission.Request, resource admission.GroupVersionResource) bool {
	return u.does(r.Operation) && u.names(resource.Resource, r.Subresource) && has(u.groups, resource.Group) && has(u.versions, resource.Version) &&
		u.reaches(r)
}

func (u *Rule) does(op admission.Operation) bool {
	return slices.ContainsFunc(u.operations, func(o registration.OperationType) bool {
		return o == registration.OperationAll || string(o) == string(op)
	})
}

func (u *Rule) names(resource, subresource string) bool {
	return slices.ContainsFunc(u.resources, func(p pair) bool {
		return (p.resource == anything || p.resource == resource) && (p.sub == anything || p.sub == subresource)
	})
}

// reaches reports whether r is in the rule's scope. A Namespace object is cluster-scoped.
func (u *Rule) reaches(r *admission.Request) bool {
	inside := r.Namespace != "" && !IsNamespace(r)
	switch u.scope {
	case registration.NamespacedScope:
		return inside
	case registration.ClusterScope:
		return !inside
	}
	return u.scope == registration.AllScopes
}

func has(list []string, s string) bool {
	return slices.ContainsFunc(list, func(item string) bool { return item == anything || item == s })
}

// IsNamespace reports whether r is about a namespace.
func IsNamespace(r *admission.Request) bool {
	return r.Resource.Group == "" && r.Resource.Resource == "namespaces"
}

// NamespaceOf returns the namespace of r. A Namespace counts as being in itself.
func NamespaceOf(r *admission.Request) string {
	if r.Namespace == "" && IsNamespace(r) {
		return r.Name
	}
	return r.Namespace
}

// Selector parses s. It returns nil if s selects everything.
func Selector(s *metav1.LabelSelector) (labels.Selector, error) {
	if s == nil || len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0 {
		return nil, nil
	}
	return selector.Of(s)
}

// Labelled reports whether s selects an object.
func Labelled(s labels.Selector, object any) bool {
	o, ok := object.(interface{ GetLabels() map[string]string })
	return ok && s.Matches(labels.Set(o.GetLabels()))
}

// Exempt reports whether neither webhooks nor policies apply to a kind, so that an invalid one can be deleted.
func Exempt(k admission.GroupVersionKind) bool {
	if k.Group != registration.GroupName {
		return false
	}
	switch k.Kind {
	case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration",
		"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
		"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding":
		return true
	}
	return false
}
