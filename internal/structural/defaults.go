package structural

import "k8s.io/apimachinery/pkg/runtime"

// newDefault returns a copy of the default of s, with the defaults of its own fields.
func (s *Schema) newDefault() any {
	v := runtime.DeepCopyJSONValue(s.settled)
	s.fill(v, false)
	return v
}

// setDefaults adds the fields that are absent and have defaults.
func (s *Schema) setDefaults(obj map[string]any) {
	for name, part := range s.Properties {
		if _, ok := obj[name]; !ok && part.settled != nil {
			obj[name] = part.newDefault()
		}
	}
}

// fill sets the defaults in v, whose unknown fields it keeps. With removeNulls it also removes the fields that
// are null, may not be and have no default. As in kube-apiserver, those of a default stay.
func (s *Schema) fill(v any, removeNulls bool) {
	if s == nil {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for name, x := range v {
			part, known := s.field(name)
			switch {
			case !known || part == nil:
			case x != nil || part.Nullable:
				part.fill(x, removeNulls)
			case part.settled != nil:
				v[name] = part.newDefault()
			case removeNulls:
				delete(v, name)
			}
		}
		s.setDefaults(v)
	case []any:
		for i, x := range v {
			if x == nil && s.Items != nil && !s.Items.Nullable {
				v[i] = s.Items.newDefault()
			} else {
				s.Items.fill(x, removeNulls)
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
}

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
