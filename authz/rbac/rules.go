package rbac

import (
	"context"
	"errors"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/internal/budget"
	rbacv1 "k8s.io/api/rbac/v1"
)

// RulesFor returns the rules of all roles that u is bound to in namespace or in the whole cluster.
// Bindings to missing roles are an error, which is returned together with the other rules. Rules
// that the budget of ctx does not cover are left out, and the others are incomplete.
func (a *Authorizer) RulesFor(ctx context.Context, u *user.Info, namespace string) (authz.Rules, error) {
	x := a.index.Load()
	if x == nil {
		return authz.Rules{Incomplete: true}, ErrNotSynced
	}
	var rules authz.Rules
	if u == nil {
		return rules, nil
	}
	b := budget.From(ctx)
	var exceeded error
	missing := x.visit(namespace, u, func(granted []rbacv1.PolicyRule) {
		for i := range granted {
			if exceeded == nil {
				exceeded = charge(b, &granted[i])
			}
			if exceeded == nil {
				addRule(&rules, &granted[i])
			}
		}
	})
	rules.Incomplete = exceeded != nil
	return rules, errors.Join(unresolvedError(missing), exceeded)
}

// charge charges b for listing a rule: a response repeats its words.
func charge(b *budget.Budget, rule *rbacv1.PolicyRule) error {
	size, words := 256, 0
	for _, list := range [][]string{rule.Verbs, rule.APIGroups, rule.Resources, rule.ResourceNames, rule.NonResourceURLs} {
		words += len(list)
		for _, word := range list {
			size += len(word) + 8
		}
	}
	if err := b.Memory(4 * size); err != nil { // the words, as JSON, as it is written, compressed
		return err
	}
	return b.Work(16*words + size/4)
}

// visit calls f once with the rules of each role that a binding in the cluster or in namespace gives
// to u. It returns those of the roles that are missing.
func (x *index) visit(namespace string, u *user.Info, f func([]rbacv1.PolicyRule)) (missing []string) {
	seen := map[roleKey]bool{}
	add := func(s subject) {
		grants, _ := x.grants.get(s)
		for _, g := range grants {
			if g.repeats || seen[g.role] {
				continue
			}
			seen[g.role] = true
			if granted, found := x.roles.get(g.role); found {
				f(granted)
			} else {
				missing = append(missing, g.role.missing())
			}
		}
	}
	in := []string{""}
	if namespace != "" {
		in = append(in, namespace)
	}
	for _, namespace := range in {
		add(subject{namespace, rbacv1.UserKind, u.Name})
		for _, group := range u.Groups {
			add(subject{namespace, rbacv1.GroupKind, group})
		}
	}
	return missing
}

func addRule(rules *authz.Rules, rule *rbacv1.PolicyRule) {
	if len(rule.Resources) > 0 {
		rules.Resources = append(rules.Resources, authz.ResourceRule{
			Verbs: rule.Verbs, Groups: rule.APIGroups, Resources: rule.Resources, Names: rule.ResourceNames,
		})
	}
	if len(rule.NonResourceURLs) > 0 {
		rules.Paths = append(rules.Paths, authz.PathRule{Verbs: rule.Verbs, Paths: rule.NonResourceURLs})
	}
}
