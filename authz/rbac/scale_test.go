package rbac_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/internal/budget"
	"github.com/planekit/planekit/localcache"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// bound returns n bindings of ann in the namespace shop to roles with these names, again and again.
func bound(n int, roles ...string) *localcache.Map[*rbacv1.RoleBinding] {
	bindings := localcache.NewMap[*rbacv1.RoleBinding]()
	for i := range n {
		bindings.Put(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint(i)},
			RoleRef:  rbacv1.RoleRef{Kind: "Role", Name: roles[i%len(roles)]},
			Subjects: []rbacv1.Subject{{Kind: "User", Name: "ann"}}})
	}
	return bindings
}

// wideRole lists n names that ann may read.
func wideRole(name string, n int) *rbacv1.Role {
	rule := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}
	for i := range n {
		rule.ResourceNames = append(rule.ResourceNames, fmt.Sprint("pod-", i))
	}
	return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Rules: []rbacv1.PolicyRule{rule}}
}

// TestManyBindingsToOneRole: a role that 10,000 bindings give to a user is compared, listed and looked
// at once.
func TestManyBindingsToOneRole(t *testing.T) {
	p := newPolicy()
	p.roles = localcache.NewMap(wideRole("wide", 2000))
	p.roleBindings = bound(10_000, "wide")
	a := p.start(t)
	ann := &user.Info{Name: "ann"}
	rules, err := a.RulesFor(t.Context(), ann, "shop")
	if len(rules.Resources) != 1 || rules.Incomplete || err != nil {
		t.Errorf("RulesFor(ann) = %d rules, incomplete %v, %v, want 1, false, nil", len(rules.Resources), rules.Incomplete, err)
	}
	missing, err := a.Missing(t.Context(), ann, "shop", wideRole("", 2001).Rules)
	if len(missing) != 1 || err != nil {
		t.Errorf("Missing(2001 pods) = %d rules, %v, want 1, nil", len(missing), err)
	}
	at := authz.Attributes{User: ann, Verb: "get", Resource: "pods", Namespace: "shop", Name: "other"}
	began := time.Now()
	for range 50 {
		if d, _, err := a.Authorize(t.Context(), at); d != authz.NoOpinion || err != nil {
			t.Fatalf("Authorize(%+v) = %v, %v, want NoOpinion, nil", at, d, err)
		}
	}
	// To compare 2000 names takes about 10 us, and to walk 10,000 bindings as much.
	if took := time.Since(began); took > time.Second {
		t.Errorf("50 decisions take %v, want less than 1s", took)
	}
	// A binding that goes makes room for the next one.
	for i := range 9_999 {
		p.roleBindings.Delete(fmt.Sprint("shop/", i))
	}
	at.Name = "pod-1"
	for range 1000 {
		if d, reason, _ := a.Authorize(t.Context(), at); d != authz.Allow {
			t.Fatalf("Authorize(%+v) = %v, %q after other bindings have gone, want Allow", at, d, reason)
		}
	}
}

// TestManyMissingRoles: the reason that names missing roles is bounded.
func TestManyMissingRoles(t *testing.T) {
	p := newPolicy()
	var names []string
	for i := range 10_000 {
		names = append(names, fmt.Sprint("gone-", i))
	}
	p.roleBindings = bound(len(names), names...)
	a := p.start(t)
	ann := &user.Info{Name: "ann"}
	_, reason, err := a.Authorize(t.Context(), authz.Attributes{User: ann, Verb: "get", Resource: "pods", Namespace: "shop"})
	if len(reason) > 8<<10 || !strings.HasSuffix(reason, ", and 9900 others]") || err != nil {
		t.Errorf("Authorize() = %.100q... of %d bytes, %v, want at most 8 KiB that end in the number of others", reason, len(reason), err)
	}
	if _, err := a.RulesFor(t.Context(), ann, "shop"); err == nil || len(err.Error()) > 8<<10 {
		t.Errorf("RulesFor(ann) = an error of %d bytes, want at most 8 KiB", len(err.Error()))
	}
}

// TestListsWithinBudget: rules that do not fit in the budget of a request are left out of the list.
func TestListsWithinBudget(t *testing.T) {
	p := newPolicy()
	var names []string
	p.roles = localcache.NewMap[*rbacv1.Role]()
	for i := range 100 {
		names = append(names, fmt.Sprint("wide-", i))
		p.roles.Put(wideRole(names[i], 10_000))
	}
	p.roleBindings = bound(len(names), names...)
	a := p.start(t)
	ctx := budget.Attach(t.Context(), budget.Default)
	rules, err := a.RulesFor(ctx, &user.Info{Name: "ann"}, "shop")
	if !rules.Incomplete || len(rules.Resources) == 0 || len(rules.Resources) > 90 || err == nil {
		t.Errorf("RulesFor(ann) = %d rules, incomplete %v, %v, want some of 100, true, an error", len(rules.Resources), rules.Incomplete, err)
	}
}

// TestAggregatesManyRules: the union of roles with many rules is built in time that grows with them.
func TestAggregatesManyRules(t *testing.T) {
	p := newPolicy()
	part := clusterRole("part")
	part.Labels = map[string]string{"in": "sum"}
	for i := range 30_000 {
		part.Rules = append(part.Rules, rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: []string{fmt.Sprint(i)}})
	}
	part.Rules = append(part.Rules, slices.Clone(part.Rules)...)
	sum := clusterRole("sum")
	sum.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: part.Labels}}}
	p.clusterRoles = localcache.NewMap(part, sum)
	began := time.Now()
	a := p.start(t)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the union of 60,000 rules takes %v, want less than 10s", took)
	}
	rules, ok := a.RoleRules(rbacv1.RoleRef{Kind: "ClusterRole", Name: "sum"}, "")
	if len(rules) != 30_000 || !ok {
		t.Errorf("RoleRules(sum) = %d rules, %v, want 30000, true", len(rules), ok)
	}
}
