// Package intern has equal parts of Kubernetes objects share memory. Pods that
// come from one template differ in little more than their names, addresses and
// times; decoded one by one, each has all of the template to itself.
//
//	table := intern.New()
//	pods, err := informer.New(informer.Config[*corev1.Pod]{
//		Transform: table.Pod,
//		...
//	})
//
// Parts are equal when their protobuf encodings are, so an empty slice or map
// counts as none. What is shared must not be changed by anyone, as nothing must
// that an informer holds.
//
// A [Table] remembers what it has seen lately, not everything: what was not seen
// again among the next [Size] different parts is forgotten, and costs an object
// that has it its own copy, no more.
package intern

import (
	"encoding/binary"
	"sync"
)

// Size is how many different parts, and how many different strings, a Table
// holds at most in each of its two generations.
const Size = 1 << 14

// Table remembers parts of objects. Its methods are safe for concurrent use.
type Table struct {
	// mu guards all fields.
	mu      sync.Mutex
	strings generations[string]
	parts   generations[any]
	key     []byte
	// bools are false and true, for all who point to one.
	bools [2]bool
}

// New returns an empty Table.
func New() *Table { return &Table{bools: [2]bool{false, true}} }

// generations are two maps, of which the older one is dropped when the younger
// one is full. What is found in the older moves to the younger.
type generations[V any] struct{ young, old map[string]V }

func (g *generations[V]) get(key []byte) (V, bool) {
	if v, ok := g.young[string(key)]; ok {
		return v, true
	}
	v, ok := g.old[string(key)]
	if ok {
		g.put(string(key), v)
	}
	return v, ok
}

func (g *generations[V]) put(key string, v V) {
	if g.young == nil || len(g.young) >= Size {
		g.young, g.old = make(map[string]V), g.young
	}
	g.young[key] = v
}

// share makes each of the strings one that is shared. It is for strings that
// many objects have: others push them out.
func share[S ~string](t *Table, strings ...*S) {
	for _, s := range strings {
		if *s == "" {
			continue
		}
		t.key = append(t.key[:0], *s...)
		known, ok := t.strings.get(t.key)
		if !ok {
			// A string may be a part of something larger, which would stay with it.
			known = string(t.key)
			t.strings.put(known, known)
		}
		*s = S(known)
	}
}

// kind keeps parts of different types apart.
type kind byte

const (
	labels kind = iota
	annotations
	owners
	specs
	containers
	allContainers
	mounts
	volumes
	volumeSources
	hostIPs
	statusMounts
	resources
	fields
)

// message is what all types of the API are.
type message interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
}

// begin starts a key for a part of kind k.
func (t *Table) begin(k kind) { t.key = append(t.key[:0], byte(k)) }

// add appends m to the key; it returns false if m cannot be encoded.
func (t *Table) add(m message) bool {
	size := m.Size()
	t.key = binary.AppendUvarint(t.key, uint64(size))
	start := len(t.key)
	t.key = append(t.key, make([]byte, size)...)
	n, err := m.MarshalToSizedBuffer(t.key[start:])
	return err == nil && n == size
}

// shared returns the part that was first found under the key, which is part if
// none was.
func shared[P any](t *Table, part P) P {
	if known, ok := t.parts.get(t.key); ok {
		return known.(P)
	}
	t.parts.put(string(t.key), part)
	return part
}

// replace makes *part equal to the part that was first found under the key, and
// so what it refers to the same.
func replace[P any](t *Table, part *P) {
	if known, ok := t.parts.get(t.key); ok {
		*part = *known.(*P)
		return
	}
	first := *part
	t.parts.put(string(t.key), &first)
}

// shareSlice returns a slice equal to s that is shared.
func shareSlice[T any, P interface {
	*T
	message
}](t *Table, k kind, s []T) []T {
	if len(s) == 0 {
		return nil
	}
	t.begin(k)
	for i := range s {
		if !t.add(P(&s[i])) {
			return s
		}
	}
	return shared(t, s)
}
