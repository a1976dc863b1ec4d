package rbac

import (
	"testing"

	"github.com/planekit/planekit/authz"
	rbacv1 "k8s.io/api/rbac/v1"
)

func TestMatches(t *testing.T) {
	res := func(verb, group, resource, sub, name string) authz.Attributes {
		return authz.Attributes{Verb: verb, Group: group, Resource: resource, Subresource: sub, Name: name, Path: "/api"}
	}
	path := func(verb, path string) authz.Attributes { return authz.Attributes{Verb: verb, Path: path} }
	for _, test := range []struct {
		rule rbacv1.PolicyRule
		at   authz.Attributes
		want bool
	}{
		{rule("get", "core", "pods"), res("get", "", "pods", "", ""), true},
		{rule("get", "core", "pods"), res("list", "", "pods", "", ""), false},
		{rule("get", "core", "pods"), res("get", "apps", "pods", "", ""), false},
		{rule("get", "core", "pods"), res("get", "", "pods", "status", ""), false},
		{rule("*", "*", "*"), res("get", "apps", "deployments", "scale", "x"), true},
		{rule("*", "*", "*"), path("get", "/metrics"), false},
		{rule("get", "core", "pods/status"), res("get", "", "pods", "status", ""), true},
		{rule("get", "core", "pods/status"), res("get", "", "pods", "", ""), false},
		{rule("get", "core", "pods/status"), res("get", "", "nodes", "status", ""), false},
		{rule("get", "core", "*/status"), res("get", "", "nodes", "status", ""), true},
		{rule("get", "core", "*/status"), res("get", "", "nodes", "scale", ""), false},
		{rule("get", "core", "*/status"), res("get", "", "nodes", "", ""), false},
		{rule("get", "core", "pods/*"), res("get", "", "pods", "status", ""), false},
		{rule("get", "core", "pods", "a", "b"), res("get", "", "pods", "", "b"), true},
		{rule("get", "core", "pods", "a", "b"), res("get", "", "pods", "", "c"), false},
		{rule("create", "core", "pods", "a"), res("create", "", "pods", "", ""), false},
		{paths("get", "/healthz"), path("get", "/healthz"), true},
		{paths("get", "/healthz"), path("get", "/healthz/"), false},
		{paths("get", "/healthz/*"), path("get", "/healthz/etcd"), true},
		{paths("get", "/healthz/*"), path("get", "/healthz"), false},
		{paths("get", "*"), path("get", "/anything"), true},
		{paths("get", "*"), path("post", "/anything"), false},
		{paths("get", "/a*b"), path("get", "/acb"), false},
		{paths("get", "/api"), res("get", "", "pods", "", ""), false},
	} {
		if got := matches(&test.rule, &test.at); got != test.want {
			t.Errorf("%+v on %+v: %v", test.rule, test.at, got)
		}
	}
}

// FuzzMatchesResource holds the matcher against the sentence in the Kubernetes
// documentation: a pattern is "*", the combined name, or "*/" and the subresource.
func FuzzMatchesResource(f *testing.F) {
	f.Add("pods/status", "pods", "status")
	f.Add("*/status", "pods", "status")
	f.Add("pods/", "pods", "")
	f.Fuzz(func(t *testing.T, pattern, resource, subresource string) {
		combined := resource
		if subresource != "" {
			combined += "/" + subresource
		}
		for _, s := range []string{resource, subresource} {
			for _, c := range s {
				if c == '/' {
					return // not a path segment
				}
			}
		}
		want := pattern == "*" || pattern == combined || subresource != "" && pattern == "*/"+subresource
		if got := matchesResource(pattern, &authz.Attributes{Resource: resource, Subresource: subresource}); got != want {
			t.Errorf("%q on %q: %v", pattern, combined, got)
		}
	})
}
