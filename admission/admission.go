// Package admission changes and validates requests before they are stored.
//
// After authorization and before storage, every create, update, delete and connect passes a
// [Chain]: all mutators run first, in order, and may change the object. Then all validators run, in
// order, and must not change it. The first refusal ends the request with its message.
//
//	chain := admission.Chain{
//		Mutators:   []admission.Mutator{namespaces, accounts},
//		Validators: []admission.Validator{accounts},
//	}
//
// A plugin is a Go type with Mutate, Validate or both. planekit's plugins are subpackages with the
// names known from --enable-admission-plugins. Reads are not admitted.
//
// This package does not depend on Kubernetes types. Its terms are those of Kubernetes' admission
// (https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/).
package admission

import (
	"context"
	"time"

	"github.com/planekit/planekit/authn/user"
)

// Operation is the operation of a request on its object.
type Operation string

// The operations that are admitted.
const (
	Create  Operation = "CREATE"
	Update  Operation = "UPDATE"
	Delete  Operation = "DELETE"
	Connect Operation = "CONNECT"
)

// Request is one operation on one object before it is stored. It belongs to one goroutine; plugins
// run one after another and must not keep it.
type Request struct {
	Operation Operation
	// Resource and Kind are the type as addressed by the request.
	Resource GroupVersionResource
	Kind     GroupVersionKind
	// Subresource is a name such as "status" or "binding"; empty for the object itself.
	Subresource string
	// Namespace is empty for cluster-scoped objects.
	Namespace string
	// Name is empty for a create with generateName until the name is generated, after all mutators.
	Name string
	// User is the user that sent the request.
	User *user.Info
	// DryRun means that nothing will be stored. A plugin must then have no effects outside the
	// request.
	DryRun bool

	// Object is the object to be stored; nil for delete and connect. A mutator changes it in place
	// or replaces it by another of the same Go type. A validator must not change it. A mutator sees a
	// new object without UID and creationTimestamp, which the server sets afterwards.
	Object any
	// OldObject is the stored object; nil for create. It is shared and must not be changed.
	OldObject any
	// Options are the options of the request, such as a *metav1.CreateOptions; nil for connect.
	// They must not be changed.
	Options any

	// Equivalents, if not nil, converts the objects of the request for plugins that know them in another version.
	Equivalents Equivalents

	// Waited, if not nil, receives the time in which the request waited for webhooks. It is called in the
	// request's own goroutine.
	Waited func(time.Duration)

	// Warn, if not nil, sends a message to the client in a Warning header.
	Warn func(message string)
	// Annotate, if not nil, adds to the audit event of the request. The key begins with a domain,
	// such as "podsecurity.example.com/level". A second value for a key is dropped.
	Annotate func(key, value string)
	// AnnotateBody is Annotate for values that reveal as much as the body of the request. It is nil
	// if the audit event contains no bodies.
	AnnotateBody func(key, value string)
}

// GroupVersionResource is a resource as named in URLs. The core group is "".
type GroupVersionResource struct{ Group, Version, Resource string }

// GroupVersionKind is a type as named in objects.
type GroupVersionKind struct{ Group, Version, Kind string }

// An Equivalent is another type in which the objects of a resource are served: another version of it, or the same
// resource in another group. If a request is for a subresource, Kind is that of the subresource.
type Equivalent struct {
	Resource GroupVersionResource
	Kind     GroupVersionKind
}

// Equivalents knows the equivalents of the resource of a request. It belongs to the request, as its objects do.
type Equivalents interface {
	// All returns all but the request's own type. The slice is shared.
	All() []Equivalent
	// Convert returns object as one of another type. It does not change object, but the result may share its parts.
	// from and to are out of All or the request's own type. Convert may call a webhook.
	Convert(ctx context.Context, object any, from, to Equivalent) (any, error)
}

// A Mutator completes an object. An error refuses the request. An error with an API status (such as
// those of k8s.io/apimachinery/pkg/api/errors) is sent to the client unchanged. An error that means
// that the plugin could not decide, because a store or a connection failed or a timeout expired,
// becomes 5xx, even within a [ForbiddenError]. Any other error becomes 403 Forbidden with its text.
// A Mutator must be safe for concurrent use.
type Mutator interface {
	Mutate(context.Context, *Request) error
}

// A Validator accepts or refuses a request without changing it. Its errors are treated like those
// of a [Mutator]. It must be safe for concurrent use.
type Validator interface {
	Validate(context.Context, *Request) error
}
