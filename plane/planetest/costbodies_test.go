package planetest_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// anyKey stands for the first key of a map in the path of a place.
const anyKey = "*"

// A place is a list, a map or a text somewhere in a kind, by the names of its JSON fields. A place in
// the items of a list or the values of a map is in the first of them.
type place struct {
	path []string
	kind reflect.Type
}

func (p place) String() string { return strings.Join(p.path, ".") }

// placesOf returns the lists and maps, and the texts, in the chosen fields of a Go type.
func placesOf(t reflect.Type, chosen func(field string) bool) (lists, texts []place) {
	var walk func(t reflect.Type, path []string, above []reflect.Type)
	walk = func(t reflect.Type, path []string, above []reflect.Type) {
		switch {
		case t.Kind() == reflect.Pointer:
			walk(t.Elem(), path, above)
		case scalar(t) != nil, slices.Contains(above, t), len(path) > 14:
		case t.Kind() == reflect.String:
			texts = append(texts, place{slices.Clone(path), t})
		case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
			texts = append(texts, place{slices.Clone(path), t})
		case t.Kind() == reflect.Slice:
			lists = append(lists, place{slices.Clone(path), t})
			walk(t.Elem(), append(path, "0"), append(above, t))
		case t.Kind() == reflect.Map:
			lists = append(lists, place{slices.Clone(path), t})
			walk(t.Elem(), append(path, anyKey), append(above, t))
		case t.Kind() == reflect.Struct:
			for field, name := range jsonFields(t) {
				walk(field.Type, append(path, name), append(above, t))
			}
		}
	}
	for field, name := range jsonFields(t) {
		if name != "kind" && name != "apiVersion" && chosen(name) {
			walk(field.Type, []string{name}, nil)
		}
	}
	return lists, texts
}

// jsonFields yields the fields of a struct, with those of embedded ones, and their names.
func jsonFields(t reflect.Type) func(func(reflect.StructField, string) bool) {
	return func(yield func(reflect.StructField, string) bool) {
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" && f.Anonymous {
				for inner, innerName := range jsonFields(f.Type) {
					if !yield(inner, innerName) {
						return
					}
				}
				continue
			}
			if name != "" && name != "-" && f.IsExported() && !yield(f, name) {
				return
			}
		}
	}
}

// scalar returns an example of a type that is a struct in Go and a scalar in JSON, or nil.
func scalar(t reflect.Type) any {
	switch t {
	case reflect.TypeFor[resource.Quantity]():
		return "1"
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]():
		return "2026-01-02T03:04:05Z"
	case reflect.TypeFor[metav1.Duration]():
		return "1s"
	case reflect.TypeFor[intstr.IntOrString]():
		return 1
	case reflect.TypeFor[runtime.RawExtension](), reflect.TypeFor[metav1.FieldsV1]():
		return map[string]any{}
	}
	return nil
}

// A manner is how the items of a list are made.
type manner string

const (
	empty    manner = "empty"    // without any fields
	filled   manner = "filled"   // with all fields, each with another value
	same     manner = "same"     // with all fields, all alike
	likeBase manner = "likeBase" // as the item of the example is, with other names
)

var manners = []manner{empty, filled, same, likeBase}

// value makes the i-th value of type t, down to depth levels.
func value(t reflect.Type, i int, m manner, depth int) any {
	if m == same {
		i = 0
	}
	if s := scalar(t); s != nil {
		return s
	}
	switch t.Kind() {
	case reflect.Pointer:
		return value(t.Elem(), i, m, depth)
	case reflect.String:
		return fmt.Sprint("x", i)
	case reflect.Bool:
		return i%2 == 1
	case reflect.Int, reflect.Int32, reflect.Int64:
		return 1 + i%60_000
	case reflect.Float32, reflect.Float64:
		return 1
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "eA=="
		}
		if depth == 0 || m == empty {
			return []any{}
		}
		return []any{value(t.Elem(), i, m, depth-1)}
	case reflect.Map:
		if depth == 0 || m == empty {
			return map[string]any{}
		}
		return map[string]any{fmt.Sprint("k", i): value(t.Elem(), i, m, depth-1)}
	case reflect.Struct:
		fields := map[string]any{}
		if depth > 0 && m != empty {
			for f, name := range jsonFields(t) {
				fields[name] = value(f.Type, i, m, depth-1)
			}
		}
		return fields
	}
	return nil
}

// renamed returns a copy of an item of an example whose names and numbers are its own.
func renamed(item any, i int) any {
	switch item := item.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, value := range item {
			switch key {
			case "name", "key", "mountPath", "devicePath", "topologyKey", "host", "ip", "path":
				if text, ok := value.(string); ok {
					out[key] = fmt.Sprint(text, i)
					continue
				}
			case "port", "containerPort":
				if _, ok := value.(float64); ok {
					out[key] = 1 + i%60_000
					continue
				}
			}
			out[key] = value
		}
		return out
	case string:
		return fmt.Sprint(item, i)
	}
	return item
}

