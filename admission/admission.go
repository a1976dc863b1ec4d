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
package admission

import (
	"context"

	"github.com/planekit/planekit/authn/user"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	Resource schema.GroupVersionResource
	Kind     schema.GroupVersionKind
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

	// Object is the object as it will be stored; nil on delete. A mutator
	// changes it in place. A validator must not change it.
	Object runtime.Object
	// OldObject is the object as it is stored now; nil on create. It is shared
	// and must never be changed.
	OldObject runtime.Object

	// Warn, when not nil, sends a message to the client in a Warning header.
	Warn func(message string)
}

// A Mutator completes an object. Returning an error refuses the request: an
// API status error (k8s.io/apimachinery/pkg/api/errors) goes to the client as
// it is, any other becomes 403 Forbidden with its text. Must be safe for
// concurrent use.
type Mutator interface {
	Mutate(context.Context, *Request) error
}

// A Validator accepts or refuses a request without changing it. Errors are
// treated as those of a [Mutator]. Must be safe for concurrent use.
type Validator interface {
	Validate(context.Context, *Request) error
}
