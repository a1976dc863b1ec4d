// Package share deduplicates equal parts of objects in memory. The pods of a template differ in
// their names and little else; without it, most memory would hold copies of what they have in
// common.
//
//	labels := share.NewTable[map[string]string](4096)
//	share.Map(labels, &obj.Labels)
//
// A part is identified by a key that is a complete encoding of it: two parts with the same key are
// equal. A table drops a part that has not been used for 5 to 10 minutes, or while as many others
// as the table may hold were used. Objects that share a dropped part continue to share it. Parts
// must not be changed once they have been through a table.
package share

import (
	"crypto/sha256"
	"sync"
	"time"
)

// longest is the length of the longest key that is looked up, in bytes. Larger parts, such as the
// annotation of kubectl apply, are rarely equal.
const longest = 2 << 10

// sum is the hash of a key. It is cryptographic, so that no client can make its object show the
// parts of another one.
type sum = [sha256.Size]byte

// Table holds one of each part. It is safe for concurrent use.
type Table[T any] struct {
	most int

	mu sync.Mutex // guards what follows
	// young has the parts used recently, old those used before that.
	young, old map[sum]T
	// aging is set while a call of age is pending.
	aging bool
}

// maxAge limits the time for which a generation is the younger one, so that unused parts do not
// stay forever.
const maxAge = 5 * time.Minute

// NewTable returns a table that remembers at least the given number of parts, and at most twice as
// many.
func NewTable[T any](parts int) *Table[T] {
	return &Table[T]{most: parts, young: map[sum]T{}}
}

// One returns the table's part for key: the first part that was given with it.
func (t *Table[T]) One(key []byte, part T) T {
	if len(key) > longest {
		return part
	}
	s := sha256.Sum256(key)
	t.mu.Lock()
	defer t.mu.Unlock()
	if have, ok := t.young[s]; ok {
		return have
	}
	if have, ok := t.old[s]; ok {
		part = have
	}
	if len(t.young) >= t.most {
		t.old, t.young = t.young, make(map[sum]T, t.most)
	}
	t.young[s] = part
	t.ageLater()
	return part
}

// ageLater schedules a call of age. mu is held.
func (t *Table[T]) ageLater() {
	if !t.aging && len(t.young)+len(t.old) > 0 {
		t.aging = true
		time.AfterFunc(maxAge, t.age)
	}
}

// age drops the parts that were not used since the previous call.
func (t *Table[T]) age() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.old, t.young = t.young, map[sum]T{}
	t.aging = false
	t.ageLater()
}
