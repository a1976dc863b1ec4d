package rbac

import (
	"slices"
	"strings"

	"github.com/planekit/planekit/authz"
	rbacv1 "k8s.io/api/rbac/v1"
)

// matches reports whether rule covers the request.
func matches(rule *rbacv1.PolicyRule, at *authz.Attributes) bool {
	if !covers(rule.Verbs, at.Verb) {
		return false
	}
	if at.Resource == "" {
		return slices.ContainsFunc(rule.NonResourceURLs, func(u string) bool { return matchesPath(u, at.Path) })
	}
	return covers(rule.APIGroups, at.Group) &&
		slices.ContainsFunc(rule.Resources, func(r string) bool { return matchesResource(r, at) }) &&
		(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, at.Name))
}

func covers(words []string, word string) bool {
	for _, w := range words {
		if w == word || w == rbacv1.VerbAll {
			return true
		}
	}
	return false
}

// matchesResource matches "*", "pods", "pods/status" or "*/status". As in Kubernetes, "pods/*"
// matches nothing.
func matchesResource(pattern string, at *authz.Attributes) bool {
	if pattern == rbacv1.ResourceAll {
		return true
	}
	if at.Subresource == "" {
		return pattern == at.Resource
	}
	resource, subresource, _ := strings.Cut(pattern, "/")
	return subresource == at.Subresource && (resource == at.Resource || resource == rbacv1.ResourceAll)
}

// matchesPath matches "*", a path, or a prefix that ends in *. Several stars at the end count as
// one.
func matchesPath(pattern, path string) bool {
	if strings.HasSuffix(pattern, "*") {
		return strings.HasPrefix(path, strings.TrimRight(pattern, "*"))
	}
	return pattern == path
}
