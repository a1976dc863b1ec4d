package main

import (
	"testing"

	"github.com/planekit/planekit/authz/rbac"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/plane/bootstrap"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestPolicyIsReconciled checks that every start restores missing rules of the policy, keeps
// added ones, and leaves objects alone whose annotation says so.
func TestPolicyIsReconciled(t *testing.T) {
	cluster := start(t, t.TempDir(), "--storage", "memory", "--nodes", "0")
	api := cluster.client(t)
	roles, bindings, ctx := typed.ClusterRoles(api), typed.ClusterRoleBindings(api), t.Context()
	get := func(name string) *rbacv1.ClusterRole {
		t.Helper()
		role, err := roles.Get(ctx, "", name)
		if err != nil {
			t.Fatal(err)
		}
		return role.DeepCopy()
	}
	whole := get("system:node-proxier")
	less := whole.DeepCopy()
	mine := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{"mine"}, Resources: []string{"things"}}
	less.Rules = []rbacv1.PolicyRule{mine}
	alone := get("system:discovery")
	alone.Rules = nil
	alone.Annotations[rbacv1.AutoUpdateAnnotationKey] = "false"
	for _, role := range []*rbacv1.ClusterRole{less, alone} {
		if _, err := roles.Update(ctx, role); err != nil {
			t.Fatal(err)
		}
	}
	const binding = "system:basic-user"
	if err := bindings.Delete(ctx, "", binding, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := bindings.Get(ctx, "", binding); !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	for range 2 { // the second finds nothing to do
		if err := bootstrap.Grant(ctx, api, rbac.Bootstrap{ControllersAsOne: true}.Policy()); err != nil {
			t.Fatal(err)
		}
	}
	// What was missing comes rule by rule, each of one group and one resource.
	given := grants(get("system:node-proxier"))
	for grant := range grants(&rbacv1.ClusterRole{Rules: append(whole.Rules, mine)}) {
		if !given[grant] {
			t.Errorf("%v is missing in %v", grant, given)
		}
	}
	if left := get("system:discovery"); len(left.Rules) != 0 {
		t.Errorf("%+v was to be left alone", left.Rules)
	}
	if _, err := bindings.Get(ctx, "", binding); err != nil {
		t.Error(err)
	}
}

// grants are the verb, the group and the resource of all that a role lets do.
func grants(role *rbacv1.ClusterRole) map[[3]string]bool {
	all := map[[3]string]bool{}
	for _, rule := range role.Rules {
		for _, verb := range rule.Verbs {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					all[[3]string{verb, group, resource}] = true
				}
			}
		}
	}
	return all
}
