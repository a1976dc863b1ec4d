// Package authz decides whether a user may make a request.
//
// An [Authorizer] answers [Allow], [Deny] or [NoOpinion]. A [Chain] asks several in order: the
// first Allow or Deny decides. If all answer NoOpinion, the request is not allowed.
//
//	may := authz.Chain{superusers, roles}
//	decision, reason, err := may.Authorize(ctx, authz.Attributes{
//		User: u, Verb: "get", Resource: "pods", Namespace: "default", Name: "web",
//	})
//
// [Handler] puts an authorizer in front of any http.Handler.
//
// Authorizers are subpackages: rbac, node, abac and webhook. This package does not depend on
// Kubernetes types. Its terms are those of the Kubernetes authorization attributes
// (https://kubernetes.io/docs/reference/access-authn-authz/authorization/).
package authz

import (
	"context"
	"errors"

	"github.com/planekit/planekit/authn/user"
)

// Attributes describes a request. It is either for a resource (Resource is set) or for a path (Path
// is set).
type Attributes struct {
	// User is the user of the request. Nil is treated as a user without name or groups.
	User *user.Info
	// Verb is the Kubernetes verb for a resource (get list watch create update patch delete
	// deletecollection ...), or the lower-case HTTP method for a path.
	Verb string

	// Group and Version are the API group and version. The core group is "".
	Group, Version string
	// Resource is the plural lower-case name, such as "pods". Empty for a path.
	Resource string
	// Subresource is a name such as "status"; empty for the resource itself.
	Subresource string
	// Namespace is empty for cluster-scoped resources and for requests across
	// all namespaces.
	Namespace string
	// Name is empty if the request names no object (list, create ...).
	Name string
	// Fields and Labels are the selectors of a list, a watch or a deletecollection; empty if there
	// are none or they cannot be parsed. They only narrow a request: an authorizer that ignores
	// them decides about all objects.
	Fields, Labels []Requirement

	// Path is the URL path of a request that is not for a resource.
	Path string
}

// Decision is the answer of an authorizer. The zero value, NoOpinion, grants nothing.
type Decision int

// The decisions.
const (
	NoOpinion Decision = iota
	Allow
	Deny
)

// String returns the decision as a lower-case word.
func (d Decision) String() string {
	switch d {
	case Allow:
		return "allow"
	case Deny:
		return "deny"
	}
	return "no opinion"
}

// ErrNotReady is in the error of an authorizer that has not read what it decides by, as at a start. A client may send the
// request again a second later.
var ErrNotReady = errors.New("the authorizer is not ready")

// An Authorizer decides on requests. The string is a reason for people to read; it may be empty. An
// error means that the authorizer could not read everything that it needs. It comes with NoOpinion
// or Deny, never with Allow.
//
// Authorize must be safe for concurrent use and must not change or keep the user and the
// requirements in its argument.
type Authorizer interface {
	Authorize(context.Context, Attributes) (Decision, string, error)
}

// Func adapts a function to an [Authorizer].
type Func func(context.Context, Attributes) (Decision, string, error)

// Authorize calls f.
func (f Func) Authorize(ctx context.Context, a Attributes) (Decision, string, error) {
	return f(ctx, a)
}
