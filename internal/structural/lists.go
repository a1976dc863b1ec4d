package structural

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateLists returns the items that a list of type set, or of type map, has twice.
func (s *Schema) ValidateLists(path *field.Path, v any) field.ErrorList {
	if s == nil || !s.lists {
		return nil
	}
	var all field.ErrorList
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if p := s.Properties[name]; p != nil {
				all = append(all, p.ValidateLists(path.Child(name), value)...)
			} else if s.Additional != nil {
				all = append(all, s.Additional.ValidateLists(path.Key(name), value)...)
			}
		}
	case []any:
		switch s.ListType {
		case "set":
			for _, i := range repeated(v) {
				all = append(all, field.Duplicate(path.Index(i), v[i]))
			}
		case "map":
			all = append(all, s.repeatedKeys(path, v)...)
		}
		for i, item := range v {
			all = append(all, s.Items.ValidateLists(path.Index(i), item)...)
		}
	}
	return all
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

// repeatedKeys returns the items of a list of type map whose keys occur twice.
func (s *Schema) repeatedKeys(path *field.Path, items []any) field.ErrorList {
	keys := make([]any, len(items))
	for i, item := range items {
		fields, ok := item.(map[string]any)
		if item != nil && !ok {
			return field.ErrorList{field.Invalid(path.Index(i), item, "must be an object for an array of list-type map")}
		}
		key := map[string]any{}
		for _, name := range s.ListMapKeys {
			if v, ok := fields[name]; ok {
				key[name] = v
			}
		}
		keys[i] = key
	}
	var all field.ErrorList
	for _, i := range repeated(keys) {
		all = append(all, field.Duplicate(path.Index(i), keys[i]))
	}
	return all
}
