package informer

import (
	"hash/maphash"
	"iter"
)

// root is one state of the copy. It never changes once published.
type root[T any] struct {
	// keys finds the slot of a key, and objects what is in it.
	keys     *node[string, uint32]
	objects  table[T]
	size     int
	revision string
	// synced is true from the first full list on.
	synced bool
	// indexes holds a *node[K, *set] for each index, in the order of their
	// registration.
	indexes []any
	// seq is how many events the log had after the change that led to this root.
	seq uint64
}

// published is a root with the place in the log behind the change that led to
// it: a handler which begins with the objects of the root goes on from there.
// They are kept apart because whoever holds a place holds all that follows it,
// which must not be so for a view.
type published[T any] struct {
	root *root[T]
	end  position[T]
}

// A View is the copy at one revision. It never changes and may be kept, at
// the price of the memory it refers to. The zero View is empty.
type View[T any] struct {
	root *root[T]
	seed maphash.Seed
}

// Get returns the object of key.
func (v View[T]) Get(key string) (object T, ok bool) {
	if v.root == nil {
		return object, false
	}
	slot, ok := v.root.keys.get(maphash.String(v.seed, key), key)
	if !ok {
		return object, false
	}
	return v.root.objects.get(slot), true
}

// All returns all objects, in no particular order.
func (v View[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		if v.root == nil {
			return
		}
		for _, object := range v.root.objects.all() {
			if !yield(object) {
				return
			}
		}
	}
}

// Len returns the number of objects.
func (v View[T]) Len() int {
	if v.root == nil {
		return 0
	}
	return v.root.size
}

// Revision returns the revision of the view; empty before the first list.
func (v View[T]) Revision() string {
	if v.root == nil {
		return ""
	}
	return v.root.revision
}
