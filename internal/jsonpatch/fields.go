package jsonpatch

import (
	"bytes"
	"hash/maphash"
	"math/bits"

	"github.com/planekit/planekit/internal/jsonscan"
)

// field is a member of an object.
type field struct {
	named, unnamed int32 // begin and end of its quoted name
	start, stop    int32
	inside         int32 // the index of its span, or -1
	used           bool
}

func (d *document) quoted(f *field) []byte  { return d.data[f.named:f.unnamed] }
func (d *document) nameOf(f *field) []byte  { return jsonscan.Plain(d.quoted(f)) }
func (d *document) valueOf(f *field) []byte { return d.data[f.start:f.stop] }
func (d *document) null(f *field) bool      { return d.data[f.start] == 'n' }

// fields holds the members of an object. The last of several members with one name counts.
type fields struct {
	*document
	all []field
	// table is a hash table of indexes into all plus one, so that zero is an empty place. It is nil
	// if there are few fields. A map would need three times the memory, because of the names.
	table []int32
	seed  maphash.Seed
}

// few is the number of members up to which no table is needed.
const few = 8

// fieldsOf returns the members of the object at.
func (d *document) fieldsOf(at int) fields {
	n := 0
	for w := d.walk(at); w.next(); {
		n++
	}
	f := fields{document: d, all: make([]field, 0, n)}
	if n > few {
		f.table, f.seed = make([]int32, 2<<bits.Len(uint(n))), maphash.MakeSeed()
	}
	for w := d.walk(at); w.next(); {
		one := field{int32(w.named), int32(w.unnamed), int32(w.start), int32(w.stop), int32(w.inside), false}
		have, slot := f.look(jsonscan.Plain(w.name()))
		if have != nil {
			*have = one
			continue
		}
		f.all = append(f.all, one)
		if f.table != nil {
			f.table[slot] = int32(len(f.all))
		}
	}
	return f
}

// find returns the member with that name, or nil.
func (f *fields) find(name []byte) *field {
	have, _ := f.look(name)
	return have
}

// look returns the member with that name, or nil and its place in the table.
func (f *fields) look(name []byte) (*field, int) {
	if f.table == nil {
		for i := range f.all {
			if bytes.Equal(f.nameOf(&f.all[i]), name) {
				return &f.all[i], 0
			}
		}
		return nil, 0
	}
	mask := len(f.table) - 1
	for slot := int(maphash.Bytes(f.seed, name)) & mask; ; slot = (slot + 1) & mask {
		i := f.table[slot]
		if i == 0 {
			return nil, slot
		}
		if one := &f.all[i-1]; bytes.Equal(f.nameOf(one), name) {
			return one, slot
		}
	}
}
