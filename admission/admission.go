// Package admission decides whether something that may happen should, and
// completes it first.
//
// After authorization and before storage every create, update, delete and
// connect passes a [Chain]: all mutators run first, in order, and may change
// the object; then all validators run, in order, and may not. The first
// refusal ends the request with its message.
//
//	chain := admission.Chain{
//		Mutators:   []admission.Mutator{namespaces, accounts},
//		Validators: []admission.Validator{accounts},
//	}
//
// A plugin is one Go type with Mutate, Validate or both. Each that planekit
// ships is a package below this one, named as people know it from
// --enable-admission-plugins. Reads are never admitted.
//
// This package knows nothing of Kubernetes types; its words are those of
// Kubernetes' admission
// (https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/).
package admission

import (
	"context"

	"github.com/planekit/planekit/authn/user"
)

// Operation is what a request does to its object.
type Operation string

// The operations that are admitted.
const (
	Create  Operation = "CREATE"
	Update  Operation = "UPDATE"
	Delete  Operation = "DELETE"
	Connect Operation = "CONNECT"
)

// Request is one operation on one object on its way to storage. It belongs to
// one goroutine; plugins run one after another and must not keep it.
type Request struct {
	Operation Operation
	// Resource and Kind name the type as the request addressed it.
	Resource GroupVersionResource
	Kind     GroupVersionKind
	// Subresource is such as "status" or "binding"; empty for the object itself.
	Subresource string
	// Namespace is empty for cluster-scoped objects.
	Namespace string
	// Name is empty on a create with generateName until the name is made.
	Name string
	// User is who asks.
	User *user.Info
	// DryRun says that nothing will be stored: a plugin must have no effects
	// outside the request.
	DryRun bool

	// Object is the object as it will be stored; nil on delete and connect. A
	// mutator changes it in place, or puts another of the same Go type there. A
	// validator must not change it.
	Object any
	// OldObject is the object as it is stored now; nil on create. It is shared
	// and must never be changed.
	OldObject any
	// Options are those of the request, such as a *metav1.CreateOptions; nil on
	// connect. They must not be changed.
	Options any

	// Warn, when not nil, sends a message to the client in a Warning header.
	Warn func(message string)
	// Annotate, when not nil, adds to the audit event of the request. The key is
	// such as "podsecurity.example.com/level", which begins with whose it is; a
	// second value of a key is dropped.
	Annotate func(key, value string)
	// AnnotateBody is as Annotate, for what says as much as the body of the request
	// does. It is nil where the audit event has no bodies.
	AnnotateBody func(key, value string)
}

// GroupVersionResource names a resource as it is in URLs. The core group is "".
type GroupVersionResource struct{ Group, Version, Resource string }

// GroupVersionKind names a type as it is in objects.
type GroupVersionKind struct{ Group, Version, Kind string }

// A Mutator completes an object. Returning an error refuses the request: one
// that says which API status it is (as those of k8s.io/apimachinery/pkg/api/errors
// do) goes to the client as it is; one of a plugin that could not decide, because a
// store or a connection failed or a time ran out, becomes 5xx, also where it is wrapped
// in a [ForbiddenError]; any other becomes 403 Forbidden with its text.
// Must be safe for concurrent use.
type Mutator interface {
	Mutate(context.Context, *Request) error
}

// A Validator accepts or refuses a request without changing it. Errors are
// treated as those of a [Mutator]. Must be safe for concurrent use.
type Validator interface {
	Validate(context.Context, *Request) error
}
