package apiserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/planekit/planekit/apiserver/internal/ownership"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Subresource is served under an object's own path. It is one of [Status], [View], [Deletion],
// [Question] and [Proxy]. Every function in one must be safe for concurrent use.
type Subresource interface {
	// SubresourceName returns the path segment, such as "status".
	SubresourceName() string
	// resolve returns the subresource with its defaults, or an error if it would fail when it is
	// used.
	resolve() (subresource, error)
	// method returns the method that serves verb, nil if there is none.
	method(verb string) method
	// convert returns the subresource, which is one of r, for objects of another version.
	convert(r Resource, c *conversion) Subresource
}

// A Status changes a part of the object itself by a strategy of its own: status, finalize, approval.
// The zero Status is called status and serves get, update and patch.
type Status struct {
	// Name is the path segment; empty means status.
	Name string
	// Verbs lists the served verbs, out of get, update and patch; empty means all of them.
	Verbs []string
	// Strategy completes and checks the object when it is updated here.
	Strategy Strategy
	// Resets are the paths of the fields that a request cannot change here. Nil means spec for
	// status, and no field for subresources of another name.
	Resets []string
}

// A View shows the object as another type and changes it through that type: scale, binding.
type View struct {
	// Name is the path segment; required.
	Name string
	// Verbs lists the served verbs, out of get, update, patch and create; required.
	Verbs []string
	// Group, Version and Kind name New's type. If Version is empty, group and version are the
	// resource's.
	Group, Version, Kind string
	// New returns an empty object of the view's type. Required.
	New func() runtime.Object
	// From shows parent as the view's type. Get, update and patch require it. Without it a create is
	// answered with a Status of success.
	From func(parent runtime.Object) (runtime.Object, error)
	// Readable, if not nil, returns the error of a get of parent that has nothing to show.
	Readable func(parent runtime.Object) error
	// Base, if not nil, replaces From for what an update or a patch changes.
	Base func(parent runtime.Object) (runtime.Object, error)
	// Into changes parent, a copy of the stored object, as body demands, or returns an API status
	// error. All verbs but get require it.
	Into func(parent, body runtime.Object) error
	// Strategy completes and checks the changed object.
	Strategy Strategy
	// Replicas is the path of the object's field that the view shows as spec.replicas, such as
	// "spec.replicas". The owner of one is the owner of the other. Server-side apply requires it.
	Replicas string
}

// A Deletion deletes the object when an object of New's type is created here: eviction.
type Deletion struct {
	// Name is the path segment; required.
	Name string
	// Group, Version and Kind name New's type. If Version is empty, group and version are the
	// resource's.
	Group, Version, Kind string
	// Older lists older versions of Group in which clients may write the object. Their form is that of Version.
	Older []string
	// New returns an empty object of the type that is created. Required.
	New func() runtime.Object
	// Delete returns how to delete the object, or an API status error to refuse. It must not change
	// parent and body. If it fails with a Conflict, or the deletion does, it is called again with the
	// object as it is then. Required.
	Delete func(ctx context.Context, parent, body runtime.Object, in Namespace) (*metav1.DeleteOptions, error)
}

// A Namespace reads and writes the objects of all resources in the namespace of a request, as they
// are stored now.
type Namespace interface {
	// List returns the objects of a resource; none if it is not served. They are shared and must
	// not be changed.
	List(ctx context.Context, group, plural string) ([]runtime.Object, error)
	// Get returns one object of a resource from the store. It is shared and must not be changed.
	// Get fails with NotFound if there is none.
	Get(ctx context.Context, group, plural, name string) (runtime.Object, error)
	// Update stores a changed copy of one of them, without admission. The copy belongs to the
	// server afterwards. Update fails with a Conflict if the object has changed since it was read.
	Update(ctx context.Context, group, plural string, obj runtime.Object) error
}

// A Question is answered when an object of New's type is created here: token. Nothing is stored.
type Question struct {
	// Name is the path segment; required.
	Name string
	// Group, Version and Kind name New's type. If Version is empty, group and version are the
	// resource's.
	Group, Version, Kind string
	// New returns an empty object of the type that is created. Required.
	New func() runtime.Object
	// Answer returns the response to body. It compares the name and UID in body, if any, with those
	// of parent, which is shared and must not be changed. The user is in the context (see package
	// user), which [Annotate] and [Warn] take. Required.
	Answer func(ctx context.Context, parent, body runtime.Object) (runtime.Object, error)
}

