package informer

import (
	"hash/maphash"
	"iter"
	"slices"
)

// An Index finds objects by values other than their key. It holds the slots of objects, not the
// objects: a change that leaves an object under the same keys does not change the index.
type Index[K comparable, T any] struct {
	inf      *Informer[T]
	keys     func(T) []K
	hash     func(K) uint64
	position int
}

// NewIndex adds an index to inf. keys returns the index keys of an object, which must depend only
// on the object; a key returned twice counts once. NewIndex must be called before inf.Run and not
// concurrently with it or with itself. It panics after Run has begun.
func NewIndex[K comparable, T any](inf *Informer[T], keys func(T) []K) *Index[K, T] {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	if inf.state != idle {
		panic("informer: NewIndex after Run")
	}
	seed := maphash.MakeSeed()
	hash := func(key K) uint64 { return maphash.Comparable(seed, key) }
	x := &Index[K, T]{inf, keys, hash, len(inf.indexes)}
	inf.indexes = append(inf.indexes, x)
	now := inf.current.Load()
	next := *now.root
	next.indexes = make([]any, len(inf.indexes))
	inf.current.Store(&published[T]{&next, now.next})
	return x
}

// Get returns an iterator over the objects under key at the time when the iteration begins, in no
// particular order.
func (x *Index[K, T]) Get(key K) iter.Seq[T] {
	return func(yield func(T) bool) { x.get(x.inf.root(), key, yield) }
}

func (x *Index[K, T]) get(r *root[T], key K, yield func(T) bool) {
	s, ok := x.table(r.indexes[x.position]).get(x.hash(key), key)
	if !ok {
		return
	}
	for _, run := range s.runs {
		for _, slot := range run.slots {
			if !yield(r.objects.get(slot)) {
				return
			}
		}
	}
}

func (x *Index[K, T]) table(of any) *node[K, *set] {
	table, _ := of.(*node[K, *set])
	return table
}

// indexer is an Index of any key type, as used by the writer.
type indexer[T any] interface {
	// update returns table with a change of the object in slot.
	update(table any, edit uint64, slot uint32, c change[T]) any
}

// change is a change of one key. had and has report whether old and new exist.
type change[T any] struct {
	old, new T
	had, has bool
}

func (x *Index[K, T]) update(of any, edit uint64, slot uint32, c change[T]) any {
	var before, after []K
	if c.had {
		before = x.keys(c.old)
	}
	if c.has {
		after = x.keys(c.new)
	}
	table, e := x.table(of), editor[K, *set]{edit, x.hash}
	for _, key := range before {
		if slices.Contains(after, key) {
			continue
		}
		s, _ := table.get(x.hash(key), key)
		if s = s.without(edit, slot); s != nil {
			table = e.put(table, key, s)
		} else {
			table = e.remove(table, key)
		}
	}
	for _, key := range after {
		if slices.Contains(before, key) {
			continue
		}
		s, found := table.get(x.hash(key), key)
		if grown := s.with(edit, slot); !found || grown != s { // or it was changed in place
			table = e.put(table, key, grown)
		}
	}
	return table
}
