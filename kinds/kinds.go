// Package kinds is the table of Kubernetes' kinds: each is described in one row, which the server,
// clients and caches share.
//
//	pods := client.For(c, kinds.Pods)
//	fmt.Println(kinds.Pods.Plural, kinds.Pods.Namespaced)
//
// A row has the names of a kind and its Go type. What a server does with its objects is in a
// package of its group below apiserver/kube. The two have the same kinds: a test there compares
// them. Package kind has the type of a row, for kinds of your own.
//
// Rows are values without functions to run at start, so that a program links the Go types of the
// rows that it names, and no others. They must not be changed.
package kinds

import "k8s.io/apimachinery/pkg/runtime"

func object[V any]() *V { return new(V) }

// pointer is the constraint that *V is an object of the API.
type pointer[V any] interface {
	*V
	runtime.Object
}

func list[V any, P pointer[V]]() runtime.Object { return P(new(V)) }
