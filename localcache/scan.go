package localcache

import (
	"iter"
	"slices"
)

// Scan returns an index that searches all objects of cache at each call. It is for tests, and for
// resources with few objects. keys returns the index keys of an object.
func Scan[K comparable, T any](cache Lister[T], keys func(T) []K) Index[K, T] {
	return scan[K, T]{cache, keys}
}

type scan[K comparable, T any] struct {
	cache Lister[T]
	keys  func(T) []K
}

func (s scan[K, T]) Get(key K) iter.Seq[T] {
	return func(yield func(T) bool) {
		for object := range s.cache.All() {
			if slices.Contains(s.keys(object), key) && !yield(object) {
				return
			}
		}
	}
}
