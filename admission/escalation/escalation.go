// Package escalation prevents users from granting permissions that they do not have, when a role or
// a binding is written
// (https://kubernetes.io/docs/reference/access-authn-authz/rbac/#privilege-escalation-prevention-and-bootstrapping).
//
//	grants, err := escalation.New(escalation.Config{
//		Rights: roles, Authorizer: may, // roles is an rbac.Authorizer
//		LookupClusterRole: typed.ClusterRoles(api).Get, LookupRole: typed.Roles(api).Get,
//	})
//	chain := admission.Chain{Validators: []admission.Validator{grants}}
//
// To write a Role or ClusterRole, a user must hold every permission in it, in the namespace of the
// role or in the whole cluster, or be allowed the verb escalate on it. To write a RoleBinding or
// ClusterRoleBinding, a user must hold every permission of the role, or be allowed the verb bind on
// it. A ClusterRole that aggregates other roles, before or after the change, requires all
// permissions, because it can collect any. Members of system:masters may do everything.
//
// An update that changes only finalizers and owners passes. Other updates are checked even if they
// do not change the rules: a label may make a role part of another.
//
// Permissions that a user has through authorizers other than Rights are not considered and cannot
// be granted.
package escalation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/internal/collection"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/internal/budget"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Rights resolves the permissions of users and roles.
type Rights interface {
	// Missing returns the parts of rules that u does not hold in namespace, or in the whole cluster
	// if it is empty, in the form used in messages. With an error it returns what is missing from
	// the rules that could be resolved. An error that is budget.ErrExceeded means that not all rules
	// could be compared.
	Missing(ctx context.Context, u *user.Info, namespace string, rules []rbacv1.PolicyRule) ([]rbacv1.PolicyRule, error)
	// RoleRules returns the rules of the role that a binding in namespace refers to, including
	// aggregated ones, and whether the role is known.
	RoleRules(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, bool)
}

// Config configures the plugin. Rights and Authorizer are required.
type Config struct {
	Rights     Rights
	Authorizer authz.Authorizer
	// LookupClusterRole and LookupRole read a role from the store, and fail with a NotFound API
	// error if it does not exist. They are used for roles that Rights does not know yet. If nil,
	// such roles cannot be bound.
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

// Validate refuses to grant permissions that the user does not have.
func (p *Plugin) Validate(ctx context.Context, r *admission.Request) error {
	if r.Subresource != "" || r.Operation != admission.Create && r.Operation != admission.Update || r.User.In(user.Masters) {
		return nil
	}
	switch o := r.Object.(type) {
	case *rbacv1.Role:
		if collection.Only(r, o) || p.mayEscalate(ctx, r) {
			return nil
		}
		return p.holds(ctx, r, o.Rules)
	case *rbacv1.ClusterRole:
		if collection.Only(r, o) || p.mayEscalate(ctx, r) {
			return nil
		}
		return p.clusterRole(ctx, r, o)
	case *rbacv1.RoleBinding:
		if collection.Only(r, o) || p.mayBind(ctx, r, o.RoleRef) {
			return nil
		}
		return p.binding(ctx, r, o.RoleRef)
	case *rbacv1.ClusterRoleBinding:
		if collection.Only(r, o) || p.mayBind(ctx, r, o.RoleRef) {
			return nil
		}
		return p.binding(ctx, r, o.RoleRef)
	}
	return nil
}

// everything is the rules that contain all permissions.
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
	missing, err := p.config.Rights.Missing(ctx, r.User, r.Namespace, everything)
	if len(missing) > 0 || undecided(ctx, err) {
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

// lookup reads the rules of a role that Rights does not know. An aggregating role counts as having
// all permissions, because its rules are not known.
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

// holds refuses r unless its user holds all rules.
func (p *Plugin) holds(ctx context.Context, r *admission.Request, rules []rbacv1.PolicyRule) error {
	missing, unresolved := p.config.Rights.Missing(ctx, r.User, r.Namespace, rules)
	switch {
	case len(missing) > 0:
	case undecided(ctx, unresolved):
		return unresolved
	default:
		return nil
	}
	var name string
	var groups []string
	if r.User != nil {
		name, groups = r.User.Name, r.User.Groups
	}
	text := fmt.Sprintf("user %q (groups=%q) is attempting to grant RBAC permissions not currently held:\n%s",
		name, groups, strings.Join(list(missing), "\n"))
	if unresolved != nil {
		text += fmt.Sprintf("; resolution errors: [%v]", unresolved)
	}
	return admission.Forbidden(r, errors.New(text))
}

// undecided reports whether err means that a permission may be missing that is not known to be.
func undecided(ctx context.Context, err error) bool {
	return errors.Is(err, budget.ErrExceeded) || ctx.Err() != nil
}

// maxListed bounds the size of a list of permissions in bytes. The roles of a cluster with many
// resources fit, and words of a megabyte do not.
const maxListed = 256 << 10

// list describes rules in order, until they take more than maxListed bytes.
func list(rules []rbacv1.PolicyRule) []string {
	var lines []string
	size := 0
	for i := range rules {
		lines = append(lines, describe(&rules[i]))
		if size += len(lines[i]); size > maxListed && i < len(rules)-1 {
			lines[i] = fmt.Sprintf("%d others", len(rules)-i)
			break
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// describe formats a rule as Kubernetes does.
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
