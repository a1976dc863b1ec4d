package rbac

import (
	"hash/maphash"
	"maps"
)

// tableParts is the number of parts of a table. With 50,000 subjects, a change copies about two
// hundred of them.
const tableParts = 256

type key interface {
	comparable
	hash(maphash.Seed) uint64
}

// table is an immutable map in parts. The next version shares all parts that did not change.
type table[K key, V any] struct {
	seed  maphash.Seed
	parts [tableParts]map[K]V
}

func (t *table[K, V]) get(k K) (V, bool) {
	v, ok := t.parts[k.hash(t.seed)%tableParts][k]
	return v, ok
}

func (s subject) hash(seed maphash.Seed) uint64 {
	return maphash.String(seed, s.namespace) + 31*maphash.String(seed, s.name)
}

func (k roleKey) hash(seed maphash.Seed) uint64 {
	return maphash.String(seed, k.namespace) + 31*maphash.String(seed, k.name)
}

// draft is the next version of a table.
type draft[K key, V any] struct {
	table *table[K, V]
	// owned means that the table was copied and may be changed; ownParts the same for its parts.
	owned    bool
	ownParts [tableParts]bool
}

func newDraft[K key, V any]() draft[K, V] {
	return draft[K, V]{table: &table[K, V]{seed: maphash.MakeSeed()}}
}

// publish returns the table, which must no longer be changed.
func (d *draft[K, V]) publish() *table[K, V] {
	d.owned, d.ownParts = false, [tableParts]bool{}
	return d.table
}

func (d *draft[K, V]) get(k K) (V, bool) { return d.table.get(k) }

func (d *draft[K, V]) set(k K, v V) { d.part(k)[k] = v }

func (d *draft[K, V]) delete(k K) {
	if _, ok := d.get(k); ok {
		delete(d.part(k), k)
	}
}

// part returns the part for k, copied for changes.
func (d *draft[K, V]) part(k K) map[K]V {
	if !d.owned {
		next := *d.table
		d.table, d.owned = &next, true
	}
	i := k.hash(d.table.seed) % tableParts
	if !d.ownParts[i] {
		d.table.parts[i] = maps.Clone(d.table.parts[i])
		if d.table.parts[i] == nil {
			d.table.parts[i] = map[K]V{}
		}
		d.ownParts[i] = true
	}
	return d.table.parts[i]
}
