// Package user describes the user that sent a request. Authentication creates an Info;
// authorization, admission and audit read it.
//
// An Info is immutable once it has been put into a context, because all handlers of the request
// share it.
package user

import (
	"context"
	"slices"
)

// Names and groups with a meaning in Kubernetes
// (https://kubernetes.io/docs/reference/access-authn-authz/rbac/#default-roles-and-role-bindings).
const (
	Anonymous         = "system:anonymous"
	APIServer         = "system:apiserver"
	ControllerManager = "system:kube-controller-manager"
	Scheduler         = "system:kube-scheduler"

	Authenticated   = "system:authenticated"
	Unauthenticated = "system:unauthenticated"
	Masters         = "system:masters"
	Nodes           = "system:nodes"
	ServiceAccounts = "system:serviceaccounts"

	NodePrefix           = "system:node:"
	ServiceAccountPrefix = "system:serviceaccount:"
)

// Info describes an authenticated user. The zero value is a user without a name or groups.
type Info struct {
	// Name identifies the user among all active users, such as "jane" or
	// "system:node:worker-1". Never empty for a user who was authenticated.
	Name string
	// UID distinguishes users that had the same name at different times. It is empty if the
	// authenticator does not know it.
	UID string
	// Groups are the groups the user belongs to, in no particular order.
	Groups []string
	// Extra contains further information from the authenticator, by lower-case key.
	Extra map[string][]string
}

// In reports whether the user belongs to group. A nil Info belongs to none.
func (i *Info) In(group string) bool {
	return i != nil && slices.Contains(i.Groups, group)
}

type contextKey struct{}

// NewContext returns a context that contains u.
func NewContext(ctx context.Context, u *Info) context.Context {
	return context.WithValue(ctx, contextKey{}, u)
}

// FromContext returns the user in ctx, and false if there is none.
func FromContext(ctx context.Context) (*Info, bool) {
	u, ok := ctx.Value(contextKey{}).(*Info)
	return u, ok && u != nil
}
