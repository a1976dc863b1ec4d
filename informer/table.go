package informer

import (
	"iter"
	"math/bits"
)

// table is a persistent array of objects. An object keeps its slot for as long
// as its key exists, so whatever finds objects holds slots and need not change
// when an object does. Like the nodes of a trie, pages and shelves that a
// published root reaches never change, and those that the current edit made are
// changed in place.
type table[T any] struct {
	// edit is the one that made the slice of shelves.
	edit uint64
	// shelves are nil where no slot is taken.
	shelves []*shelf[T]
}

// shelf holds pages, nil where no slot is taken. Three loads find an object: its shelf, its page, itself.
type shelf[T any] struct {
	edit  uint64
	pages [shelfSize]*page[T]
}

type page[T any] struct {
	edit uint64
	// used has a bit for each slot that is taken.
	used    slots
	objects [pageSize]T
}

// slots has a bit for each slot of a page.
type slots uint32

// Pages are small, since all batches together copy nearly as many pages as there
// are changes: 272 B each for pointers. With half of that each event would cost more
// allocations. Shelves are larger, since a batch copies each once at most: a lone
// change copies one, 0.5 kB, and the addresses of all, 8 B for 2048 objects.
const (
	pageBits  = 5
	pageSize  = 1 << pageBits
	pageMask  = pageSize - 1
	shelfBits = 6
	shelfSize = 1 << shelfBits
	shelfMask = shelfSize - 1
)

// get returns the object in a slot that is taken.
func (t *table[T]) get(slot uint32) T {
	return t.shelves[slot>>(shelfBits+pageBits)].pages[slot>>pageBits&shelfMask].objects[slot&pageMask]
}

func (t *table[T]) set(edit uint64, slot uint32, object T) {
	p := t.own(edit, slot)
	p.used |= 1 << (slot & pageMask)
	p.objects[slot&pageMask] = object
}

func (t *table[T]) clear(edit uint64, slot uint32) {
	var none T
	p := t.own(edit, slot)
	p.used &^= 1 << (slot & pageMask)
	p.objects[slot&pageMask] = none
	if p.used == 0 {
		t.drop(slot)
	}
}

// drop removes the page of slot, which is empty, and the shelf if that is empty then. The table is the
// current edit's own. Otherwise the pages of a burst of objects would stay after it, one by one among
// what is garbage by then, each keeping many times its size from being used for anything else.
func (t *table[T]) drop(slot uint32) {
	i := int(slot >> (shelfBits + pageBits))
	s := t.shelves[i]
	s.pages[slot>>pageBits&shelfMask] = nil
	if s.pages != [shelfSize]*page[T]{} {
		return
	}
	t.shelves[i] = nil
	for n := len(t.shelves); n > 0 && t.shelves[n-1] == nil; n-- {
		t.shelves = t.shelves[:n-1]
	}
}

// own returns the page of slot as one that this edit may change.
func (t *table[T]) own(edit uint64, slot uint32) *page[T] {
	i, j := int(slot>>(shelfBits+pageBits)), slot>>pageBits&shelfMask
	if t.edit != edit {
		// Room for one more: a page that is full of objects is followed by another.
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

// page returns page n of the table, counted from its beginning, or nil.
func (t *table[T]) page(n int) *page[T] {
	if i := n >> shelfBits; i < len(t.shelves) && t.shelves[i] != nil {
		return t.shelves[i].pages[n&shelfMask]
	}
	return nil
}

// all visits every object with its slot, in the order of slots.
func (t *table[T]) all() iter.Seq2[uint32, T] {
	return func(yield func(uint32, T) bool) {
		for n := range len(t.shelves) * shelfSize {
			p := t.page(n)
			if p == nil {
				continue
			}
			for used := p.used; used != 0; used &= used - 1 {
				i := bits.TrailingZeros32(uint32(used))
				if !yield(uint32(n<<pageBits|i), p.objects[i]) {
					return
				}
			}
		}
	}
}

// changed visits the slots that old and new hold different pages for and that
// are taken in one of them. Where the two share a page or a shelf nothing is
// looked at, so the cost is that of the changes between them.
func changed[T any](old, new *table[T], visit func(slot uint32, before, after *T) bool) {
	for i := range max(len(old.shelves), len(new.shelves)) {
		var a, b *shelf[T]
		if i < len(old.shelves) {
			a = old.shelves[i]
		}
		if i < len(new.shelves) {
			b = new.shelves[i]
		}
		if a == b {
			continue
		}
		for j := range shelfSize {
			n := i*shelfSize + j
			if !changedPage(uint32(n)<<pageBits, old.page(n), new.page(n), visit) {
				return
			}
		}
	}
}

func changedPage[T any](first uint32, old, new *page[T], visit func(slot uint32, before, after *T) bool) bool {
	if old == new {
		return true
	}
	for i := range pageSize {
		var before, after *T
		if old != nil && old.used>>i&1 != 0 {
			before = &old.objects[i]
		}
		if new != nil && new.used>>i&1 != 0 {
			after = &new.objects[i]
		}
		if (before != nil || after != nil) && !visit(first+uint32(i), before, after) {
			return false
		}
	}
	return true
}
