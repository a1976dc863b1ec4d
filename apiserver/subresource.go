package apiserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// A Subresource is served under an object's own path. It is one of [Status], [View], [Deletion],
// [Question] and [Proxy]. Every function in one must be safe for concurrent use.
type Subresource interface {
	// SubresourceName returns the path segment, such as "status".
	SubresourceName() string
	// subresource returns what the server needs of it, or an error if it would fail when it is used.
	subresource() (subresource, error)
}

// A Status changes a part of the object itself by a strategy of its own: status, finalize, approval.
// The zero Status is called status and serves get, update and patch.
type Status struct {
	// Name is the path segment; empty means status.
	Name string
	// Verbs are those of get, update and patch that are served; empty means all of them.
	Verbs []string
	// Strategy completes and checks the object when it is updated here.
	Strategy Strategy
	// Resets are the paths of the fields that a request cannot change here. Nil means spec for
	// status, and no field for others.
	Resets []string
}

// A View shows the object as another type and changes it through that type: scale, binding.
type View struct {
	// Name is the path segment; required.
	Name string
	// Verbs are those of get, update, patch and create that are served; required.
	Verbs []string
	// Group, Version and Kind are those of New's type. If Version is empty, group and version are
	// the resource's.
	Group, Version, Kind string
	// New returns an empty object of the view's type. Required.
	New func() runtime.Object
	// From shows parent as the view's type. Get, update and patch require it. Without it a create is
	// answered with a Status of success.
	From func(parent runtime.Object) (runtime.Object, error)
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
	// Group, Version and Kind are those of New's type. If Version is empty, group and version are
	// the resource's.
	Group, Version, Kind string
	// New returns an empty object of the type that is created. Required.
	New func() runtime.Object
	// Delete returns how to delete the object, or an API status error to refuse. It must not change
	// parent and body. If it fails with a Conflict, or the deletion does, it is called again with the
	// object as it is then. Required.
	Delete func(ctx context.Context, parent, body runtime.Object, others Others) (*metav1.DeleteOptions, error)
}

// A Question is answered when an object of New's type is created here: token. Nothing is stored.
type Question struct {
	// Name is the path segment; required.
	Name string
	// Group, Version and Kind are those of New's type. If Version is empty, group and version are
	// the resource's.
	Group, Version, Kind string
	// New returns an empty object of the type that is created. Required.
	New func() runtime.Object
	// Answer returns the response to body. It compares the name and UID in body, if any, with those
	// of parent, which is shared and must not be changed. The user is in the context (see package
	// user), which [Annotate] and [Warn] take. Required.
	Answer func(ctx context.Context, parent, body runtime.Object) (runtime.Object, error)
}

// A Proxy connects clients with a server behind the object: log, exec. OpenAPI does not describe it.
type Proxy struct {
	// Name is the path segment; required.
	Name string
	// Verbs are those of create, delete, get, patch and update that are served; required. Delete
	// requires Paths.
	Verbs []string
	// Kind is the kind that discovery shows; empty means the resource's.
	Kind string
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

func (s Status) subresource() (subresource, error) {
	out := subresource{Name: s.SubresourceName(), Verbs: s.Verbs, Strategy: s.Strategy, Resets: s.Resets}
	if len(out.Verbs) == 0 {
		out.Verbs = []string{"get", "update", "patch"}
	}
	if out.Resets == nil && out.Name == "status" {
		out.Resets = []string{"spec"}
	}
	return out, out.check("get", "update", "patch")
}

func (v View) subresource() (subresource, error) {
	out := subresource{
		Name: v.Name, Verbs: v.Verbs, Group: v.Group, Version: v.Version, Kind: v.Kind,
		New: v.New, From: v.From, Into: v.Into, Strategy: v.Strategy, Replicas: v.Replicas,
	}
	serves := func(verb string) bool { return slices.Contains(v.Verbs, verb) }
	changes := serves("update") || serves("patch")
	return out, errors.Join(
		out.check("get", "update", "patch", "create"),
		required(v.New != nil, "New must be set"),
		required(v.Into != nil || !changes && !serves("create"), "writing needs Into"),
		required(v.From != nil || !changes && !serves("get"), "get, update and patch need From"))
}

func (d Deletion) subresource() (subresource, error) {
	out := subresource{
		Name: d.Name, Verbs: []string{"create"}, Group: d.Group, Version: d.Version, Kind: d.Kind, New: d.New, Delete: d.Delete,
	}
	return out, errors.Join(out.check("create"), required(d.New != nil && d.Delete != nil, "New and Delete must be set"))
}

func (q Question) subresource() (subresource, error) {
	out := subresource{
		Name: q.Name, Verbs: []string{"create"}, Group: q.Group, Version: q.Version, Kind: q.Kind, New: q.New, Answer: q.Answer,
	}
	return out, errors.Join(out.check("create"), required(q.New != nil && q.Answer != nil, "New and Answer must be set"))
}

func (p Proxy) subresource() (subresource, error) {
	out := subresource{Name: p.Name, Verbs: p.Verbs, Kind: p.Kind, Connect: p.Connect, Paths: p.Paths}
	return out, errors.Join(
		out.check("create", "delete", "get", "patch", "update"),
		required(p.Connect != nil, "Connect must be set"),
		required(p.Paths || !slices.Contains(p.Verbs, "delete"), "delete needs Paths"))
}

// subresource is any of the five kinds, as the server looks at them. The functions that are not of
// its kind are nil.
type subresource struct {
	Name                 string
	Verbs                []string
	Strategy             Strategy
	Resets               []string
	Replicas             string
	Group, Version, Kind string
	New                  func() runtime.Object
	From                 func(parent runtime.Object) (runtime.Object, error)
	Into                 func(parent, body runtime.Object) error
	Delete               func(ctx context.Context, parent, body runtime.Object, others Others) (*metav1.DeleteOptions, error)
	Answer               func(ctx context.Context, parent, body runtime.Object) (runtime.Object, error)
	Connect              func(parent runtime.Object) (http.Handler, error)
	Paths                bool
}

// check returns an error if the name or the verbs are missing, or a verb is not one of allowed.
func (s *subresource) check(allowed ...string) error {
	if s.Name == "" || len(s.Verbs) == 0 {
		return errors.New("name and verbs must be set")
	}
	for _, verb := range s.Verbs {
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
