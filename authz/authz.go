// Package authz decides whether a user may do what a request asks.
//
// An [Authorizer] answers [Allow], [Deny] or [NoOpinion]. A [Chain] asks
// several in order: the first Allow or Deny decides, and when nobody has an
// opinion the answer is no.
//
//	may := authz.Chain{superusers, roles}
//	decision, reason, err := may.Authorize(ctx, authz.Attributes{
//		User: u, Verb: "get", Resource: "pods", Namespace: "default", Name: "web",
//	})
//
// [Handler] puts an authorizer in front of any http.Handler.
//
// Ways of deciding are packages below this one (rbac ...). This package knows
// nothing of Kubernetes types; its words are those of the Kubernetes
// authorization attributes
// (https://kubernetes.io/docs/reference/access-authn-authz/authorization/).
package authz

import (
	"context"

	"github.com/planekit/planekit/authn/user"
)

// Attributes are what a decision may depend on. A request is either for a
// resource (Resource is set) or for a path (Path is set), never both.
type Attributes struct {
	// User is who asks. Nil is treated as a user without name or groups.
	User *user.Info
	// Verb is the Kubernetes verb for a resource (get list watch create update
	// patch delete deletecollection ...), the lower-case HTTP method for a path.
	Verb string

	// Group and Version are the API group and version. The core group is "".
	Group, Version string
	// Resource is the plural lower-case name, such as "pods". Empty for a path.
	Resource string
	// Subresource is such as "status"; empty for the resource itself.
	Subresource string
	// Namespace is empty for cluster-scoped resources and for requests across
	// all namespaces.
	Namespace string
	// Name is empty where the request names no object (list, create ...).
	Name string
	// Fields and Labels are what the selectors of a list, a watch or a
	// deletecollection ask for; empty where there are none that can be read. They only
	// narrow: who ignores them decides about all objects.
	Fields, Labels []Requirement

	// Path is the URL path of a request that is not for a resource.
	Path string
}

// Decision is an authorizer's answer. The zero value, NoOpinion, grants nothing.
type Decision int

// The three answers.
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

// An Authorizer decides on attributes. The string is a reason for people to
// read; it may be empty. An error means that the authorizer could not look at
// all it should have; it comes with NoOpinion or Deny, never with Allow.
//
// Authorize must be safe for concurrent use and must not change or keep the
// user and the requirements it is given.
type Authorizer interface {
	Authorize(context.Context, Attributes) (Decision, string, error)
}

// Func is a function that is an [Authorizer].
type Func func(context.Context, Attributes) (Decision, string, error)

// Authorize calls f.
func (f Func) Authorize(ctx context.Context, a Attributes) (Decision, string, error) {
	return f(ctx, a)
}
