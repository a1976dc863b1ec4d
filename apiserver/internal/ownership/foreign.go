package ownership

import (
	"reflect"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// wrap is the only key of the maps that foreign compares.
const wrap = "x"

// foreign compares two values with structured-merge-diff, each as the only value of a map.
func (d *diff) foreign(s *slot, e *elem, l, r side) error {
	if l.presence == absent && r.presence == absent {
		return nil
	}
	before, err := d.wrapped(s, l)
	if err != nil {
		return err
	}
	after, err := d.wrapped(s, r)
	if err != nil {
		return err
	}
	comparison, err := before.Compare(after)
	if err != nil {
		return err
	}
	if d.changed, err = graft(d.changed, e, comparison.Modified.Union(comparison.Added)); err != nil {
		return err
	}
	d.removed, err = graft(d.removed, e, comparison.Removed)
	return err
}

// graft appends what s has below wrap, moved to e.
func graft(out set, e *elem, s *fieldpath.Set) (set, error) {
	at := len(out)
	out, err := flatten(out, s)
	if err == nil && len(out) > at {
		out[at].elem = e
	}
	return out, err
}

func (d *diff) wrapped(s *slot, v side) (*typed.TypedValue, error) {
	t := s.declared
	if t.Kind() != reflect.Pointer && t.Kind() != reflect.Interface {
		t = reflect.PointerTo(t)
	}
	m := reflect.New(reflect.MapOf(reflect.TypeFor[string](), t))
	m.Elem().Set(reflect.MakeMap(m.Type().Elem()))
	if v.presence != absent {
		held := reflect.Zero(t)
		if v.IsValid() {
			held = reflect.New(v.Type())
			held.Elem().Set(v.Value)
			if t.Kind() == reflect.Interface {
				held = held.Elem()
			}
		}
		m.Elem().SetMapIndex(reflect.ValueOf(wrap), held)
	}
	of, err := value.NewValueReflect(m.Interface())
	if err != nil {
		return nil, err
	}
	//lint:ignore SA1019 it is compared as the object would be
	return typed.AsTypedUnvalidated(of, d.schema, s.wrapped), nil
}
