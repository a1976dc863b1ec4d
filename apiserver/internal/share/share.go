// Package share lets equal parts of many objects be one in memory. The pods of a
// template differ in their names and little else; kept apart, what they have in
// common is most of what they take.
//
//	labels := share.NewTable[map[string]string](4096)
//	share.Map(labels, &obj.Labels)
//
// A part is known by a key that says all about it: two parts with one key must be
// equal. A table forgets parts that have not been asked for while as many others
// as it may hold were, or for 5 to 10 minutes; objects which share a forgotten part go on sharing it.
// Parts must not be changed once they have been through a table.
package share

import (
	"crypto/sha256"
	"sync"
	"time"
)

// longest is the longest key of a part that is looked up, in bytes. What is larger
// is rarely equal to anything, such as what kubectl apply notes in annotations.
const longest = 2 << 10

// sum stands for a key. Keys of different parts with one sum cannot be made, so a
// client cannot have its object show another's parts.
type sum = [sha256.Size]byte

// Table has one of each part. It is safe for concurrent use.
type Table[T any] struct {
	most int

	mu sync.Mutex // guards what follows
	// young has the parts asked for of late, old those asked for before that.
	young, old map[sum]T
	// aging says that age will be called.
	aging bool
}

// maxAge bounds the time for which parts count as recently used, so that unused parts do
// not stay for ever.
const maxAge = 5 * time.Minute

// NewTable returns a table that remembers at least so many parts, and at most
// twice as many.
func NewTable[T any](parts int) *Table[T] {
	return &Table[T]{most: parts, young: map[sum]T{}}
}

// One returns the part that the table has for key: the first that came with it.
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

// ageLater has age called when it is time. mu is held.
func (t *Table[T]) ageLater() {
	if !t.aging && len(t.young)+len(t.old) > 0 {
		t.aging = true
		time.AfterFunc(maxAge, t.age)
	}
}

// age forgets the parts that were not asked for since it was last called.
func (t *Table[T]) age() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.old, t.young = t.young, map[sum]T{}
	t.aging = false
	t.ageLater()
}
