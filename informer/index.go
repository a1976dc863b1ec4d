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
	// One of these is set. space is given the object's key in the informer.
	space    func(key string) K
	one      func(T) K
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
	return add(inf, &Index[K, T]{one: key})
}

// IndexByNamespace adds an index of what stands before the slash of an
// object's key; objects whose keys have none are found under "". As NewIndex,
// it must be called before Run.
func IndexByNamespace[T any](inf *Informer[T]) *Index[string, T] {
	return add(inf, &Index[string, T]{space: func(key string) string {
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
// an old table and changes to a new table, or to the same one.
type indexer[T any] interface {
	update(table any, edit uint64, changes []change[T]) (changed any, same bool)
}

func (x *Index[K, T]) update(old any, edit uint64, changes []change[T]) (any, bool) {
	table, _ := old.(*node[K, *set])
	same := true
	for i := range changes {
		c := &changes[i]
		switch {
		case x.many != nil:
			before, after := x.keys(c)
			if slices.Equal(before, after) {
				continue
			}
			table = x.moveMany(table, before, after, c.slot, edit)
		case c.had && c.has:
			if x.space != nil {
				continue // the key has not changed
			}
			before, after := x.one(c.old), x.one(c.new)
			if before == after {
				continue
			}
			table = x.join(x.leave(table, before, c.slot, edit), after, c.slot, edit)
		case c.had:
			table = x.leave(table, x.key(c.key, c.old), c.slot, edit)
		default:
			table = x.join(table, x.key(c.key, c.new), c.slot, edit)
		}
		same = false
	}
	return table, same
}

func (x *Index[K, T]) key(key string, object T) K {
	if x.space != nil {
		return x.space(key)
	}
	return x.one(object)
}

// keys returns all keys of an object before and after a change.
func (x *Index[K, T]) keys(c *change[T]) (before, after []K) {
	if c.had {
		before = x.many(c.old)
	}
	if c.has {
		after = x.many(c.new)
	}
	return before, after
}

func (x *Index[K, T]) moveMany(table *node[K, *set], before, after []K, slot uint32, edit uint64) *node[K, *set] {
	for _, key := range before {
		if !slices.Contains(after, key) {
			table = x.leave(table, key, slot, edit)
		}
	}
	for _, key := range after {
		if !slices.Contains(before, key) {
			table = x.join(table, key, slot, edit)
		}
	}
	return table
}

func (x *Index[K, T]) leave(table *node[K, *set], key K, slot uint32, edit uint64) *node[K, *set] {
	e := editor[K, *set]{edit, x.hash}
	s, _ := table.get(x.hash(key), key)
	s = s.without(edit, slot)
	if s == nil {
		return e.remove(table, key)
	}
	return e.put(table, key, s)
}

func (x *Index[K, T]) join(table *node[K, *set], key K, slot uint32, edit uint64) *node[K, *set] {
	s, found := table.get(x.hash(key), key)
	grown := s.with(edit, slot)
	if found && grown == s {
		return table // changed in place
	}
	return editor[K, *set]{edit, x.hash}.put(table, key, grown)
}
