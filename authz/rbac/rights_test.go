package rbac_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/authz/rbac"
	"github.com/planekit/planekit/localcache"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var getSecrets = rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}}

// TestMissing: rights are those of the namespace and of the whole cluster, by name
// and by group, of roles and of what they aggregate.
func TestMissing(t *testing.T) {
	p := newPolicy()
	part := clusterRole("part", getSecrets)
	part.Labels = map[string]string{"in": "sum"}
	sum := clusterRole("sum")
	sum.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: part.Labels}}}
	p.clusterRoles = localcache.NewMap(clusterRole("pods", getPods), part, sum)
	p.roles = localcache.NewMap(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "local"}, Rules: []rbacv1.PolicyRule{getSecrets}})
	p.clusterRoleBindings = localcache.NewMap(clusterBinding("1", "pods", group("dev")), clusterBinding("2", "gone", group("lost")))
	p.roleBindings = localcache.NewMap(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "b"},
		RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "sum"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "eve"}}})
	unsynced, err := rbac.New(rbac.Config{Roles: p.roles, RoleBindings: p.roleBindings, ClusterRoles: p.clusterRoles, ClusterRoleBindings: p.clusterRoleBindings})
	if err != nil {
		t.Fatal(err)
	}
	if missing, err := unsynced.Missing(t.Context(), &user.Info{Name: "eve"}, "shop", []rbacv1.PolicyRule{getPods}); len(missing) != 1 || !errors.Is(err, rbac.ErrNotSynced) {
		t.Errorf("before Run: %v %v", missing, err)
	}
	if _, ok := unsynced.RoleRules(rbacv1.RoleRef{Kind: "ClusterRole", Name: "pods"}, ""); ok {
		t.Error("before Run a role is known")
	}
	a := p.start(t)
	eve := &user.Info{Name: "eve", Groups: []string{"dev", "lost"}}
	for _, test := range []struct {
		u         *user.Info
		namespace string
		missing   string
		err       string
	}{
		{eve, "shop", "[]", `clusterrole.rbac.authorization.k8s.io "gone" not found`},
		{eve, "other", "[secrets]", `clusterrole.rbac.authorization.k8s.io "gone" not found`},
		{eve, "", "[secrets]", `clusterrole.rbac.authorization.k8s.io "gone" not found`},
		{&user.Info{Name: "eve"}, "shop", "[pods]", ""},
		{&user.Info{Name: "joe"}, "shop", "[pods secrets]", ""},
		{nil, "shop", "[pods secrets]", ""},
	} {
		missing, err := a.Missing(t.Context(), test.u, test.namespace, []rbacv1.PolicyRule{getPods, getSecrets})
		var resources []string
		for _, m := range missing {
			resources = append(resources, m.Resources...)
		}
		if fmt.Sprint(resources) != test.missing || (err == nil) != (test.err == "") || err != nil && err.Error() != test.err {
			t.Errorf("%+v in %q: %v %v", test.u, test.namespace, resources, err)
		}
	}
	for _, test := range []struct {
		ref       rbacv1.RoleRef
		namespace string
		want      string
		ok        bool
	}{
		{rbacv1.RoleRef{Kind: "ClusterRole", Name: "sum"}, "", "secrets", true},
		{rbacv1.RoleRef{Kind: "ClusterRole", Name: "pods"}, "shop", "pods", true},
		{rbacv1.RoleRef{Kind: "Role", Name: "local"}, "shop", "secrets", true},
		{rbacv1.RoleRef{Kind: "Role", Name: "local"}, "other", "", false},
		{rbacv1.RoleRef{Kind: "Role", Name: "local"}, "", "", false},
		{rbacv1.RoleRef{Kind: "ClusterRole", Name: "local"}, "shop", "", false},
	} {
		rules, ok := a.RoleRules(test.ref, test.namespace)
		if ok != test.ok || ok && rules[0].Resources[0] != test.want {
			t.Errorf("%+v in %q: %v %v", test.ref, test.namespace, rules, ok)
		}
	}
}

func TestRules(t *testing.T) {
	nodes := rbac.Rules(rbac.NodeRules())
	for resource, want := range map[string]authz.Decision{"services": authz.Allow, "replicationcontrollers": authz.NoOpinion} {
		if d, reason, err := nodes.Authorize(t.Context(), authz.Attributes{Verb: "list", Resource: resource}); d != want || reason != "" || err != nil {
			t.Errorf("Authorize(list %s) = %v, %q, %v, want %v, no reason and no error", resource, d, reason, err, want)
		}
	}
	listed, err := authz.RulesFor(t.Context(), nodes, nil, "")
	if err != nil || len(listed.Resources) != len(rbac.NodeRules()) {
		t.Errorf("RulesFor = %+v, %v, want %d rules for resources", listed, err, len(rbac.NodeRules()))
	}
}

// TestBootstrap: what the options grant, and nothing else, is beyond the policy.
func TestBootstrap(t *testing.T) {
	subjects := func(b rbac.Bootstrap, name string) []rbacv1.Subject {
		bindings := b.Policy().ClusterRoleBindings
		return bindings[slices.IndexFunc(bindings, func(b *rbacv1.ClusterRoleBinding) bool { return b.Name == name })].Subjects
	}
	if s := subjects(rbac.Bootstrap{}, "system:node"); len(s) != 0 {
		t.Errorf("nodes: %v", s)
	}
	if s := subjects(rbac.Bootstrap{NodesByRole: true}, "system:node"); len(s) != 1 || s[0].Name != user.Nodes {
		t.Errorf("nodes by role: %v", s)
	}
	if s := subjects(rbac.Bootstrap{}, "system:controller:job-controller"); len(s) != 1 || s[0].Namespace != "kube-system" {
		t.Errorf("controllers: %v", s)
	}
	if s := subjects(rbac.Bootstrap{ControllersAsOne: true}, "system:controller:job-controller"); len(s) != 2 || s[1].Name != user.ControllerManager {
		t.Errorf("controllers as one: %v", s)
	}
	roles, bindings := rbac.BootstrapNamespacedPolicy()
	if len(roles) != 6 || len(bindings) != 6 || roles[0].Name != "extension-apiserver-authentication-reader" || bindings[0].Name != "system::"+roles[0].Name {
		t.Errorf("%d roles and %d bindings: %v", len(roles), len(bindings), roles)
	}
	for _, r := range roles {
		if r.Namespace != "kube-system" {
			t.Errorf("%s in %s", r.Name, r.Namespace)
		}
	}
}
