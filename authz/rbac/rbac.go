// Package rbac authorizes by Kubernetes roles and bindings
// (https://kubernetes.io/docs/reference/access-authn-authz/rbac/).
//
//	roles, err := rbac.New(rbac.Config{
//		Roles: roleInformer, RoleBindings: roleBindingInformer,
//		ClusterRoles: clusterRoleInformer, ClusterRoleBindings: clusterRoleBindingInformer,
//	})
//	go roles.Run(ctx)
//	may := authz.Chain{authz.Superusers(user.Masters), roles}
//
// Run follows the four caches and keeps an immutable index of subjects and their bindings. A
// decision reads the current index and looks only at the bindings of the user and its groups, so
// that its cost does not depend on the number of other bindings. The index may briefly be behind
// the caches, but each index contains only complete changes.
//
// RBAC only grants: the answers are Allow and NoOpinion. Before the caches have synced, and without
// Run, the answer is NoOpinion with [ErrNotSynced]. A binding to a missing role grants nothing and
// is mentioned in the reason. After Run has returned, the last index stays in force.
//
// Roles with an aggregation rule grant what the selected roles grant. This is computed here; no
// controller needs to copy rules. [Authorizer.RulesFor] lists the permissions of a user. Privilege
// escalation (the verbs escalate and bind) is prevented in admission, with [Authorizer.Missing] and
// [Authorizer.RoleRules].
//
// [Static] returns an authorizer for fixed roles and bindings:
//
//	may := rbac.Static(rbac.Policy{ClusterRoles: roles, ClusterRoleBindings: bindings})
//
// [Bootstrap] is the policy of a new cluster, and [Reconcile] returns the writes that establish a
// policy.
package rbac

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/localcache"
	rbacv1 "k8s.io/api/rbac/v1"
)

// Config configures an Authorizer. All caches are required.
type Config struct {
	Roles               localcache.Subscriber[*rbacv1.Role]
	RoleBindings        localcache.Subscriber[*rbacv1.RoleBinding]
	ClusterRoles        localcache.Subscriber[*rbacv1.ClusterRole]
	ClusterRoleBindings localcache.Subscriber[*rbacv1.ClusterRoleBinding]
	// Log receives errors in roles, such as an invalid selector.
	Log logr.Logger
}

// ErrNotSynced means that the caches of roles and bindings have not synced. It is an [authz.ErrNotReady].
var ErrNotSynced error = notSynced{}

type notSynced struct{}

func (notSynced) Error() string { return "rbac: roles and bindings are not synced yet" }

func (notSynced) Is(target error) bool { return target == authz.ErrNotReady }

// Authorizer is an authz.Authorizer.
type Authorizer struct {
	config Config
	index  atomic.Pointer[index]
	synced chan struct{}
	wake   chan struct{} // size 1: there are pending changes

	mu      sync.Mutex
	pending []change
}

// New returns an authorizer. It does not read the caches before Run.
func New(c Config) (*Authorizer, error) {
	if c.Roles == nil || c.RoleBindings == nil || c.ClusterRoles == nil || c.ClusterRoleBindings == nil {
		return nil, errors.New("rbac: all four sources must be set")
	}
	return &Authorizer{config: c, synced: make(chan struct{}), wake: make(chan struct{}, 1)}, nil
}

// Synced returns a channel that is closed when decisions can be made.
func (a *Authorizer) Synced() <-chan struct{} { return a.synced }

// Run keeps the index current until ctx is done. It may be called once.
func (a *Authorizer) Run(ctx context.Context) error {
	subscriptions := []localcache.Subscription{
		follow(a, a.config.Roles, roleChange), follow(a, a.config.RoleBindings, roleBindingChange),
		follow(a, a.config.ClusterRoles, clusterRoleChange), follow(a, a.config.ClusterRoleBindings, clusterRoleBindingChange),
	}
	for _, s := range subscriptions {
		defer s.Stop()
	}
	for _, s := range subscriptions {
		select {
		case <-s.CaughtUp:
		case <-ctx.Done():
			return nil
		}
	}
	b := newBuilder(a.config.Log)
	a.index.Store(b.apply(a.take()))
	close(a.synced)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.wake:
			a.index.Store(b.apply(a.take()))
		}
	}
}

// follow applies the changes of cache.
func follow[T any](a *Authorizer, cache localcache.Subscriber[T], translate func(old, new T) change) localcache.Subscription {
	return cache.Subscribe(func(old, new T) { a.add(translate(old, new)) })
}

func (a *Authorizer) add(c change) {
	a.mu.Lock()
	a.pending = append(a.pending, c)
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

func (a *Authorizer) take() []change {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.pending
	a.pending = nil
	return p
}

// Authorize looks for a rule that allows the request.
func (a *Authorizer) Authorize(_ context.Context, at authz.Attributes) (authz.Decision, string, error) {
	x := a.index.Load()
	if x == nil {
		return authz.NoOpinion, "", ErrNotSynced
	}
	u := at.User
	if u == nil {
		return authz.NoOpinion, "", nil
	}
	var missing []string
	if reason := x.allowed(&at, "", u, &missing); reason != "" {
		return authz.Allow, reason, nil
	}
	// Role bindings apply only to resources in their namespace, not to paths.
	if at.Resource != "" && at.Namespace != "" {
		if reason := x.allowed(&at, at.Namespace, u, &missing); reason != "" {
			return authz.Allow, reason, nil
		}
	}
	return authz.NoOpinion, unresolved(missing), nil
}

// allowed returns the reason by which a binding in namespace allows the request, or "".
func (x *index) allowed(at *authz.Attributes, namespace string, u *user.Info, missing *[]string) string {
	reason := x.search(at, subject{namespace, rbacv1.UserKind, u.Name}, missing)
	for i := 0; reason == "" && i < len(u.Groups); i++ {
		reason = x.search(at, subject{namespace, rbacv1.GroupKind, u.Groups[i]}, missing)
	}
	return reason
}

func (x *index) search(at *authz.Attributes, s subject, missing *[]string) string {
	grants, _ := x.grants.get(s)
	for _, g := range grants {
		if g.repeats {
			continue
		}
		rules, found := x.roles.get(g.role)
		if !found {
			*missing = append(*missing, g.role.missing())
			continue
		}
		for i := range rules {
			if matches(&rules[i], at) {
				return g.reason
			}
		}
	}
	return ""
}

// reasonPrefix is the prefix of reasons about missing roles.
const reasonPrefix = "RBAC: "

// maxUnresolved is the maximum number of missing roles that a reason names.
const maxUnresolved = 100

// unresolved returns Kubernetes' reason for bindings to missing roles, without duplicates.
func unresolved(missing []string) string {
	missing = distinct(missing)
	switch len(missing) {
	case 0:
		return ""
	case 1:
		return reasonPrefix + missing[0]
	}
	if more := len(missing) - maxUnresolved; more > 0 {
		missing = append(missing[:maxUnresolved], fmt.Sprintf("and %d others", more))
	}
	return reasonPrefix + "[" + strings.Join(missing, ", ") + "]"
}

// unresolvedError returns an error for bindings to missing roles, or nil.
func unresolvedError(missing []string) error {
	if len(missing) == 0 {
		return nil
	}
	return errors.New(strings.TrimPrefix(unresolved(missing), reasonPrefix))
}

func distinct(words []string) []string {
	if len(words) < 2 {
		return words
	}
	seen := make(map[string]bool, len(words))
	return slices.DeleteFunc(words, func(w string) bool {
		if seen[w] {
			return true
		}
		seen[w] = true
		return false
	})
}
