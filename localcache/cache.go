package localcache

import (
	"context"
	"iter"
)

// A Getter finds objects by key: "namespace/name", or "name" if the resource has
// no namespaces. See [Key].
type Getter[T any] interface {
	Get(key string) (T, bool)
}

// A Lister iterates over all objects.
type Lister[T any] interface {
	// All returns an iterator over the objects that exist when the iteration begins, in no
	// particular order.
	All() iter.Seq[T]
}

// A Reader finds and lists objects.
type Reader[T any] interface {
	Getter[T]
	Lister[T]
}

// A Subscriber reports changes. The package comment describes their order and what a handler may
// do.
type Subscriber[T any] interface {
	// Subscribe calls handle with (zero, object) for every object that exists, and
	// then for every change: (zero, new), (old, new) or (old, zero).
	Subscribe(handle func(old, new T)) Subscription
	// Synced is closed once the first full list is stored. Handlers may be called
	// with its last objects later: see [Subscription].
	Synced() <-chan struct{}
}

// A Subscription is one handler of a cache.
type Subscription struct {
	// Stop ends the calls: no call begins after it, and it waits for one in progress. It may be
	// called again. A handler must not call it for its own cache: a handler that stops its own
	// subscription waits for itself and never returns.
	Stop func()
	// CaughtUp is closed once the first full list is stored and the handler has returned from the
	// calls that report it. If Stop or the end of the cache comes first, it is never closed.
	CaughtUp <-chan struct{}
}

// A ListSubscriber lists objects and reports their changes.
type ListSubscriber[T any] interface {
	Lister[T]
	Subscriber[T]
}

// A ReadSubscriber finds and lists objects and reports their changes.
type ReadSubscriber[T any] interface {
	Reader[T]
	Subscriber[T]
}

// A Cache is a local cache of one resource.
type Cache[T any] interface {
	Reader[T]
	Subscriber[T]
	// WaitFor waits until the cache is synced and at least as new as revision, or returns the error
	// of ctx. Any other error means that the cache has stopped and will never be that new. The
	// revision must be one at which an object of this resource was written, from its
	// resourceVersion or the answer to a deletion; the empty revision is older than all.
	WaitFor(ctx context.Context, revision string) error
}

// An Index finds the objects of a cache by values other than their key, such as the node of a pod.
// The function that returns the index keys of an object belongs to the implementation.
type Index[K comparable, T any] interface {
	// Get returns an iterator over the objects under key at the time when the iteration begins,
	// each once, in no particular order.
	Get(key K) iter.Seq[T]
}
