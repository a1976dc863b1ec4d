// Package typed has a typed resource for each of Kubernetes' kinds.
//
//	pods, revision, err := typed.Pods(c).List(ctx, "default", metav1.ListOptions{})
//
// The table of kinds is package kinds: [For] takes any of its rows, and the other functions are
// short for it. [client.For] takes a type of your own.
package typed

import (
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/kinds"
)

// For returns the resource of kind k at c.
func For[T client.Object](c *client.Client, k kinds.Kind[T]) client.Resource[T] {
	return client.For(c, client.Type[T]{
		Group: k.Group, Version: k.Version, Kind: k.Kind, Plural: k.Plural, Namespaced: k.Namespaced, New: k.New,
	})
}
