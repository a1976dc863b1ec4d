package events

// lru is a map that evicts the least recently used key. Its entries are in one array.
type lru[K comparable, V any] struct {
	limit int
	// places holds the index in entries of each key. entries[0] is the head of a ring: its next
	// entry is the most recently used one, its previous the least recently used one.
	places  map[K]int32
	entries []entry[K, V]
}

type entry[K comparable, V any] struct {
	key          K
	value        V
	before, next int32
}

func newLRU[K comparable, V any](limit int) *lru[K, V] {
	return &lru[K, V]{limit: limit, places: map[K]int32{}, entries: make([]entry[K, V], 1)}
}

// get returns the value of key, or nil. The pointer is valid until the next put.
func (l *lru[K, V]) get(key K) *V {
	place, ok := l.places[key]
	if !ok {
		return nil
	}
	l.unlink(place)
	l.link(place)
	return &l.entries[place].value
}

// put sets the value of key and returns it. The pointer is valid until the next put.
func (l *lru[K, V]) put(key K, value V) *V {
	if have := l.get(key); have != nil {
		*have = value
		return have
	}
	place := int32(len(l.entries))
	if len(l.places) < l.limit {
		l.entries = append(l.entries, entry[K, V]{})
	} else {
		place = l.entries[0].before
		l.unlink(place)
		delete(l.places, l.entries[place].key)
	}
	l.entries[place] = entry[K, V]{key: key, value: value}
	l.places[key] = place
	l.link(place)
	return &l.entries[place].value
}

func (l *lru[K, V]) unlink(place int32) {
	e := &l.entries[place]
	l.entries[e.before].next, l.entries[e.next].before = e.next, e.before
}

// link makes an entry the most recently used one.
func (l *lru[K, V]) link(place int32) {
	e := &l.entries[place]
	e.before, e.next = 0, l.entries[0].next
	l.entries[e.next].before, l.entries[0].next = place, place
}
