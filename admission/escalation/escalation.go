// Package escalation keeps people from granting rights that they do not have: the
// checks that Kubernetes makes when a role or a binding is written
// (https://kubernetes.io/docs/reference/access-authn-authz/rbac/#privilege-escalation-prevention-and-bootstrapping).
//
//	grants, err := escalation.New(escalation.Config{
//		Rights: roles, Authorizer: may, // roles is an rbac.Authorizer
//		LookupClusterRole: typed.ClusterRoles(api).Get, LookupRole: typed.Roles(api).Get,
//	})
//	chain := admission.Chain{Validators: []admission.Validator{grants}}
//
// Whoever writes a Role or ClusterRole must hold every right in it, in the
// namespace of the role or in the whole cluster, or be allowed the verb escalate on
// it. Whoever writes a RoleBinding or ClusterRoleBinding must hold every right of
// the role, or be allowed the verb bind on it. A ClusterRole that aggregates
// others, or did, takes all rights there are, since it can gather anything. Members
// of system:masters may do everything.
//
// An update that changes only finalizers and owners passes. No other does because
// it left the rules as they are: a label may make a role part of another.
//
// Nothing is said about rights that are held by way of authorizers other than
// Rights: they cannot be granted to others.
package escalation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Rights is who holds what.
type Rights interface {
	// Missing returns those of rules that u does not hold in namespace, or in the
	// whole cluster if that is empty, taken apart as far as messages should tell.
	// An error comes with what is missing from the rules that could be found.
	Missing(ctx context.Context, u *user.Info, namespace string, rules []rbacv1.PolicyRule) ([]rbacv1.PolicyRule, error)
	// RoleRules returns the rules of the role that a binding in namespace refers
	// to, those it aggregates included, and whether it is known.
	RoleRules(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, bool)
}

// Config says whom to ask. Rights and Authorizer must be set.
type Config struct {
	Rights     Rights
	Authorizer authz.Authorizer
	// LookupClusterRole and LookupRole read a role from where it is stored, and fail
	// with a NotFound API error when there is none. They are asked about roles that
	// Rights does not know yet; if nil, these cannot be bound yet.
	LookupClusterRole func(ctx context.Context, namespace, name string) (*rbacv1.ClusterRole, error)
	LookupRole        func(ctx context.Context, namespace, name string) (*rbacv1.Role, error)
}

// Plugin is an [admission.Validator].
type Plugin struct{ config Config }

// New returns the plugin.
func New(c Config) (*Plugin, error) {
	if c.Rights == nil || c.Authorizer == nil {
		return nil, errors.New("escalation: Rights and Authorizer must be set")
	}
	return &Plugin{c}, nil
}

// Validate refuses to grant what the user does not have.
func (p *Plugin) Validate(ctx context.Context, r *admission.Request) error {
	if r.Subresource != "" || r.Operation != admission.Create && r.Operation != admission.Update || r.User.In(user.Masters) {
		return nil
	}
	switch o := r.Object.(type) {
	case *rbacv1.Role:
		if unchanged(r, o) || p.mayEscalate(ctx, r) {
			return nil
		}
		return p.holds(ctx, r, o.Rules)
	case *rbacv1.ClusterRole:
		if unchanged(r, o) || p.mayEscalate(ctx, r) {
			return nil
		}
		return p.clusterRole(ctx, r, o)
	case *rbacv1.RoleBinding:
		if unchanged(r, o) || p.mayBind(ctx, r, o.RoleRef) {
			return nil
		}
		return p.binding(ctx, r, o.RoleRef)
	case *rbacv1.ClusterRoleBinding:
		if unchanged(r, o) || p.mayBind(ctx, r, o.RoleRef) {
			return nil
		}
		return p.binding(ctx, r, o.RoleRef)
	}
	return nil
}

// everything is all rights there are.
var everything = []rbacv1.PolicyRule{
	{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}},
	{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}},
}

func (p *Plugin) clusterRole(ctx context.Context, r *admission.Request, role *rbacv1.ClusterRole) error {
	if err := p.holds(ctx, r, role.Rules); err != nil {
		return err
	}
	old, _ := r.OldObject.(*rbacv1.ClusterRole)
	if !aggregates(role) && !aggregates(old) {
		return nil
	}
	if missing, _ := p.config.Rights.Missing(ctx, r.User, r.Namespace, everything); len(missing) > 0 {
		return admission.Forbidden(r, errors.New("must have cluster-admin privileges to use the aggregationRule"))
	}
	return nil
}

func aggregates(role *rbacv1.ClusterRole) bool {
	return role != nil && role.AggregationRule != nil && len(role.AggregationRule.ClusterRoleSelectors) > 0
}

func (p *Plugin) binding(ctx context.Context, r *admission.Request, ref rbacv1.RoleRef) error {
	rules, ok := p.config.Rights.RoleRules(ref, r.Namespace)
	if !ok {
		var err error
		if rules, err = p.lookup(ctx, ref, r.Namespace); err != nil {
			return err
		}
	}
	return p.holds(ctx, r, rules)
}

// lookup reads the rules of a role that is not known yet. What one aggregates is
// not known then either, and could be anything.
func (p *Plugin) lookup(ctx context.Context, ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
	switch {
	case ref.Kind == "Role" && p.config.LookupRole != nil:
		role, err := p.config.LookupRole(ctx, namespace, ref.Name)
		if err != nil {
			return nil, err
		}
		return role.Rules, nil
	case ref.Kind == "ClusterRole" && p.config.LookupClusterRole != nil:
		role, err := p.config.LookupClusterRole(ctx, "", ref.Name)
		if err != nil {
			return nil, err
		}
		if aggregates(role) {
			return everything, nil
		}
		return role.Rules, nil
	case ref.Kind == "Role":
		return nil, apierrors.NewNotFound(rbacv1.Resource("roles"), ref.Name)
	case ref.Kind == "ClusterRole":
		return nil, apierrors.NewNotFound(rbacv1.Resource("clusterroles"), ref.Name)
	}
	return nil, fmt.Errorf("unsupported role reference kind: %q", ref.Kind)
}

// holds refuses r if its user does not hold all rules.
func (p *Plugin) holds(ctx context.Context, r *admission.Request, rules []rbacv1.PolicyRule) error {
	missing, unresolved := p.config.Rights.Missing(ctx, r.User, r.Namespace, rules)
	if len(missing) == 0 {
		return nil
	}
	var lines []string
	for i := range missing {
		lines = append(lines, describe(&missing[i]))
	}
	slices.Sort(lines)
	var name string
	var groups []string
	if r.User != nil {
		name, groups = r.User.Name, r.User.Groups
	}
	text := fmt.Sprintf("user %q (groups=%q) is attempting to grant RBAC permissions not currently held:\n%s",
		name, groups, strings.Join(slices.Compact(lines), "\n"))
	if unresolved != nil {
		text += fmt.Sprintf("; resolution errors: [%v]", unresolved)
	}
	return admission.Forbidden(r, errors.New(text))
}

// describe words a rule as Kubernetes does.
func describe(r *rbacv1.PolicyRule) string {
	var fields []string
	for _, field := range []struct {
		name  string
		words []string
	}{
		{"APIGroups", r.APIGroups}, {"Resources", r.Resources}, {"NonResourceURLs", r.NonResourceURLs},
		{"ResourceNames", r.ResourceNames}, {"Verbs", r.Verbs},
	} {
		if len(field.words) > 0 {
			fields = append(fields, fmt.Sprintf("%s:%q", field.name, field.words))
		}
	}
	return "{" + strings.Join(fields, ", ") + "}"
}
