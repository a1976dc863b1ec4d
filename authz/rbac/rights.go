package rbac

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
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
// that the rules allow. With an error it returns what is missing from the rules that could be
// resolved.
func (a *Authorizer) Missing(_ context.Context, u *user.Info, namespace string, rules []rbacv1.PolicyRule) ([]rbacv1.PolicyRule, error) {
	x := a.index.Load()
	if x == nil {
		return uncovered(nil, rules), ErrNotSynced
	}
	var held []rbacv1.PolicyRule
	var missing []string
	if u != nil {
		add := func(granted []rbacv1.PolicyRule) { held = append(held, granted...) }
		x.visit("", u, &missing, add)
		if namespace != "" {
			x.visit(namespace, u, &missing, add)
		}
	}
	var err error
	if len(missing) > 0 {
		err = errors.New(strings.TrimPrefix(unresolved(missing), reasonPrefix))
	}
	return uncovered(held, rules), err
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
