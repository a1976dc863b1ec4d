package rbac

import (
	"context"
	"errors"
	"strings"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	rbacv1 "k8s.io/api/rbac/v1"
)

// RulesFor returns the rules of all roles that u is bound to in namespace or in the whole cluster.
// Bindings to missing roles are an error, which is returned together with the other rules.
func (a *Authorizer) RulesFor(_ context.Context, u *user.Info, namespace string) (authz.Rules, error) {
	x := a.index.Load()
	if x == nil {
		return authz.Rules{Incomplete: true}, ErrNotSynced
	}
	var rules authz.Rules
	if u == nil {
		return rules, nil
	}
	var missing []string
	x.collect(&rules, "", u, &missing)
	if namespace != "" {
		x.collect(&rules, namespace, u, &missing)
	}
	if len(missing) > 0 {
		return rules, errors.New(strings.TrimPrefix(unresolved(missing), reasonPrefix))
	}
	return rules, nil
}

func (x *index) collect(rules *authz.Rules, namespace string, u *user.Info, missing *[]string) {
	x.visit(namespace, u, missing, func(granted []rbacv1.PolicyRule) {
		for i := range granted {
			addRule(rules, &granted[i])
		}
	})
}

// visit calls f once with the rules of each binding in namespace that names u.
func (x *index) visit(namespace string, u *user.Info, missing *[]string, f func([]rbacv1.PolicyRule)) {
	seen := map[bindingKey]bool{}
	add := func(kind, name string) {
		grants, _ := x.grants.get(subject{namespace, kind, name})
		for _, g := range grants {
			if seen[g.binding] {
				continue
			}
			seen[g.binding] = true
			if granted, found := x.roles.get(g.role); found {
				f(granted)
			} else {
				*missing = append(*missing, g.role.missing())
			}
		}
	}
	add(rbacv1.UserKind, u.Name)
	for _, group := range u.Groups {
		add(rbacv1.GroupKind, group)
	}
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
