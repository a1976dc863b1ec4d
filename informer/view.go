package informer

import (
	"hash/maphash"
	"iter"
	"slices"
)

// root is one state of the copy. It never changes once published.
type root[T any] struct {
	objects  *node[string, T]
	size     int
	revision string
	// synced is true from the first full list on.
	synced bool
	// indexes holds a *node[K, *node[string, T]] for each index, in the order of
	// their registration.
	indexes []any
	// end is where the log stands after the change that led to this root. A
	// handler which begins with the objects of this root goes on from there.
	end position[T]
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
	return v.root.objects.get(maphash.String(v.seed, key), key)
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

// An Index finds objects by something other than their key.
type Index[K comparable, T any] struct {
	inf      *Informer[T]
	keys     func(T) []K
	hash     func(K) uint64
	position int
}

// NewIndex adds an index to inf: keys tells under which keys an object is to
// be found, always the same for the same object; a key given twice counts
// once. It must be called before inf.Run and not concurrently with it or with
// itself; it panics when Run has begun.
func NewIndex[K comparable, T any](inf *Informer[T], keys func(T) []K) *Index[K, T] {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	if inf.state != idle {
		panic("informer: NewIndex after Run")
	}
	seed := maphash.MakeSeed()
	hash := func(key K) uint64 { return maphash.Comparable(seed, key) }
	x := &Index[K, T]{inf: inf, keys: keys, hash: hash, position: len(inf.indexes)}
	inf.indexes = append(inf.indexes, x)
	return x
}

// Get returns the objects found under key in the view that is current when
// the iteration begins, in no particular order.
func (x *Index[K, T]) Get(key K) iter.Seq[T] {
	return func(yield func(T) bool) { x.In(x.inf.Snapshot(), key)(yield) }
}

// In returns the objects found under key in view, which must come from the
// informer of the index.
func (x *Index[K, T]) In(view View[T], key K) iter.Seq[T] {
	return func(yield func(T) bool) {
		if view.root == nil || view.root.indexes == nil {
			return
		}
		table, _ := view.root.indexes[x.position].(*node[K, *node[string, T]])
		objects, _ := table.get(x.hash(key), key)
		for _, object := range objects.all() {
			if !yield(object) {
				return
			}
		}
	}
}

// indexer is an Index of any key type, as the writer sees it: a function from
// an old table and a change to a new table.
type indexer[T any] interface {
	update(table any, c change[T]) any
}

func (x *Index[K, T]) update(old any, c change[T]) any {
	table, _ := old.(*node[K, *node[string, T]])
	tables := editor[K, *node[string, T]]{c.objects.edit, x.hash}
	var before, after []K
	if c.had {
		before = x.keys(c.old)
	}
	if c.has {
		after = x.keys(c.new)
	}
	for _, key := range before {
		if slices.Contains(after, key) {
			continue
		}
		objects, _ := table.get(x.hash(key), key)
		if objects = c.objects.remove(objects, c.key); objects == nil {
			table = tables.remove(table, key)
		} else {
			table = tables.put(table, key, objects)
		}
	}
	for _, key := range after {
		objects, _ := table.get(x.hash(key), key)
		table = tables.put(table, key, c.objects.put(objects, c.key, c.new))
	}
	return table
}