// A Proxy connects clients with a server behind the object: log, exec.
type Proxy struct {
	// Name is the path segment; required.
	Name string
	// Verbs lists the served verbs, out of create, delete, get, patch and update; required. Delete
	// requires Paths.
	Verbs []string
	// Kind is the kind that discovery shows; empty means the resource's.
	Kind string
	// Options, if not nil, returns an empty object whose fields OpenAPI shows as the parameters of the query. With a Kind, it is
	// what admission sees of a connection; the path below the subresource is its field path. A subresource without is
	// read, which admission does not see.
	Options func() runtime.Object
	// Connect returns the handler of a request, after authorization and admission. The handler may
	// stream and take over the connection. parent is shared and must not be changed. Required.
	Connect func(parent runtime.Object) (http.Handler, error)
	// Paths passes all paths below the subresource to the handler, and allows the object's name to
	// stand between a scheme and a port: https:web:8443.
	Paths bool
}

// SubresourceName returns the path segment.
func (s Status) SubresourceName() string { return cmp.Or(s.Name, "status") }

// SubresourceName returns the path segment.
func (v View) SubresourceName() string { return v.Name }

// SubresourceName returns the path segment.
func (d Deletion) SubresourceName() string { return d.Name }

// SubresourceName returns the path segment.
func (q Question) SubresourceName() string { return q.Name }

// SubresourceName returns the path segment.
func (p Proxy) SubresourceName() string { return p.Name }

// subresource is a Subresource of a resource that is served.
type subresource struct {
	Subresource
	name  string
	verbs []string
	// gvk is the kind that it takes and shows. Empty fields are those of the resource.
	gvk schema.GroupVersionKind
	// newBody returns an empty object of that kind; nil if it is the resource's own type.
	newBody func() runtime.Object
	// replicas converts the owners of a View with Replicas; nil for all others.
	replicas ownership.Replicas
}

func (s Status) resolve() (subresource, error) {
	if s.Name = s.SubresourceName(); len(s.Verbs) == 0 {
		s.Verbs = []string{"get", "update", "patch"}
	}
	if s.Resets == nil && s.Name == "status" {
		s.Resets = []string{"spec"}
	}
	out := subresource{Subresource: s, name: s.Name, verbs: s.Verbs}
	return out, out.check("get", "update", "patch")
}

func (v View) resolve() (subresource, error) {
	out := subresource{Subresource: v, name: v.Name, verbs: v.Verbs, gvk: gvkOf(v.Group, v.Version, v.Kind), newBody: v.New}
	serves := func(verb string) bool { return slices.Contains(v.Verbs, verb) }
	changes := serves("update") || serves("patch")
	return out, errors.Join(
		out.check("get", "update", "patch", "create"),
		required(v.New != nil, "New must be set"),
		required(v.Into != nil || !changes && !serves("create"), "writing needs Into"),
		required(v.From != nil || !changes && !serves("get"), "get, update and patch need From"))
}

func (d Deletion) resolve() (subresource, error) {
	out := subresource{Subresource: d, name: d.Name, verbs: []string{"create"}, gvk: gvkOf(d.Group, d.Version, d.Kind), newBody: d.New}
	return out, errors.Join(out.check("create"), required(d.New != nil && d.Delete != nil, "New and Delete must be set"))
}

func (q Question) resolve() (subresource, error) {
	out := subresource{Subresource: q, name: q.Name, verbs: []string{"create"}, gvk: gvkOf(q.Group, q.Version, q.Kind), newBody: q.New}
	return out, errors.Join(out.check("create"), required(q.New != nil && q.Answer != nil, "New and Answer must be set"))
}

func (p Proxy) resolve() (subresource, error) {
	out := subresource{Subresource: p, name: p.Name, verbs: p.Verbs, gvk: gvkOf("", "", p.Kind)}
	return out, errors.Join(
		out.check("create", "delete", "get", "patch", "update"),
		required(p.Connect != nil, "Connect must be set"),
		required(p.Paths || !slices.Contains(p.Verbs, "delete"), "delete needs Paths"))
}

func gvkOf(group, version, kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: group, Version: version, Kind: kind}
}

// as returns sub as one of the five kinds, and whether it is that kind.
func as[T Subresource](sub *subresource) (T, bool) {
	if sub == nil {
		return *new(T), false
	}
	out, ok := sub.Subresource.(T)
	return out, ok
}

// strategy returns the strategy of updates through the subresource.
func (s *subresource) strategy() *Strategy {
	switch sub := s.Subresource.(type) {
	case Status:
		return &sub.Strategy
	case View:
		return &sub.Strategy
	}
	return &Strategy{}
}

// check returns an error if the name or the verbs are missing, or a verb is not one of allowed.
func (s *subresource) check(allowed ...string) error {
	if s.name == "" || len(s.verbs) == 0 {
		return errors.New("name and verbs must be set")
	}
	for _, verb := range s.verbs {
		if !slices.Contains(allowed, verb) {
			return fmt.Errorf("it cannot serve %s, only %s", verb, strings.Join(allowed, ", "))
		}
	}
	return nil
}

func required(ok bool, message string) error {
	if ok {
		return nil
	}
	return errors.New(message)
}
