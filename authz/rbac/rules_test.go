package rbac_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/authz/rbac"
	"github.com/planekit/planekit/localcache"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var _ authz.Lister = (*rbac.Authorizer)(nil)

func TestRulesFor(t *testing.T) {
	both := getPods
	both.NonResourceURLs = []string{"/healthz"}
	named := getPods
	named.ResourceNames = []string{"web"}
	p := newPolicy()
	p.clusterRoles = localcache.NewMap(clusterRole("everywhere", both), clusterRole("shared", named))
	p.clusterRoleBindings = localcache.NewMap(
		clusterBinding("a", "everywhere", group("devs"), rbacv1.Subject{Kind: "User", Name: "jane"}), // names jane twice
		clusterBinding("gone", "nothing", group("lost")),
	)
	p.roleBindings = localcache.NewMap(
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: "ns"},
			RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "shared"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "jane"}}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "gone", Namespace: "ns"},
			RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "none"}, Subjects: []rbacv1.Subject{group("lost")}},
	)
	a := p.start(t)
	get := []string{"get"}
	pods := authz.ResourceRule{Verbs: get, Groups: []string{""}, Resources: []string{"pods"}}
	web := pods
	web.Names = []string{"web"}
	health := []authz.PathRule{{Verbs: get, Paths: []string{"/healthz"}}}
	jane := &user.Info{Name: "jane", Groups: []string{"devs"}}
	for _, test := range []struct {
		user      *user.Info
		namespace string
		want      authz.Rules
		err       string
	}{
		{jane, "", authz.Rules{Resources: []authz.ResourceRule{pods}, Paths: health}, ""},
		{jane, "other", authz.Rules{Resources: []authz.ResourceRule{pods}, Paths: health}, ""},
		{jane, "ns", authz.Rules{Resources: []authz.ResourceRule{pods, web}, Paths: health}, ""},
		{&user.Info{Groups: []string{"devs", "lost"}}, "other", authz.Rules{Resources: []authz.ResourceRule{pods}, Paths: health},
			`clusterrole.rbac.authorization.k8s.io "nothing" not found`},
		{&user.Info{Groups: []string{"lost"}}, "ns", authz.Rules{},
			`[clusterrole.rbac.authorization.k8s.io "nothing" not found, role.rbac.authorization.k8s.io "none" not found]`},
		{&user.Info{Name: "joe"}, "ns", authz.Rules{}, ""},
		{nil, "ns", authz.Rules{}, ""},
	} {
		got, err := a.RulesFor(t.Context(), test.user, test.namespace)
		if !reflect.DeepEqual(got, test.want) || (err == nil) != (test.err == "") || err != nil && err.Error() != test.err {
			t.Errorf("%+v in %q: %+v, %v", test.user, test.namespace, got, err)
		}
	}
}

func TestRulesForNotSynced(t *testing.T) {
	p := newPolicy()
	a, err := rbac.New(rbac.Config{Roles: p.roles, RoleBindings: p.roleBindings,
		ClusterRoles: p.clusterRoles, ClusterRoleBindings: p.clusterRoleBindings})
	if err != nil {
		t.Fatal(err)
	}
	if rules, err := a.RulesFor(t.Context(), &user.Info{Name: "jane"}, "ns"); !rules.Incomplete || !errors.Is(err, rbac.ErrNotSynced) {
		t.Errorf("RulesFor before the first sync = %+v, %v, want incomplete rules and ErrNotSynced", rules, err)
	}
}
