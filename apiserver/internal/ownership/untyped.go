package ownership

import (
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// Custom objects have no Go type for which a plan could be made. Their fields are compared as JSON has them, by
// the schema alone.

// untyped is a value of one of two such objects: nil, a string, a bool, an int64, a float64, a list or a map.
type untyped struct {
	value any
	there bool
}

// topUntyped compares two whole objects.
func (d *diff) topUntyped(t schema.TypeRef, live, obj runtime.Object, not mask) error {
	atom, ok := d.schema.Resolve(t)
	was, isOne := Without(live).(runtime.Unstructured)
	now, isAlso := Without(obj).(runtime.Unstructured)
	if !ok || atom.Map == nil || !isOne || !isAlso {
		return errForeign
	}
	return d.untypedFields(atom.Map, untyped{was.UnstructuredContent(), true}, untyped{now.UnstructuredContent(), true}, not)
}

func (u untyped) fields() map[string]any {
	m, _ := u.value.(map[string]any)
	return m
}

func (u untyped) list() []any {
	l, _ := u.value.([]any)
	return l
}

func (u untyped) field(name string) untyped {
	v, ok := u.fields()[name]
	return untyped{v, ok}
}

// fits reports whether a describes values like u. A null fits only if a describes one sort of values, because
// structured-merge-diff has rules of its own for the other nulls.
func (u untyped) fits(a schema.Atom) bool {
	switch v := u.value.(type) {
	case nil:
		sorts := 0
		for _, has := range []bool{a.Scalar != nil, a.List != nil, a.Map != nil} {
			if has {
				sorts++
			}
		}
		return sorts == 1
	case map[string]any:
		return a.Map != nil
	case []any:
		return a.List != nil
	default:
		return a.Scalar != nil && scalarFits(reflect.TypeOf(v), *a.Scalar)
	}
}

// part returns the part of a schema that describes values like u.
func (u untyped) part(a schema.Atom) schema.Atom {
	switch u.value.(type) {
	case nil:
		return a
	case map[string]any:
		return schema.Atom{Map: a.Map}
	case []any:
		return schema.Atom{List: a.List}
	}
	return schema.Atom{Scalar: a.Scalar}
}

// untyped adds the differences between two values of type t, as compare does. It returns errForeign if only
// structured-merge-diff can compare them.
func (d *diff) untyped(t schema.TypeRef, e *elem, l, r untyped, not mask) error {
	atom, ok := d.schema.Resolve(t)
	if !ok || l.there && !l.fits(atom) || r.there && !r.fits(atom) {
		return errForeign
	}
	if !r.there {
		atom = l.part(atom)
	} else if atom = r.part(atom); l.there && l.part(atom) != atom {
		return errForeign
	}
	switch {
	case atom.Map != nil && atom.Map.ElementRelationship != schema.Atomic && len(l.fields())+len(r.fields()) > 0:
		return d.below(e, l, r, func() error { return d.untypedFields(atom.Map, l, r, not) })
	case atom.List != nil && atom.List.ElementRelationship != schema.Atomic && len(l.list())+len(r.list()) > 0:
		return d.below(e, l, r, func() error { return d.untypedList(atom.List, l.list(), r.list()) })
	case not != nil || !d.valid(t, l) || !d.valid(t, r):
		return errForeign
	case !r.there:
		d.removed = d.removed.open(e, true)
	case !l.there || !sameUntyped(l.value, r.value):
		d.changed = d.changed.open(e, true)
	}
	return nil
}

// valid reports whether t describes a value and all in it. Those of which it does not are for apimachinery to refuse.
func (d *diff) valid(t schema.TypeRef, u untyped) bool {
	if !u.there {
		return true
	}
	atom, ok := d.schema.Resolve(t)
	if !ok || !u.fits(atom) {
		return false
	}
	for name, v := range u.fields() {
		if !d.valid(typeOf(atom.Map, name), untyped{v, true}) {
			return false
		}
	}
	for _, v := range u.list() {
		if !d.valid(atom.List.ElementType, untyped{v, true}) || atom.List.ElementRelationship != schema.Atomic {
			return false // an item may have no keys
		}
	}
	return true
}

// typeOf returns the type of a field.
func typeOf(m *schema.Map, name string) schema.TypeRef {
	if f, ok := m.FindField(name); ok {
		return f.Type
	}
	return m.ElementType
}

// below adds the differences in two containers.
func (d *diff) below(e *elem, l, r untyped, compare func() error) error {
	changedAt, removedAt := len(d.changed), len(d.removed)
	d.changed, d.removed = d.changed.open(e, !l.there), d.removed.open(e, !r.there)
	err := compare()
	d.changed, d.removed = d.changed.close(changedAt), d.removed.close(removedAt)
	return err
}

func sameUntyped(l, r any) bool {
	switch l.(type) {
	case map[string]any, []any:
		if reflect.DeepEqual(l, r) {
			return true
		}
	default:
		if l == r {
			return true
		}
	}
	return value.Equals(value.NewValueInterface(l), value.NewValueInterface(r))
}

func (d *diff) untypedFields(m *schema.Map, l, r untyped, not mask) error {
	base := len(d.names)
	defer func() { d.names = d.names[:base] }()
	for _, side := range []untyped{l, r} {
		for name := range side.fields() {
			d.names = append(d.names, name)
		}
	}
	slices.Sort(d.names[base:])
	end := base + len(slices.Compact(d.names[base:]))
	for i := base; i < end; i++ {
		name := d.names[i]
		below, masked := not[name]
		if masked && below == nil {
			continue
		}
		if err := d.untyped(typeOf(m, name), d.elem(elem{kind: byName, name: name}), l.field(name), r.field(name), below); err != nil {
			return err
		}
	}
	return nil
}

// untypedList compares the items that have the same keys, or are the same values.
func (d *diff) untypedList(list *schema.List, l, r []any) error {
	base := len(d.items)
	defer func() { d.items = d.items[:base] }()
	keys := d.keysOf(list)
	for _, side := range [][]any{l, r} {
		left := len(d.items) == base && len(l) > 0
		for at, v := range side {
			e, err := d.untypedItem(keys, v)
			if err != nil {
				return err
			}
			d.items = append(d.items, item{e, left, at})
		}
	}
	slices.SortStableFunc(d.items[base:], func(a, b item) int { return a.compare(b.elem) })
	for i, end := base, len(d.items); i < end; i++ {
		one := d.items[i]
		var left, right untyped
		if one.left {
			left = untyped{l[one.at], true}
		} else {
			right = untyped{r[one.at], true}
		}
		if i+1 < end && d.items[i+1].compare(one.elem) == 0 {
			if i++; d.items[i].left == one.left || i+1 < end && d.items[i+1].compare(one.elem) == 0 {
				return errForeign // the same keys twice
			}
			right = untyped{r[d.items[i].at], true}
		}
		if err := d.untyped(list.ElementType, one.elem, left, right, nil); err != nil {
			return err
		}
	}
	return nil
}

// untypedKey is a key of the items of a list, and its value in an item without it.
type untypedKey struct {
	name    string
	missing any
}

// keysOf returns the keys of a list by name; none for a set.
func (d *diff) keysOf(list *schema.List) []untypedKey {
	all := make([]untypedKey, 0, len(list.Keys))
	for _, name := range slices.Sorted(slices.Values(list.Keys)) {
		one := untypedKey{name: name}
		if atom, ok := d.schema.Resolve(list.ElementType); ok && atom.Map != nil {
			if f, ok := atom.Map.FindField(name); ok {
				one.missing = f.Default
			}
		}
		all = append(all, one)
	}
	return all
}

// untypedItem returns the path element of an item.
func (d *diff) untypedItem(keys []untypedKey, v any) (*elem, error) {
	from := len(d.parts)
	kind := byValue
	if len(keys) > 0 {
		kind = byKeys
		fields, isMap := v.(map[string]any)
		if !isMap {
			return nil, errForeign
		}
		for _, k := range keys {
			key, ok := fields[k.name]
			if !ok {
				if key = k.missing; key == nil {
					continue
				}
			}
			one, err := untypedPart(key)
			if err != nil {
				return nil, err
			}
			one.name = k.name
			d.parts = append(d.parts, one)
		}
	} else if one, err := untypedPart(v); err == nil && v != nil {
		d.parts = append(d.parts, one)
	}
	if len(d.parts) == from {
		return nil, errForeign
	}
	return d.elem(elem{kind: kind, parts: d.parts[from:len(d.parts):len(d.parts)]}), nil
}

func untypedPart(v any) (part, error) {
	switch v := v.(type) {
	case nil:
		return part{kind: isNull}, nil
	case string:
		return part{kind: isString, text: v}, nil
	case bool:
		if v {
			return part{kind: isBool, number: 1}, nil
		}
		return part{kind: isBool}, nil
	case int64:
		if v < exactIntegers && v > -exactIntegers {
			return part{number: float64(v)}, nil
		}
	}
	return part{}, errForeign
}
