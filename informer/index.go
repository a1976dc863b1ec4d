package informer

import (
	"hash/maphash"
	"iter"
	"slices"
	"strings"
)

// An Index finds objects by something other than their key. It holds where
// objects are, not the objects: a change that leaves an object under the same
// keys does not touch it.
type Index[K comparable, T any] struct {
	inf *Informer[T]
	// Either one or many is set. key is that of the object in the informer.
	one      func(key string, object T) K
	many     func(T) []K
	hash     func(K) uint64
	position int
}

// NewIndex adds an index to inf: keys tells under which keys an object is to
// be found, always the same for the same object; a key given twice counts
// once. It must be called before inf.Run and not concurrently with it or with
// itself; it panics when Run has begun.
func NewIndex[K comparable, T any](inf *Informer[T], keys func(T) []K) *Index[K, T] {
	return add(inf, &Index[K, T]{many: keys})
}

// IndexBy is NewIndex for the common case that every object is found under
// exactly one key, which may be the zero one. It saves making a slice.
func IndexBy[K comparable, T any](inf *Informer[T], key func(T) K) *Index[K, T] {
	return add(inf, &Index[K, T]{one: func(_ string, object T) K { return key(object) }})
}

// IndexByNamespace adds an index of what stands before the slash of an
// object's key; objects whose keys have none are found under "". As NewIndex,
// it must be called before Run.
func IndexByNamespace[T any](inf *Informer[T]) *Index[string, T] {
	return add(inf, &Index[string, T]{one: func(key string, _ T) string {
		namespace, _, namespaced := strings.Cut(key, "/")
		if !namespaced {
			return ""
		}
		return namespace
	}})
}

func add[K comparable, T any](inf *Informer[T], x *Index[K, T]) *Index[K, T] {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	if inf.state != idle {
		panic("informer: a new index after Run")
	}
	seed := maphash.MakeSeed()
	x.inf, x.position = inf, len(inf.indexes)
	x.hash = func(key K) uint64 { return maphash.Comparable(seed, key) }
	inf.indexes = append(inf.indexes, x)
	next := *inf.root()
	next.indexes = make([]any, len(inf.indexes))
	inf.current.Store(&published[T]{&next, inf.log.end})
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
		s := x.set(view, key)
		if s == nil {
			return
		}
		objects := &view.root.objects
		for _, slot := range s.slots {
			if !yield(objects.get(slot)) {
				return
			}
		}
		for _, r := range s.runs {
			for _, slot := range r.slots {
				if !yield(objects.get(slot)) {
					return
				}
			}
		}
	}
}

// Keys returns all keys under which view has objects, in no particular order.
func (x *Index[K, T]) Keys(view View[T]) iter.Seq[K] {
	return func(yield func(K) bool) {
		if view.root == nil || view.root.indexes == nil {
			return
		}
		keys, _ := view.root.indexes[x.position].(*node[K, *set])
		for key := range keys.all() {
			if !yield(key) {
				return
			}
		}
	}
}

// Count returns how many objects are found under key in view.
func (x *Index[K, T]) Count(view View[T], key K) int {
	s := x.set(view, key)
	if s == nil {
		return 0
	}
	n := len(s.slots)
	for _, r := range s.runs {
		n += len(r.slots)
	}
	return n
}

func (x *Index[K, T]) set(view View[T], key K) *set {
	if view.root == nil || view.root.indexes == nil {
		return nil
	}
	keys, _ := view.root.indexes[x.position].(*node[K, *set])
	s, _ := keys.get(x.hash(key), key)
	return s
}

// indexer is an Index of any key type, as the writer sees it: a function from
// an old table and a change to a new table, or to the same one.
type indexer[T any] interface {
	update(table any, c change[T]) (changed any, same bool)
}

func (x *Index[K, T]) update(old any, c change[T]) (any, bool) {
	if x.one == nil {
		return x.updateMany(old, c)
	}
	var before, after K
	if c.had {
		before = x.one(c.key, c.old)
	}
	if c.has {
		after = x.one(c.key, c.new)
	}
	if c.had && c.has && before == after {
		return nil, true
	}
	table, _ := old.(*node[K, *set])
	if c.had {
		table = x.leave(table, before, c)
	}
	if c.has {
		table = x.join(table, after, c)
	}
	return table, false
}

func (x *Index[K, T]) updateMany(old any, c change[T]) (any, bool) {
	var before, after []K
	if c.had {
		before = x.many(c.old)
	}
	if c.has {
		after = x.many(c.new)
	}
	if slices.Equal(before, after) {
		return nil, true
	}
	table, _ := old.(*node[K, *set])
	for _, key := range before {
		if !slices.Contains(after, key) {
			table = x.leave(table, key, c)
		}
	}
	for _, key := range after {
		if !slices.Contains(before, key) {
			table = x.join(table, key, c)
		}
	}
	return table, false
}

func (x *Index[K, T]) leave(table *node[K, *set], key K, c change[T]) *node[K, *set] {
	e := editor[K, *set]{c.edit, x.hash}
	s, _ := table.get(x.hash(key), key)
	s = s.without(c.edit, c.slot)
	if s == nil {
		return e.remove(table, key)
	}
	return e.put(table, key, s)
}

func (x *Index[K, T]) join(table *node[K, *set], key K, c change[T]) *node[K, *set] {
	s, found := table.get(x.hash(key), key)
	grown := s.with(c.edit, c.slot)
	if found && grown == s {
		return table // changed in place
	}
	return editor[K, *set]{c.edit, x.hash}.put(table, key, grown)
}
