package informer

import (
	"iter"
	"math/bits"
	"slices"
)

// node is a node of a persistent hash array mapped trie. Nodes of a published root never change. A
// change copies the nodes on its path, so it costs O(log n) and an old root keeps its content. An
// edit is a number that the single writer never uses twice; it changes the nodes that it has made
// in place, so that loading a whole list is cheap.
//
// A nil *node is the empty trie.
type node[K comparable, V any] struct {
	edit uint64
	// leafMap and kidMap have one bit for each of the 32 values of this level's five bits of the
	// hash. A value is in at most one of them.
	leafMap, kidMap uint32
	leaves          []leaf[K, V]
	kids            []*node[K, V]
}

type leaf[K comparable, V any] struct {
	key   K
	value V
}

const (
	levelBits = 5
	levelMask = 1<<levelBits - 1
	hashBits  = 64
)

// at returns the bit of hash at the level that begins at shift, and the index of that bit in a
// slice with one element for each bit in set.
func at(hash uint64, shift uint, set uint32) (bit uint32, index int) {
	bit = 1 << (hash >> shift & levelMask)
	return bit, bits.OnesCount32(set & (bit - 1))
}

func (n *node[K, V]) get(hash uint64, key K) (value V, ok bool) {
	for shift := uint(0); n != nil && shift < hashBits; shift += levelBits {
		bit, i := at(hash, shift, n.leafMap)
		if n.leafMap&bit != 0 {
			if l := &n.leaves[i]; l.key == key {
				return l.value, true
			}
			return value, false
		}
		if n.kidMap&bit == 0 {
			return value, false
		}
		_, i = at(hash, shift, n.kidMap)
		n = n.kids[i]
	}
	if n != nil {
		// All bits of the hash are used: these keys have the same hash.
		if i := n.find(key); i >= 0 {
			return n.leaves[i].value, true
		}
	}
	return value, false
}

// find searches a node below the last level, where the bit maps have no meaning.
func (n *node[K, V]) find(key K) int {
	return slices.IndexFunc(n.leaves, func(l leaf[K, V]) bool { return l.key == key })
}

// all returns an iterator over every value, in no particular order.
func (n *node[K, V]) all() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) { n.visit(yield) }
}

func (n *node[K, V]) visit(yield func(K, V) bool) bool {
	if n == nil {
		return true
	}
	for i := range n.leaves {
		if !yield(n.leaves[i].key, n.leaves[i].value) {
			return false
		}
	}
	for _, kid := range n.kids {
		if !kid.visit(yield) {
			return false
		}
	}
	return true
}

// editor changes tries on behalf of one edit.
type editor[K comparable, V any] struct {
	edit uint64
	hash func(K) uint64
}

// put returns n with key set to value.
func (e editor[K, V]) put(n *node[K, V], key K, value V) *node[K, V] {
	return e.insert(n, 0, e.hash(key), leaf[K, V]{key, value})
}

// remove returns n without key.
func (e editor[K, V]) remove(n *node[K, V], key K) *node[K, V] {
	n = e.without(n, 0, e.hash(key), key)
	if n != nil && len(n.leaves)+len(n.kids) == 0 {
		return nil
	}
	return n
}

// own returns a node with n's content that this edit may change.
func (e editor[K, V]) own(n *node[K, V]) *node[K, V] {
	if n == nil {
		return &node[K, V]{edit: e.edit}
	}
	if n.edit == e.edit {
		return n
	}
	c := &node[K, V]{edit: e.edit, leafMap: n.leafMap, kidMap: n.kidMap}
	if len(n.leaves) > 0 {
		// Leave room for one more: most changes of a copied node add a leaf.
		c.leaves = append(make([]leaf[K, V], 0, len(n.leaves)+1), n.leaves...)
	}
	c.kids = slices.Clone(n.kids)
	return c
}

func (e editor[K, V]) insert(n *node[K, V], shift uint, hash uint64, l leaf[K, V]) *node[K, V] {
	n = e.own(n)
	if shift >= hashBits {
		if i := n.find(l.key); i >= 0 {
			n.leaves[i].value = l.value
		} else {
			n.leaves = append(n.leaves, l)
		}
		return n
	}
	bit, i := at(hash, shift, n.leafMap)
	_, j := at(hash, shift, n.kidMap)
	switch {
	case n.kidMap&bit != 0:
		n.kids[j] = e.insert(n.kids[j], shift+levelBits, hash, l)
	case n.leafMap&bit == 0:
		n.leafMap |= bit
		n.leaves = slices.Insert(n.leaves, i, l)
	case n.leaves[i].key == l.key:
		n.leaves[i].value = l.value
	default:
		// Two keys belong in one place: both move down a level.
		other := n.leaves[i]
		kid := e.insert(nil, shift+levelBits, e.hash(other.key), other)
		kid = e.insert(kid, shift+levelBits, hash, l)
		n.leafMap &^= bit
		n.leaves = slices.Delete(n.leaves, i, i+1)
		n.kidMap |= bit
		n.kids = slices.Insert(n.kids, j, kid)
	}
	return n
}

func (e editor[K, V]) without(n *node[K, V], shift uint, hash uint64, key K) *node[K, V] {
	if n == nil {
		return nil
	}
	if shift >= hashBits {
		if i := n.find(key); i >= 0 {
			n = e.own(n)
			n.leaves = slices.Delete(n.leaves, i, i+1)
		}
		return n
	}
	bit, i := at(hash, shift, n.leafMap)
	if n.leafMap&bit != 0 {
		if n.leaves[i].key == key {
			n = e.own(n)
			n.leafMap &^= bit
			n.leaves = slices.Delete(n.leaves, i, i+1)
		}
		return n
	}
	if n.kidMap&bit == 0 {
		return n
	}
	_, j := at(hash, shift, n.kidMap)
	kid := e.without(n.kids[j], shift+levelBits, hash, key)
	if kid == n.kids[j] && len(kid.leaves)+len(kid.kids) > 1 {
		return n
	}
	n = e.own(n)
	if len(kid.kids) > 0 || len(kid.leaves) > 1 {
		n.kids[j] = kid
		return n
	}
	// A single leaf moves up, so that the shape depends only on the content and an emptied trie has
	// no chains of nodes.
	n.kidMap &^= bit
	n.kids = slices.Delete(n.kids, j, j+1)
	n.leafMap |= bit
	n.leaves = slices.Insert(n.leaves, i, kid.leaves[0])
	return n
}
