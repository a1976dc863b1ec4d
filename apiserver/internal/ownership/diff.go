package ownership

import (
	"maps"
	"reflect"
	"slices"
	"sync"

	"sigs.k8s.io/structured-merge-diff/v6/schema"
)

// diff is the difference between two objects of one plan. Like structured-merge-diff, it adds every
// new field to changed, with the containers that hold only new fields, and every removed field to
// removed.
type diff struct {
	schema           *schema.Schema
	changed, removed set
	// The remaining fields are scratch space. Steps in the sets refer to elems, and elems to parts.
	elems       []elem
	parts       []part
	items       []item
	names       []string
	text        []byte
	spare, work set
}

// elem stores an element and returns the reference for steps.
func (d *diff) elem(e elem) *elem {
	d.elems = append(d.elems, e)
	return &d.elems[len(d.elems)-1]
}

var diffs = sync.Pool{New: func() any { return &diff{} }}

// reset drops the objects, so that scratch space keeps none of them alive.
func (d *diff) reset() {
	if cap(d.changed) > maxScratch || cap(d.elems) > maxScratch || cap(d.items) > maxScratch || cap(d.text) > 64*maxScratch {
		*d = diff{}
		return
	}
	d.changed, d.removed, d.spare, d.work = emptied(d.changed), emptied(d.removed), emptied(d.spare), emptied(d.work)
	d.elems, d.parts, d.items, d.names = emptied(d.elems), emptied(d.parts), emptied(d.items), emptied(d.names)
	d.schema = nil
}

// maxScratch is the number of steps beyond which memory is not kept.
const maxScratch = 4096

func emptied[S ~[]E, E any](s S) S {
	clear(s[:cap(s)])
	return s[:0]
}

// presence says whether a value exists.
type presence uint8

const (
	absent presence = iota
	null            // there, and null in JSON
	there
)

// side is a value of one of the two objects.
type side struct {
	reflect.Value
	presence
}

// at returns the value in slot v.
func (s *slot) at(v reflect.Value) side {
	if s.pointer {
		if v.IsNil() {
			return side{presence: null}
		}
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Slice, reflect.Map, reflect.Interface:
		if v.IsNil() {
			return side{v, null}
		}
	case reflect.Struct:
		if s.null != nil && s.null(v) {
			return side{v, null}
		}
	}
	return side{v, there}
}

// of returns the field of a struct.
func (f *field) of(s side) side {
	if s.presence != there {
		return side{}
	}
	v := s.Value
	for _, i := range f.index {
		v = v.Field(i)
	}
	if f.omitEmpty && isEmpty(v) || f.omitZero != nil && f.omitZero(v) {
		return side{}
	}
	return f.at(v)
}

func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Struct:
		return false
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	}
	return v.IsZero()
}

// compare adds the differences between l and r, which are at e in s. It returns an error if only
// structured-merge-diff can compare them.
func (d *diff) compare(s *slot, e *elem, l, r side, not mask) error {
	if l.presence == absent && r.presence == absent {
		return nil
	}
	switch s.how {
	case foreign:
		if not != nil {
			return errForeign
		}
		return d.foreign(s, e, l, r)
	case leaf:
		switch {
		case r.presence == absent:
			d.removed = d.removed.open(e, true)
		case l.presence == absent || l.presence != r.presence || l.presence == there && !sameLeaf(l.Value, r.Value):
			d.changed = d.changed.open(e, true)
		}
		return nil
	}
	changedAt, removedAt := len(d.changed), len(d.removed)
	// Two empty values differ only if exactly one is null.
	d.changed = d.changed.open(e, l.presence == absent || l.presence != r.presence && r.presence != absent && s.void(l) && s.void(r))
	d.removed = d.removed.open(e, r.presence == absent)
	var err error
	switch s.how {
	case fields:
		err = d.fields(s.plan, l, r, not)
	case entries:
		err = d.entries(s.plan, l, r, not)
	default:
		var twice bool
		if twice, err = d.list(s.plan, l, r); twice {
			d.changed, d.removed = d.changed[:changedAt], d.removed[:removedAt]
			return d.foreign(s, e, l, r)
		}
	}
	d.changed, d.removed = d.changed.close(changedAt), d.removed.close(removedAt)
	return err
}

// void reports whether container v has no visible contents.
func (p *plan) void(v side) bool {
	if v.presence != there {
		return true
	}
	if p.how != fields {
		return v.Len() == 0
	}
	for i := range p.fields {
		if f := &p.fields[i]; !f.never && f.of(v).presence != absent {
			return false
		}
	}
	return true
}

func (d *diff) fields(p *plan, l, r side, not mask) error {
	for i := range p.fields {
		f := &p.fields[i]
		if f.never {
			continue
		}
		below, masked := not[f.name]
		if masked && below == nil {
			continue
		}
		if err := d.compare(&f.slot, &f.elem, f.of(l), f.of(r), below); err != nil {
			return err
		}
	}
	return nil
}

// entries compares maps, in the order of their keys.
func (d *diff) entries(p *plan, l, r side, not mask) error {
	if l.presence == there && r.presence == there && sameTexts(l, r) {
		return nil
	}
	base := len(d.names)
	defer func() { d.names = d.names[:base] }()
	d.keys(l)
	d.keys(r)
	slices.Sort(d.names[base:])
	end := base + len(slices.Compact(d.names[base:]))
	if base == end {
		return nil
	}
	m := r
	if m.presence != there {
		m = l
	}
	key := reflect.New(m.Type().Key()).Elem()
	for i := base; i < end; i++ {
		name := d.names[i]
		below, masked := not[name]
		if masked && below == nil {
			continue
		}
		key.SetString(name)
		e := d.elem(elem{kind: byName, name: name})
		if err := d.compare(&p.elem, e, p.entry(l, key), p.entry(r, key), below); err != nil {
			return err
		}
	}
	return nil
}

// sameTexts reports whether two maps of strings are equal, as most labels are.
func sameTexts(l, r side) bool {
	a, ok := l.Interface().(map[string]string)
	if !ok {
		return false
	}
	b, ok := r.Interface().(map[string]string)
	return ok && maps.Equal(a, b)
}

func (d *diff) keys(m side) {
	if m.presence != there || m.Len() == 0 {
		return
	}
	if texts, ok := m.Interface().(map[string]string); ok {
		for k := range texts {
			d.names = append(d.names, k)
		}
		return
	}
	key := reflect.New(m.Type().Key()).Elem()
	for iter := m.MapRange(); iter.Next(); {
		key.SetIterKey(iter)
		d.names = append(d.names, key.String())
	}
}

func (p *plan) entry(m side, key reflect.Value) side {
	if m.presence != there {
		return side{}
	}
	v := m.MapIndex(key)
	if !v.IsValid() {
		return side{}
	}
	return p.elem.at(v)
}

// top compares two whole objects.
func (d *diff) top(p *plan, live, obj reflect.Value, not mask) error {
	return d.fields(p, side{live, there}, side{obj, there}, not)
}
