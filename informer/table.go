package informer

import (
	"iter"
	"math/bits"
)

// table is a persistent array of objects. An object keeps its slot as long as its key exists.
// Indexes hold slots, so they need not change when an object changes. Like the nodes of a trie,
// pages and shelves of a published root never change, and those that the current edit made are
// changed in place.
type table[T any] struct {
	// edit is the edit that made the slice of shelves.
	edit uint64
	// A shelf is nil if none of its slots is taken.
	shelves []*shelf[T]
	// slots is the first slot that was never taken, and free holds the free slots below it. A draft
	// that is dropped has at most taken slots from the end of free, so that the published table
	// still has all of them.
	slots uint32
	free  []uint32
}

// shelf holds pages. A page is nil if none of its slots is taken.
type shelf[T any] struct {
	edit  uint64
	pages [shelfSize]*page[T]
}

type page[T any] struct {
	edit uint64
	// used has a bit for each taken slot.
	used    uint32
	objects [pageSize]T
}

// Pages are small, because all batches together copy nearly as many pages as there
// are changes: 272 B each for pointers. Shelves are larger, because a batch copies
// each at most once: a single change copies one, 0.5 kB, and the addresses of all, 8 B
// for 2048 objects.
const (
	pageBits  = 5
	pageSize  = 1 << pageBits
	pageMask  = pageSize - 1
	shelfBits = 6
	shelfSize = 1 << shelfBits
	shelfMask = shelfSize - 1
)

// get returns the object in a taken slot.
func (t *table[T]) get(slot uint32) T {
	return t.shelves[slot>>(shelfBits+pageBits)].pages[slot>>pageBits&shelfMask].objects[slot&pageMask]
}

// add stores object in a free slot.
func (t *table[T]) add(edit uint64, object T) (slot uint32) {
	if n := len(t.free); n > 0 {
		slot, t.free = t.free[n-1], t.free[:n-1]
	} else {
		slot = t.slots
		t.slots++
	}
	t.set(edit, slot, object)
	return slot
}

func (t *table[T]) set(edit uint64, slot uint32, object T) {
	p := t.own(edit, slot)
	p.used |= 1 << (slot & pageMask)
	p.objects[slot&pageMask] = object
}

// remove frees slot. It drops the page and the shelf if they are then empty, so that the memory of
// a burst of objects is freed.
func (t *table[T]) remove(edit uint64, slot uint32) {
	var none T
	p := t.own(edit, slot)
	p.used &^= 1 << (slot & pageMask)
	p.objects[slot&pageMask] = none
	t.free = append(t.free, slot)
	if p.used != 0 {
		return
	}
	i := slot >> (shelfBits + pageBits)
	s := t.shelves[i]
	s.pages[slot>>pageBits&shelfMask] = nil
	if s.pages != [shelfSize]*page[T]{} {
		return
	}
	t.shelves[i] = nil
	for n := len(t.shelves); n > 0 && t.shelves[n-1] == nil; n-- {
		t.shelves = t.shelves[:n-1]
	}
	if len(t.shelves) == 0 {
		t.slots, t.free = 0, nil
	}
}

// own returns the page of slot as one that this edit may change.
func (t *table[T]) own(edit uint64, slot uint32) *page[T] {
	i, j := int(slot>>(shelfBits+pageBits)), slot>>pageBits&shelfMask
	if t.edit != edit {
		// Leave room for one more: a full page is followed by another.
		t.edit, t.shelves = edit, append(make([]*shelf[T], 0, len(t.shelves)+1), t.shelves...)
	}
	for len(t.shelves) <= i {
		t.shelves = append(t.shelves, nil)
	}
	s := t.shelves[i]
	switch {
	case s == nil:
		s = &shelf[T]{edit: edit}
		t.shelves[i] = s
	case s.edit != edit:
		c := *s
		c.edit, s = edit, &c
		t.shelves[i] = s
	}
	p := s.pages[j]
	switch {
	case p == nil:
		p = &page[T]{edit: edit}
		s.pages[j] = p
	case p.edit != edit:
		c := *p
		c.edit, p = edit, &c
		s.pages[j] = p
	}
	return p
}

// all yields every object with its slot, in the order of slots.
func (t *table[T]) all() iter.Seq2[uint32, T] {
	return func(yield func(uint32, T) bool) {
		for i, s := range t.shelves {
			if s == nil {
				continue
			}
			for j, p := range s.pages {
				if p == nil {
					continue
				}
				first := uint32(i<<shelfBits|j) << pageBits
				for used := p.used; used != 0; used &= used - 1 {
					k := bits.TrailingZeros32(used)
					if !yield(first|uint32(k), p.objects[k]) {
						return
					}
				}
			}
		}
	}
}
