package structural

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateLists returns the items that a list of type set, or of type map, has twice: at most some hundred errors, and
// one that says so if there are more.
func (s *Schema) ValidateLists(path *field.Path, v any) field.ErrorList {
	f := &findings{path: path}
	s.validateLists(f, path, v)
	return f.errs
}

func (s *Schema) validateLists(f *findings, path *field.Path, v any) {
	if s == nil || !s.lists || f.full {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if p := s.Properties[name]; p != nil {
				p.validateLists(f, path.Child(name), value)
			} else if s.Additional != nil {
				s.Additional.validateLists(f, path.Key(name), value)
			}
		}
	case []any:
		switch s.ListType {
		case "set":
			for _, i := range repeated(v) {
				if !f.add(field.Duplicate(path.Index(i), v[i])) {
					return
				}
			}
		case "map":
			s.repeatedKeys(f, path, v)
		}
		for i, item := range v {
			s.Items.validateLists(f, path.Index(i), item)
		}
	}
}

// repeated returns the indexes at which items occur for the second time.
func repeated(items []any) []int {
	var at []int
	seen := make(map[any]int, len(items))
	for i, item := range items {
		key := item
		switch item.(type) {
		case map[string]any, []any:
			data, err := json.Marshal(item)
			if err != nil {
				continue // what came from JSON becomes JSON
			}
			key = compound(data)
		}
		if seen[key]++; seen[key] == 2 {
			at = append(at, i)
		}
	}
	return at
}

// compound is the JSON of an object or a list, which no string equals.
type compound string

// repeatedKeys finds the items of a list of type map whose keys occur twice.
func (s *Schema) repeatedKeys(f *findings, path *field.Path, items []any) {
	keys := make([]any, len(items))
	for i, item := range items {
		fields, ok := item.(map[string]any)
		if item != nil && !ok {
			f.add(field.Invalid(path.Index(i), item, "must be an object for an array of list-type map"))
			return
		}
		key := map[string]any{}
		for _, name := range s.ListMapKeys {
			if v, ok := fields[name]; ok {
				key[name] = v
			}
		}
		keys[i] = key
	}
	for _, i := range repeated(keys) {
		if !f.add(field.Duplicate(path.Index(i), keys[i])) {
			return
		}
	}
}
