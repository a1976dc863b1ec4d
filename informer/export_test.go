package informer

import "iter"

// A View is one state of an Informer, for tests that compare several reads of it.
type View[T any] struct {
	root *root[T]
	hash func(string) uint64
}

func (inf *Informer[T]) Snapshot() View[T] { return View[T]{inf.root(), inf.hash} }

func (v View[T]) Get(key string) (T, bool) { return v.root.find(v.hash(key), key) }

func (v View[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, object := range v.root.objects.all() {
			if !yield(object) {
				return
			}
		}
	}
}

func (v View[T]) Revision() string { return v.root.revision }

func (v View[T]) Len() (n int) {
	for range v.All() {
		n++
	}
	return n
}

// In yields the objects found under key in view.
func (x *Index[K, T]) In(view View[T], key K) iter.Seq[T] {
	return func(yield func(T) bool) { x.get(view.root, key, yield) }
}

// Keys yields all keys under which view has objects.
func (x *Index[K, T]) Keys(view View[T]) iter.Seq[K] {
	return func(yield func(K) bool) {
		for key := range x.table(view.root.indexes[x.position]).all() {
			if !yield(key) {
				return
			}
		}
	}
}

func (x *Index[K, T]) Count(view View[T], key K) (n int) {
	for range x.In(view, key) {
		n++
	}
	return n
}
