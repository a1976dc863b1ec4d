// Package kind describes a kind of objects once, for the server that stores them and for the
// clients, caches and controllers that use them.
//
//	var widgets = kind.Define(kind.Kind[*Widget]{
//		Group: "example.com", Version: "v1", Kind: "Widget", Plural: "widgets", Namespaced: true,
//	})
//
//	apiserver.For(widgets, apiserver.Resource{})  // what a server serves
//	client.For(api, widgets)                      // what a client reads and writes
//	informer.For(client.For(api, widgets))        // a local cache
//
// A kind may have several versions, each with a Go type of its own. Its objects are stored in one of
// them, and [NewVersion] tells how to convert them to and from another.
//
// Package kinds is the table of Kubernetes' own kinds. This package knows none of them, so that a
// program without them does not link them.
package kind

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Kind describes objects of the Go type T, which is a pointer.
type Kind[T any] struct {
	// Group is the API group; "" is the core group.
	Group string
	// Version is such as "v1". Servers store objects in it.
	Version string
	// Kind is such as "Pod". The list kind is Kind + "List", the singular is Kind in lower case.
	Kind string
	// Plural is the lower-case name in URLs, such as "pods".
	Plural string
	// ShortNames are the names that kubectl also accepts, such as "po".
	ShortNames []string
	// Categories are such as "all".
	Categories []string
	// Namespaced reports whether objects live in namespaces.
	Namespaced bool
	// New returns an empty object. Required; [Define] sets it.
	New func() T
	// NewList returns an empty list. A server requires it; [Define] sets it.
	NewList func() runtime.Object
	// Versions are further versions in which servers serve the objects. [In] returns the kind of
	// one for clients.
	Versions []Version
}

// GVK returns the kind with its group and version. Under the name GroupVersionKind, which
// [schema.ObjectKind] has, the linker would keep the method of every kind in every program.
func (k Kind[T]) GVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: k.Kind}
}

// GroupResource returns the plural with its group.
func (k Kind[T]) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.Plural}
}
