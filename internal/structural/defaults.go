package structural

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// defaulting holds facts about the defaults of a schema and of its fields.
type defaulting struct {
	// fields are the properties with defaults, sorted.
	fields []string
	// empty is the extent of what an empty object gets, and own that of the default with the defaults of
	// its fields.
	empty, own extent
}

// noDefaults belongs to a schema without defaults.
var noDefaults = &defaulting{}

// newDefault returns a copy of the default of s, with the defaults of its own fields; nil if the budget does
// not cover it.
func (s *Schema) newDefault(m *meter) any {
	if own := s.defaults().own; !m.work(product(own.values, copySteps)) || !m.memory(own.bytes) {
		return nil
	}
	v := runtime.DeepCopyJSONValue(s.settled)
	s.fill(v, false, m)
	return v
}

// copySteps estimates the steps for a copied value, and for handling it later.
const copySteps = 15

func (s *Schema) defaults() *defaulting {
	if s == nil || s.defaulting == nil {
		return noDefaults
	}
	return s.defaulting
}

// setDefaults adds the fields that are absent and have defaults.
func (s *Schema) setDefaults(obj map[string]any, m *meter) {
	for _, name := range s.defaults().fields {
		if _, ok := obj[name]; ok {
			continue
		}
		if !m.memory(fieldExtent(name).bytes) {
			return
		}
		obj[name] = s.Properties[name].newDefault(m)
	}
}

// fill sets the defaults in v, whose unknown fields it keeps. With removeNulls it also removes the fields that
// are null, may not be and have no default. As in kube-apiserver, those of a default stay.
func (s *Schema) fill(v any, removeNulls bool, m *meter) {
	if s == nil || m.err != nil {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for name, x := range v {
			part, known := s.field(name)
			switch {
			case !known || part == nil:
			case x != nil || part.Nullable:
				part.fill(x, removeNulls, m)
			case part.settled != nil:
				v[name] = part.newDefault(m)
			case removeNulls:
				delete(v, name)
			}
		}
		s.setDefaults(v, m)
	case []any:
		for i, x := range v {
			if x == nil && s.Items != nil && !s.Items.Nullable {
				v[i] = s.Items.newDefault(m)
			} else {
				s.Items.fill(x, removeNulls, m)
			}
		}
	}
}

// A step leads from a value to one in it: a field, or the item of a list if the name is empty.
type step struct {
	name string
	item bool
}

// settle sets the default that objects get for root and all schemas below: without the fields, also of the
// metadata of embedded resources, that an object cannot have.
func (root *Schema) settle(s *Schema, path []step) {
	if s == nil {
		return
	}
	if s.Default != nil {
		s.settled = root.settledDefault(s.Default, path)
	}
	below := func(part *Schema, to step) { root.settle(part, append(path[:len(path):len(path)], to)) }
	for name, part := range s.Properties {
		below(part, step{name: name})
	}
	below(s.Additional, step{name: "*"})
	below(s.Items, step{item: true})
	s.measure()
}

// measure sets the facts about the defaults of s, whose parts have been measured.
func (s *Schema) measure() {
	var d defaulting
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if part := s.Properties[name]; part.settled != nil {
			d.fields = append(d.fields, name)
			d.empty.add(fieldExtent(name))
			d.empty.add(part.defaults().own)
		}
	}
	if s.settled == nil && d.fields == nil {
		return
	}
	s.defaulting = &d
	if s.settled != nil {
		d.own = s.extent(s.settled)
	}
}

// extent returns the extent of v with the defaults of its fields.
func (s *Schema) extent(v any) extent {
	var out extent
	switch v := v.(type) {
	case map[string]any:
		absent := s.defaults().empty
		out = mapExtent
		for name, x := range v {
			out.add(fieldExtent(name))
			var part *Schema
			if s != nil {
				part, _ = s.field(name)
			}
			if part != nil && x == nil && !part.Nullable && part.settled != nil {
				out.add(part.defaults().own)
			} else {
				out.add(part.extent(x))
			}
			if part != nil && part.settled != nil && part == s.Properties[name] && absent.bytes < maxExtent {
				absent.values -= fieldExtent(name).values + part.defaults().own.values
				absent.bytes -= fieldExtent(name).bytes + part.defaults().own.bytes
			}
		}
		out.add(absent)
	case []any:
		var items *Schema
		if s != nil {
			items = s.Items
		}
		out = listExtent(len(v))
		for _, x := range v {
			if x == nil && items != nil && !items.Nullable {
				out.add(items.defaults().own)
			} else {
				out.add(items.extent(x))
			}
		}
	default:
		out = scalarExtent(v)
	}
	out.values, out.bytes = min(out.values, maxExtent), min(out.bytes, maxExtent)
	return out
}

// maxExtent is more than any budget has.
const maxExtent = 1 << 40

// settledDefault returns what an object that has nothing but the default at path keeps of it.
func (root *Schema) settledDefault(v any, path []step) any {
	v = runtime.DeepCopyJSONValue(v)
	for i := len(path) - 1; i >= 0; i-- {
		if path[i].item {
			v = []any{v}
		} else {
			v = map[string]any{path[i].name: v}
		}
	}
	obj, ok := v.(map[string]any)
	if !ok {
		return v
	}
	coercion{dropInvalid: true}.object(nil, root, obj, true)
	c := completion{noDefaults: true, keepNulls: true}
	c.object(obj, root, true, root.Preserve)
	for _, to := range path {
		switch in := v.(type) {
		case map[string]any:
			v = in[to.name]
		case []any:
			v = in[0]
		}
	}
	return v
}
