package jsonpatch

import (
	"context"
	"fmt"
)

// Merge returns original with the changes of a merge patch. Both must be JSON objects.
func Merge(ctx context.Context, original, patch []byte, depth int) ([]byte, error) {
	to, err := scan(ctx, original, depth)
	if err != nil {
		return nil, fmt.Errorf("the document: %w", err)
	}
	from, err := scan(ctx, patch, depth)
	if err != nil {
		return nil, err
	}
	if len(to.spans) == 0 || len(from.spans) == 0 || !to.isObject(0) || !from.isObject(0) {
		return nil, fmt.Errorf("%w: it must be an object", ErrMalformed)
	}
	m := merger{ctx: ctx, to: to, from: from}
	m.out = make([]byte, 0, len(original)+len(patch))
	m.objects(0, 0)
	return m.out, m.err
}

func (d *document) isObject(at int) bool { return at >= 0 && d.data[d.spans[at].start] == '{' }

// merger writes the result of merging from into to.
type merger struct {
	ctx      context.Context
	to, from *document
	out      []byte
	done     int
	err      error
}

// stopped reports whether the context has ended. It checks the context at intervals.
func (m *merger) stopped() bool {
	if m.done++; m.done%checkEvery == 0 && m.err == nil {
		m.err = m.ctx.Err()
	}
	return m.err != nil
}

// objects writes the object at to, merged with the one at from.
func (m *merger) objects(to, from int) {
	patch, have := m.from.fieldsOf(from), m.to.fieldsOf(to)
	m.out = append(m.out, '{')
	empty := len(m.out)
	for i := range have.all {
		if m.stopped() {
			return
		}
		old := &have.all[i]
		next := patch.find(have.nameOf(old))
		if next == nil {
			m.name(have.quoted(old), empty)
			m.out = append(m.out, have.valueOf(old)...)
			continue
		}
		next.used = true
		if patch.null(next) {
			continue
		}
		m.name(have.quoted(old), empty)
		switch oldObject := m.to.isObject(int(old.inside)); {
		case oldObject && m.from.isObject(int(next.inside)):
			m.objects(int(old.inside), int(next.inside))
		case oldObject:
			m.out = append(m.out, patch.valueOf(next)...)
		default:
			m.pruned(next)
		}
	}
	for i := range patch.all {
		if m.stopped() {
			return
		}
		if f := &patch.all[i]; !f.used && !patch.null(f) {
			m.name(patch.quoted(f), empty)
			m.pruned(f)
		}
	}
	m.out = append(m.out, '}')
}

// name begins a member. empty is the length of the output without any member.
func (m *merger) name(name []byte, empty int) {
	if len(m.out) > empty {
		m.out = append(m.out, ',')
	}
	m.out = append(append(m.out, name...), ':')
}

// pruned writes a value of the patch without its null members.
func (m *merger) pruned(f *field) {
	if f.inside < 0 {
		m.out = append(m.out, m.from.valueOf(f)...)
		return
	}
	m.prune(int(f.inside))
}

func (m *merger) prune(at int) {
	if !m.from.isObject(at) {
		m.pruneArray(at)
		return
	}
	m.out = append(m.out, '{')
	empty := len(m.out)
	members := m.from.fieldsOf(at)
	for i := range members.all {
		if m.stopped() {
			return
		}
		if f := &members.all[i]; !members.null(f) {
			m.name(members.quoted(f), empty)
			m.pruned(f)
		}
	}
	m.out = append(m.out, '}')
}

func (m *merger) pruneArray(at int) {
	m.out = append(m.out, '[')
	first := true
	for w := m.from.walk(at); w.next(); first = false {
		if m.stopped() {
			return
		}
		if !first {
			m.out = append(m.out, ',')
		}
		if w.inside < 0 {
			m.out = append(m.out, w.value()...)
		} else {
			m.prune(w.inside)
		}
	}
	m.out = append(m.out, ']')
}
