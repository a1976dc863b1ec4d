// Package authorizers joins the authorizers of a control plane, by the names of
// kube-apiserver's --authorization-mode.
//
//	set, err := authorizers.New(authorizers.Config{Caches: caches})
//	// set.Authorizer goes to the API server; once that serves:
//	err = set.Start(ctx, stack)
//
// Members of system:masters may do everything. The modes are asked about all others,
// in order, until one allows or denies; a request about which none has an opinion is
// refused. Until the caches of RBAC have been read, RBAC and Node have no opinion, so
// that a server that is starting refuses rather than allows.
//
// RBAC runs in any case: the check against escalation, and those that ask for it by
// name, need it even where no mode does.
package authorizers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	nodeauthz "github.com/planekit/planekit/authz/node"
	"github.com/planekit/planekit/authz/rbac"
	"github.com/planekit/planekit/plane/caches"
	"github.com/planekit/planekit/plane/stack"
)

// The modes, by the words of --authorization-mode.
const (
	Node        = "Node"
	RBAC        = "RBAC"
	ABAC        = "ABAC"
	Webhook     = "Webhook"
	AlwaysAllow = "AlwaysAllow"
	AlwaysDeny  = "AlwaysDeny"
)

// Modes returns all modes, in the order in which kube-apiserver lists them.
func Modes() []string { return []string{AlwaysAllow, AlwaysDeny, ABAC, Webhook, RBAC, Node} }

// patience is how long a node's request waits for the cache of pods to know its pod. A cache is behind by
// milliseconds, on a busy machine by some hundred.
const patience = 500 * time.Millisecond

// Config describes the authorizers. Caches must be set.
type Config struct {
	Caches *caches.Caches
	// Modes are asked in order. Nil is Node and RBAC.
	Modes []string
	// More are authorizers by further modes. The modes ABAC and Webhook, which need a
	// configuration of their own, are such.
	More map[string]authz.Authorizer
	// Log is silent when zero.
	Log logr.Logger
}

// A Set is the authorizers of one control plane. It asks them in order.
type Set struct {
	authz.Authorizer
	// RBAC decides by roles and bindings alone.
	RBAC *rbac.Authorizer

	nodes *nodeauthz.Authorizer // nil without the mode
}

// Check returns an error if modes are invalid. more are the names of modes in addition to those of
// this package.
func Check(modes []string, more ...string) error {
	if len(modes) == 0 {
		return errors.New("at least one mode is needed")
	}
	for i, mode := range modes {
		if all := append(Modes(), more...); !slices.Contains(all, mode) {
			return fmt.Errorf("%q is none of %v", mode, all)
		}
		if slices.Contains(modes[:i], mode) {
			return fmt.Errorf("%s is named twice", mode)
		}
	}
	return nil
}

// New makes the authorizers. They decide once Start has returned.
func New(c Config) (*Set, error) {
	if c.Modes == nil {
		c.Modes = []string{Node, RBAC}
	}
	var more []string
	for mode := range c.More {
		more = append(more, mode)
	}
	if err := Check(c.Modes, more...); err != nil {
		return nil, fmt.Errorf("authorizers: %w", err)
	}
	roles, err := rbac.New(rbac.Config{
		Roles:               c.Caches.Roles,
		RoleBindings:        c.Caches.RoleBindings,
		ClusterRoles:        c.Caches.ClusterRoles,
		ClusterRoleBindings: c.Caches.ClusterRoleBindings,
		Log:                 c.Log.WithName("rbac"),
	})
	if err != nil {
		return nil, err
	}
	s := &Set{RBAC: roles}
	chain := authz.Chain{authz.Superusers(user.Masters)}
	for _, mode := range c.Modes {
		next, err := s.authorizer(c, mode)
		if err != nil {
			return nil, err
		}
		chain = append(chain, next)
	}
	s.Authorizer = chain
	return s, nil
}

// authorizer returns the authorizer of one mode.
func (s *Set) authorizer(c Config, mode string) (authz.Authorizer, error) {
	if a, ok := c.More[mode]; ok {
		return a, nil
	}
	switch mode {
	case Node:
		var err error
		s.nodes, err = nodeauthz.New(nodeauthz.Config{
			Pods: c.Caches.Pods, Volumes: c.Caches.PersistentVolumes, Attachments: c.Caches.VolumeAttachments,
			Rest: rbac.Rules(rbac.NodeRules()), Patience: patience,
		})
		return s.nodes, err
	case RBAC:
		return s.RBAC, nil
	case AlwaysAllow:
		return authz.InsecureAlwaysAllow(), nil
	case AlwaysDeny:
		return authz.AlwaysDeny(), nil
	}
	return nil, fmt.Errorf("authorizers: mode %s needs an authorizer in Config.More", mode)
}

// Start starts the authorizers, whose caches must be running or about to, and returns
// once RBAC decides.
func (s *Set) Start(ctx context.Context, parts *stack.Stack) error {
	parts.Start("RBAC", s.RBAC.Run)
	if s.nodes != nil {
		parts.Start("node authorizer", s.nodes.Run)
	}
	return parts.Await(ctx, s.RBAC.Synced())
}
