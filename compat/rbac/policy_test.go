package rbac

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	planekit "github.com/planekit/planekit/authz/rbac"
	rbacv1 "k8s.io/api/rbac/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/component-helpers/auth/rbac/validation"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

// facts is a policy as single permissions, so that the order and grouping of rules do not matter.
func facts(p planekit.Policy) map[string]bool {
	all := map[string]bool{}
	add := func(kind, namespace, name string, labels, annotations map[string]string) func(format string, args ...any) {
		prefix := strings.TrimSpace(kind + " " + namespace + "/" + name + ": ")
		all[prefix+fmt.Sprint(" labels ", labels, " annotations ", annotations)] = true
		return func(format string, args ...any) { all[prefix+" "+fmt.Sprintf(format, args...)] = true }
	}
	rules := func(say func(string, ...any), rules []rbacv1.PolicyRule) {
		for _, r := range rules {
			for _, part := range validation.BreakdownRule(r) {
				say("rule %v", part.String())
			}
		}
	}
	for _, r := range p.ClusterRoles {
		say := add("clusterrole", "", r.Name, r.Labels, r.Annotations)
		rules(say, r.Rules)
		if r.AggregationRule != nil {
			for _, s := range r.AggregationRule.ClusterRoleSelectors {
				say("selects %v", s.String())
			}
		}
	}
	for _, r := range p.Roles {
		rules(add("role", r.Namespace, r.Name, r.Labels, r.Annotations), r.Rules)
	}
	bound := func(say func(string, ...any), ref rbacv1.RoleRef, subjects []rbacv1.Subject) {
		say("to %+v", ref)
		for _, s := range subjects {
			say("of %+v", s)
		}
	}
	for _, b := range p.ClusterRoleBindings {
		bound(add("clusterrolebinding", "", b.Name, b.Labels, b.Annotations), b.RoleRef, b.Subjects)
	}
	for _, b := range p.RoleBindings {
		bound(add("rolebinding", b.Namespace, b.Name, b.Labels, b.Annotations), b.RoleRef, b.Subjects)
	}
	return all
}

func pointers[T any](objects []T) []*T {
	var all []*T
	for i := range objects {
		all = append(all, &objects[i])
	}
	return all
}

func stockPolicy() planekit.Policy {
	p := planekit.Policy{
		ClusterRoles:        pointers(append(bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles()...)),
		ClusterRoleBindings: pointers(append(bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()...)),
	}
	for _, roles := range bootstrappolicy.NamespaceRoles() {
		p.Roles = append(p.Roles, pointers(roles)...)
	}
	for _, bindings := range bootstrappolicy.NamespaceRoleBindings() {
		p.RoleBindings = append(p.RoleBindings, pointers(bindings)...)
	}
	return p
}

// TestSamePolicy: a new cluster grants exactly the permissions of Kubernetes with its default
// features and cluster trust bundles.
func TestSamePolicy(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.ClusterTrustBundle, true)
	own, stock := facts(planekit.Bootstrap{}.Policy()), facts(stockPolicy())
	for _, fact := range slices.Sorted(maps.Keys(stock)) {
		if !own[fact] {
			t.Errorf("missing: %s", fact)
		}
	}
	for _, fact := range slices.Sorted(maps.Keys(own)) {
		if !stock[fact] {
			t.Errorf("too much: %s", fact)
		}
	}
	t.Logf("%d facts", len(stock))
}
