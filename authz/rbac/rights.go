package rbac

import (
	"context"
	"errors"
	"slices"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/internal/budget"
	rbacv1 "k8s.io/api/rbac/v1"
)

// Rules returns an authorizer that allows every user what rules allow, and otherwise has no
// opinion. The rules must not be changed afterwards.
func Rules(rules []rbacv1.PolicyRule) authz.Authorizer { return staticRules(rules) }

type staticRules []rbacv1.PolicyRule

func (s staticRules) Authorize(_ context.Context, at authz.Attributes) (authz.Decision, string, error) {
	for i := range s {
		if matches(&s[i], &at) {
			return authz.Allow, "", nil
		}
	}
	return authz.NoOpinion, "", nil
}

// RulesFor returns all rules for any user.
func (s staticRules) RulesFor(context.Context, *user.Info, string) (authz.Rules, error) {
	var rules authz.Rules
	for i := range s {
		addRule(&rules, &s[i])
	}
	return rules, nil
}

// Missing returns the parts of rules that u does not hold in namespace, including cluster-wide
// rules, as rules for one resource or path each. An empty result means that u may do everything
// that the rules allow, provided that there is no error. With an error it returns what is missing
// from the rules that could be resolved, or as much of it as the budget of ctx and a limit of 10,000
// parts allow.
func (a *Authorizer) Missing(ctx context.Context, u *user.Info, namespace string, rules []rbacv1.PolicyRule) ([]rbacv1.PolicyRule, error) {
	x := a.index.Load()
	b := budget.From(ctx)
	if x == nil {
		missing, err := uncovered(b, nil, rules)
		return missing, errors.Join(ErrNotSynced, err)
	}
	var held []rbacv1.PolicyRule
	var missing []string
	if u != nil {
		missing = x.visit(namespace, u, func(granted []rbacv1.PolicyRule) { held = append(held, granted...) })
	}
	parts, err := uncovered(b, held, rules)
	return parts, errors.Join(unresolvedError(missing), err)
}

// RoleRules returns the rules of the role that a binding in namespace refers to, and whether the
// role exists. namespace is empty for a cluster role binding. An aggregating cluster role has the
// rules of the roles it selects. The rules must not be changed.
func (a *Authorizer) RoleRules(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, bool) {
	x := a.index.Load()
	key, ok := resolve(bindingKey{namespace: namespace}, ref)
	if x == nil || !ok {
		return nil, false
	}
	rules, ok := x.roles.get(key)
	return slices.Clip(rules), ok
}