// with returns a copy of object in which a place holds content. It returns nil if the place cannot be.
func with(object any, path []string, content func(had any) any) any {
	if len(path) == 0 {
		return content(object)
	}
	if path[0] == "0" {
		list, _ := object.([]any)
		var first any
		if len(list) > 0 {
			first = list[0]
		}
		changed := with(first, path[1:], content)
		return append([]any{changed}, list[min(1, len(list)):]...)
	}
	fields, _ := object.(map[string]any)
	changed := maps.Clone(fields)
	if changed == nil {
		changed = map[string]any{}
	}
	key := path[0]
	if key == anyKey {
		key = "k0"
		if keys := slices.Sorted(maps.Keys(fields)); len(keys) > 0 {
			key = keys[0]
		}
	}
	changed[key] = with(fields[key], path[1:], content)
	return changed
}

// fillList returns object with so many items at a place that they take about size bytes.
func fillList(object any, p place, m manner, size int) any {
	return with(object, p.path, func(had any) any {
		one := func(i int) any {
			if m != likeBase {
				return value(p.kind.Elem(), i, m, 3)
			}
			switch had := had.(type) {
			case []any:
				if len(had) > 0 {
					return renamed(had[0], i)
				}
			case map[string]any:
				for _, key := range slices.Sorted(maps.Keys(had)) {
					return had[key]
				}
			}
			return nil
		}
		if one(0) == nil {
			return had
		}
		n := max(1, size/(len(toJSON(one(1234)))+1))
		if p.kind.Kind() == reflect.Map {
			n = max(1, size/(len(toJSON(one(1234)))+9))
			fields := map[string]any{}
			for i := range n {
				fields[fmt.Sprint("k", i)] = one(i)
			}
			return fields
		}
		items := make([]any, n)
		for i := range items {
			items[i] = one(i)
		}
		return items
	})
}

// pointer is the JSON pointer of a place.
func pointer(p place) string { return "/" + strings.Join(p.path, "/") }

// inFront is a JSON patch of many operations, each of which adds an item in front of a list, or a value of a map.
func inFront(p place, size int) any {
	add := func(path string, v any) any { return map[string]any{"op": "add", "path": path, "value": v} }
	patch := []any{add(pointer(p), value(p.kind, 0, empty, 1))}
	item := value(p.kind.Elem(), 7, filled, 1)
	for i := range size / (len(toJSON(add(pointer(p), item))) + 3) {
		key := "/0"
		if p.kind.Kind() == reflect.Map {
			key = fmt.Sprint("/k", i)
		}
		patch = append(patch, add(pointer(p)+key, item))
	}
	return patch
}

// moves is a JSON patch that adds a long list and moves it to a field of another name and back, over and over.
func moves(p place, size int) any {
	list := value(p.kind, 7, filled, 2)
	if p.kind.Kind() == reflect.Slice {
		list = slices.Repeat(list.([]any), max(1, size/2/len(toJSON(list))))
	}
	patch := []any{map[string]any{"op": "add", "path": pointer(p), "value": list}}
	for range size / 2 / 120 {
		patch = append(patch, map[string]any{"op": "move", "from": pointer(p), "path": "/x"}, map[string]any{"op": "move", "from": "/x", "path": pointer(p)})
	}
	return patch
}

// copies is a JSON patch that adds a list and copies it into annotations, over and over.
func copies(p place, size int) any {
	patch := []any{
		map[string]any{"op": "add", "path": pointer(p), "value": fillList(map[string]any{"x": nil}, place{[]string{"x"}, p.kind}, filled, size/2).(map[string]any)["x"]},
		map[string]any{"op": "add", "path": "/metadata/annotations", "value": map[string]any{}},
	}
	for i := range size / 2 / 60 {
		patch = append(patch, map[string]any{"op": "copy", "from": pointer(p), "path": fmt.Sprint("/metadata/annotations/k", i)})
	}
	return patch
}

func toJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // all of it is made of plain values
	}
	return string(data)
}

// fillFirst is fillList that keeps the first item, in which the inner lists are.
func fillFirst(object any, p place, m manner, size int) any {
	return with(object, p.path, func(had any) any {
		filled := fillList(map[string]any{"x": had}, place{[]string{"x"}, p.kind}, m, size).(map[string]any)["x"]
		list, isList := filled.([]any)
		before, _ := had.([]any)
		if isList && len(before) > 0 {
			return append(before[:1:1], list...)
		}
		return filled
	})
}
