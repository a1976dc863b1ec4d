package informer

import (
	"context"
	"errors"
	"iter"
)

// ErrStopped is the error of WaitFor after Run has ended, because the cache will not become newer.
var ErrStopped = errors.New("informer has stopped")

// root is one state of the cache. It never changes once published. Only the writer
// uses objects.free.
type root[T any] struct {
	// keys finds the slot of a key, and objects the object in a slot.
	keys    *node[string, uint32]
	objects table[T]
	// indexes holds a *node[K, *set] for each index, in the order of their
	// registration.
	indexes  []any
	revision string
	// synced is true once the first full list is stored.
	synced bool
}

// published is a root and the position in the log after the change that led to it. A handler that
// begins with the objects of the root continues from there. They are separate from each other
// because a position in the log keeps all later entries in memory, which readers of the objects
// must not do.
type published[T any] struct {
	root *root[T]
	next *entry[T]
}

func (inf *Informer[T]) root() *root[T] { return inf.current.Load().root }

func (r *root[T]) find(hash uint64, key string) (object T, ok bool) {
	slot, ok := r.keys.get(hash, key)
	if !ok {
		return object, false
	}
	return r.objects.get(slot), true
}

// Get returns the object of key.
func (inf *Informer[T]) Get(key string) (T, bool) { return inf.root().find(inf.hash(key), key) }

// All yields the objects that exist when the iteration begins, in no particular
// order.
func (inf *Informer[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, object := range inf.root().objects.all() {
			if !yield(object) {
				return
			}
		}
	}
}

// Synced is closed when the first full list is stored. If Run ends before, it is never closed.
func (inf *Informer[T]) Synced() <-chan struct{} { return inf.synced }

// WaitFor waits until the cache is at least as new as revision; for the empty revision, until the
// first full list is stored. It returns the error of ctx, or ErrStopped. The revision must be one
// at which an object of this resource was written, because the source may never report others.
func (inf *Informer[T]) WaitFor(ctx context.Context, revision string) error {
	for {
		now := inf.current.Load()
		if now.root.synced && compare(now.root.revision, revision) >= 0 {
			return nil
		}
		select {
		case <-now.next.ready:
		case <-ctx.Done():
			return ctx.Err()
		case <-inf.done:
			return ErrStopped
		}
	}
}
