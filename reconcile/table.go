package reconcile

// table finds items by key. It is a hash table of chains through the items
// themselves, so that keys which come and go allocate nothing, unlike in a map,
// and it gives the memory of a burst back. It never stops to rebuild: when it
// grows or shrinks, each call moves a few chains from the old places to the new.
type table[K comparable] struct {
	n      int
	places []*item[K] // the length is zero or a power of two
	// old are the places that are being left: those below moved are empty.
	old   []*item[K]
	moved int
	// free is a list, through chain, of items for reuse.
	free  *item[K]
	frees int
}

const (
	// minPlaces is what a table has once it has been used.
	minPlaces = 64
	// maxFree bounds the items kept for reuse after a burst.
	maxFree = 1024
	// growing and shrinking are how many old places each call empties. Twice as many
	// places take as many calls to fill as there were, so one a call would do; with 11
	// a table that shrinks is done before it has to shrink again.
	growing   = 2
	shrinking = 16
)

func (t *table[K]) get(key K, hash uint64) *item[K] {
	if t.places == nil {
		return nil
	}
	for it := *t.place(hash); it != nil; it = it.chain {
		if it.hash == hash && it.key == key {
			return it
		}
	}
	return nil
}

// place is where the chain of what has hash begins.
func (t *table[K]) place(hash uint64) **item[K] {
	if t.old != nil {
		if at := int(hash) & (len(t.old) - 1); at >= t.moved {
			return &t.old[at]
		}
	}
	return &t.places[int(hash)&(len(t.places)-1)]
}

// item returns the one of key, made for tenant if need be.
func (t *table[K]) item(key K, hash uint64, tenant string) *item[K] {
	if t.old != nil || t.n >= len(t.places) {
		t.grow()
	}
	at := t.place(hash)
	for it := *at; it != nil; it = it.chain {
		if it.hash == hash && it.key == key {
			return it
		}
	}
	it := t.free
	if it == nil {
		it = new(item[K])
	} else {
		t.free = it.chain
		t.frees--
	}
	it.key, it.hash, it.tenant = key, hash, tenant
	it.chain, *at = *at, it
	t.n++
	return it
}

// remove takes out an item that says nothing and keeps it for reuse.
func (t *table[K]) remove(it *item[K]) {
	at := t.place(it.hash)
	for *at != it {
		at = &(*at).chain
	}
	*at = it.chain
	t.n--
	var none K
	it.key, it.tenant = none, "" // which others may let go of now
	if t.frees < maxFree {
		it.chain, t.free = t.free, it
		t.frees++
	}
	if t.old != nil || (len(t.places) > minPlaces && t.n < len(t.places)/8) {
		t.shrink()
	}
}

// grow makes room for one more.
func (t *table[K]) grow() {
	if t.n >= len(t.places) {
		t.resize(max(minPlaces, 2*len(t.places)))
	}
	t.move(growing)
}

// shrink gives back room that one less does not need.
func (t *table[K]) shrink() {
	if len(t.places) > minPlaces && t.n < len(t.places)/8 {
		t.resize(len(t.places) / 4)
	}
	t.move(shrinking)
}

// resize begins the move to n places, unless one is under way.
func (t *table[K]) resize(n int) {
	if t.old != nil {
		return
	}
	t.old, t.moved, t.places = t.places, 0, make([]*item[K], n)
}

// move takes the chains of a few old places to their new ones.
func (t *table[K]) move(places int) {
	for range places {
		if t.old == nil {
			return
		}
		if t.moved == len(t.old) {
			t.old = nil
			return
		}
		it := t.old[t.moved]
		t.old[t.moved] = nil
		t.moved++
		for it != nil {
			next := it.chain
			at := &t.places[int(it.hash)&(len(t.places)-1)]
			it.chain, *at = *at, it
			it = next
		}
	}
}
