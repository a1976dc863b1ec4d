// Package kinds is the table of Kubernetes' kinds: each is described in one row, which the server,
// clients and caches share.
//
//	pods := typed.For(c, kinds.Pods)
//	fmt.Println(kinds.Pods.Plural, kinds.Pods.Namespaced)
//
// A row has the names of a kind and its Go type. What a server does with its objects is in a
// package of its group below apiserver/kube. The two have the same kinds: a test there compares
// them.
//
// Rows are values without functions to run at start, so that a program links the Go types of the
// rows that it names, and no others. They must not be changed.
package kinds

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Kind describes objects of the Go type T, which is a pointer.
type Kind[T any] struct {
	// Group is the API group; "" is the core group.
	Group string
	// Version is such as "v1".
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
	// New returns an empty object.
	New func() T
	// NewList returns an empty list.
	NewList func() runtime.Object
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

func object[V any]() *V { return new(V) }

// pointer is the constraint that *V is an object of the API.
type pointer[V any] interface {
	*V
	runtime.Object
}

func list[V any, P pointer[V]]() runtime.Object { return P(new(V)) }
