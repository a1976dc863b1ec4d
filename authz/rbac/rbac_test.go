package rbac_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/authz/rbac"
	"github.com/planekit/planekit/localcache"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type policy struct {
	roles               *localcache.Map[*rbacv1.Role]
	roleBindings        *localcache.Map[*rbacv1.RoleBinding]
	clusterRoles        *localcache.Map[*rbacv1.ClusterRole]
	clusterRoleBindings *localcache.Map[*rbacv1.ClusterRoleBinding]
}

func newPolicy() *policy {
	return &policy{localcache.NewMap[*rbacv1.Role](), localcache.NewMap[*rbacv1.RoleBinding](),
		localcache.NewMap[*rbacv1.ClusterRole](), localcache.NewMap[*rbacv1.ClusterRoleBinding]()}
}

// start runs an authorizer over p until the test ends.
func (p *policy) start(t testing.TB) *rbac.Authorizer {
	t.Helper()
	a, err := rbac.New(rbac.Config{Roles: p.roles, RoleBindings: p.roleBindings,
		ClusterRoles: p.clusterRoles, ClusterRoleBindings: p.clusterRoleBindings})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	<-a.Synced()
	return a
}

func clusterRole(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
}

func clusterBinding(name, role string, subjects ...rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: role}, Subjects: subjects}
}

func group(name string) rbacv1.Subject { return rbacv1.Subject{Kind: "Group", Name: name} }

var getPods = rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}

func Example() {
	roles, bindings := rbac.BootstrapPolicy()
	policy, err := rbac.New(rbac.Config{
		Roles: localcache.NewMap[*rbacv1.Role](), RoleBindings: localcache.NewMap[*rbacv1.RoleBinding](),
		ClusterRoles: localcache.NewMap(roles...), ClusterRoleBindings: localcache.NewMap(bindings...),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- policy.Run(ctx) }()
	<-policy.Synced()

	node := &user.Info{Name: "system:node:a", Groups: []string{user.Nodes}}
	for _, verb := range []string{"get", "deletecollection"} {
		decision, reason, _ := policy.Authorize(ctx, authz.Attributes{User: node, Verb: verb, Resource: "pods", Namespace: "x"})
		fmt.Printf("%s: %v %q\n", verb, decision, reason)
	}
	cancel()
	fmt.Println(<-done)
	// Output:
	// get: allow "RBAC: allowed by ClusterRoleBinding \"system:node\" of ClusterRole \"system:node\" to Group \"system:nodes\""
	// deletecollection: no opinion ""
	// <nil>
}

func TestReasons(t *testing.T) {
	p := newPolicy()
	p.clusterRoles = localcache.NewMap(clusterRole("get", getPods))
	p.roles = localcache.NewMap(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "get", Namespace: "ns"}, Rules: []rbacv1.PolicyRule{getPods}})
	account := rbacv1.Subject{Kind: "ServiceAccount", Name: "robot"}
	p.roleBindings = localcache.NewMap(
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: "ns"},
			RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "get"}, Subjects: []rbacv1.Subject{account}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "ns"},
			RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "get"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "jane"}}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "gone", Namespace: "ns"},
			RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "none"}, Subjects: []rbacv1.Subject{group("lost")}},
	)
	p.clusterRoleBindings = localcache.NewMap(
		clusterBinding("x", "get", group("devs")),
		clusterBinding("gone", "nothing", group("lost")),
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "bad"},
			RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "get"}, Subjects: []rbacv1.Subject{group("lost")}},
	)
	a := p.start(t)
	for _, test := range []struct {
		user      *user.Info
		namespace string
		want      string
	}{
		{&user.Info{Name: "u", Groups: []string{"devs"}}, "", `RBAC: allowed by ClusterRoleBinding "x" of ClusterRole "get" to Group "devs"`},
		{&user.Info{Name: "u", Groups: []string{"devs"}}, "ns", `RBAC: allowed by ClusterRoleBinding "x" of ClusterRole "get" to Group "devs"`},
		{&user.Info{Name: "system:serviceaccount:ns:robot"}, "ns", `RBAC: allowed by RoleBinding "b/ns" of Role "get" to ServiceAccount "robot/ns"`},
		{&user.Info{Name: "system:serviceaccount:other:robot"}, "ns", ""},
		{&user.Info{Name: "jane"}, "ns", `RBAC: allowed by RoleBinding "c/ns" of ClusterRole "get" to User "jane"`},
		{&user.Info{Name: "jane"}, "other", ""},
		{&user.Info{Name: "jane"}, "", ""},
		{&user.Info{Name: "devs"}, "", ""}, // a user is not a group
		{&user.Info{Groups: []string{"lost"}}, "", `RBAC: clusterrole.rbac.authorization.k8s.io "nothing" not found`},
		{&user.Info{Groups: []string{"lost"}}, "ns", `RBAC: [clusterrole.rbac.authorization.k8s.io "nothing" not found, role.rbac.authorization.k8s.io "none" not found]`},
		{nil, "ns", ""},
	} {
		decision, reason, err := a.Authorize(context.Background(), authz.Attributes{
			User: test.user, Verb: "get", Resource: "pods", Namespace: test.namespace})
		if reason != test.want || err != nil {
			t.Errorf("%+v in %q: %q %v", test.user, test.namespace, reason, err)
		}
		if allowed := len(test.want) > 13 && test.want[:13] == "RBAC: allowed"; allowed != (decision == authz.Allow) {
			t.Errorf("%+v in %q: %v", test.user, test.namespace, decision)
		}
	}
}

func TestNotSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPolicy()
		p.roleBindings = localcache.NewUnsynced(localcache.KeyOf[*rbacv1.RoleBinding])
		p.clusterRoles, p.clusterRoleBindings = localcache.NewMap(clusterRole("r", getPods)), localcache.NewMap(clusterBinding("b", "r", group("g")))
		a, err := rbac.New(rbac.Config{Roles: p.roles, RoleBindings: p.roleBindings,
			ClusterRoles: p.clusterRoles, ClusterRoleBindings: p.clusterRoleBindings})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- a.Run(ctx) }()
		synctest.Wait()
		at := authz.Attributes{User: &user.Info{Groups: []string{"g"}}, Verb: "get", Resource: "pods"}
		if decision, _, err := a.Authorize(ctx, at); decision != authz.NoOpinion || !errors.Is(err, rbac.ErrNotSynced) || !errors.Is(err, authz.ErrNotReady) {
			t.Errorf("before sync: %v %v", decision, err)
		}
		p.roleBindings.Sync()
		synctest.Wait()
		if decision, _, err := a.Authorize(ctx, at); decision != authz.Allow || err != nil {
			t.Errorf("after sync: %v %v", decision, err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if p.roles.Subscriptions()+p.clusterRoleBindings.Subscriptions() > 0 {
			t.Error("still subscribed after Run")
		}
		if decision, _, _ := a.Authorize(context.Background(), at); decision != authz.Allow {
			t.Error("the last index is not in force after Run")
		}
	})
}

func TestNewRefusesMissingSources(t *testing.T) {
	if _, err := rbac.New(rbac.Config{}); err == nil {
		t.Error("no error")
	}
}

func TestAggregation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPolicy()
		top := clusterRole("top", rbacv1.PolicyRule{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}})
		top.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{
			{MatchLabels: map[string]string{"to": "top"}},
			{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "x", Operator: "bad"}}},
		}}
		// middle and top select each other: the circle must end.
		top.Labels = map[string]string{"to": "middle"}
		middle := clusterRole("middle")
		middle.Labels = map[string]string{"to": "top"}
		middle.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{
			{MatchLabels: map[string]string{"to": "middle"}}}}
		leaf := clusterRole("leaf", getPods)
		leaf.Labels = map[string]string{"to": "middle"}
		p.clusterRoles = localcache.NewMap(top, middle, leaf)
		p.clusterRoleBindings = localcache.NewMap(clusterBinding("b", "top", group("g")))
		a := p.start(t)
		may := func(verb string) bool {
			synctest.Wait()
			d, _, _ := a.Authorize(t.Context(), authz.Attributes{User: &user.Info{Groups: []string{"g"}}, Verb: verb, Resource: "pods"})
			return d == authz.Allow
		}
		if !may("get") {
			t.Error("rules of a role selected by a selected role are missing")
		}
		if may("delete") {
			t.Error("rules of an aggregating role itself must not count")
		}
		unlabelled := clusterRole("leaf", getPods)
		p.clusterRoles.Put(unlabelled)
		if may("get") {
			t.Error("still granted after the label was removed")
		}
		p.clusterRoles.Put(leaf)
		if !may("get") {
			t.Error("not granted after the label came back")
		}
		p.clusterRoles.Delete("leaf")
		if may("get") {
			t.Error("still granted after the role was deleted")
		}
	})
}

// lateCache gives its handler to the test instead of calling it.
type lateCache struct {
	*localcache.Map[*rbacv1.ClusterRole]
	handler  chan func(old, new *rbacv1.ClusterRole)
	caughtUp chan struct{}
}

func (c lateCache) Subscribe(handle func(old, new *rbacv1.ClusterRole)) localcache.Subscription {
	c.handler <- handle
	return localcache.Subscription{Stop: func() {}, CaughtUp: c.caughtUp}
}

// TestSyncedMeansReported: a cache has its first list before it has reported it,
// and no decision is made in between.
func TestSyncedMeansReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPolicy()
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "reader"}}
		roles := lateCache{localcache.NewMap(role), make(chan func(old, new *rbacv1.ClusterRole), 1), make(chan struct{})}
		a, err := rbac.New(rbac.Config{Roles: p.roles, RoleBindings: p.roleBindings,
			ClusterRoles: roles, ClusterRoleBindings: p.clusterRoleBindings})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- a.Run(ctx) }()
		synctest.Wait()
		select {
		case <-a.Synced():
			t.Error("decisions are made without the role")
		default:
		}
		(<-roles.handler)(nil, role)
		close(roles.caughtUp)
		<-a.Synced()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
