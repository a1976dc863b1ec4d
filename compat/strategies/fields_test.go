package strategies

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/compat/pair"
)

// A schema describes a type of the API, as in the document of kube-apiserver, which is made of the Go types.
type schema struct {
	Ref                  string `json:"$ref"`
	Type, Format         string
	Enum, Required       []string
	Properties           map[string]*schema
	Items                *schema
	AdditionalProperties *schema
	Kinds                []struct{ Group, Version, Kind string } `json:"x-kubernetes-group-version-kind"`
}

// A model has the schemas of all types, by name.
type model map[string]*schema

// newModel reads the document of a server.
func newModel(t *testing.T, s *pair.Side) model {
	t.Helper()
	got := s.Send(t, pair.Request{Method: "GET", Path: "/openapi/v2"})
	var document struct{ Definitions model }
	if err := json.Unmarshal(got.Body, &document); got.Code != 200 || err != nil {
		t.Fatalf("GET /openapi/v2 of %s = %d, %v, want 200 and JSON", s.Name, got.Code, err)
	}
	// The document calls these strings and times.
	document.Definitions["io.k8s.apimachinery.pkg.api.resource.Quantity"].Format = "quantity"
	document.Definitions["io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime"].Format = "micro-time"
	return document.Definitions
}

// kind returns the schema of a kind, or nil.
func (m model) kind(apiVersion, kind string) *schema {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		for _, k := range m[name].Kinds {
			if len(m[name].Kinds) == 1 && k.Kind == kind && strings.TrimPrefix(k.Group+"/"+k.Version, "/") == apiVersion {
				return m[name]
			}
		}
	}
	return nil
}

func (m model) resolve(s *schema) *schema {
	if name, ok := strings.CutPrefix(s.Ref, "#/definitions/"); ok {
		return m[name]
	}
	return s
}

// A field is a place in an object. An index of a list is "0", a key of a map "a".
type field struct {
	path []string
	*schema
}

func (f field) String() string { return strings.Join(f.path, ".") }

// last returns the name of the field, or of the list or map that it is an entry of.
func (f field) last() string {
	for _, name := range slices.Backward(f.path) {
		if name != "0" && name != "a" {
			return name
		}
	}
	return ""
}

// fields returns the fields of a type, those that contain others first. A type that contains itself is not repeated.
func (m model) fields(s *schema, path []string, above []string) (all []field) {
	if s.Ref != "" {
		if slices.Contains(above, s.Ref) || strings.HasSuffix(s.Ref, ".ManagedFieldsEntry") {
			return nil
		}
		above = append(slices.Clone(above), s.Ref)
	}
	s = m.resolve(s)
	if len(path) > 0 {
		all = append(all, field{path, s})
	}
	below := func(name string, s *schema) {
		all = append(all, m.fields(s, append(slices.Clone(path), name), above)...)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if len(path) > 0 || name != "apiVersion" && name != "kind" {
			below(name, s.Properties[name])
		}
	}
	if s.Items != nil {
		below("0", s.Items)
	}
	if s.AdditionalProperties != nil {
		below("a", s.AdditionalProperties)
	}
	return all
}

// minimal returns a value of a type that has what it requires and little else.
func (m model) minimal(s *schema, name string) any {
	s = m.resolve(s)
	switch {
	case s.Type == "array":
		return []any{m.minimal(s.Items, name)}
	case s.AdditionalProperties != nil:
		return map[string]any{"a": m.minimal(s.AdditionalProperties, name)}
	case s.Properties != nil || s.Type == "object":
		object := map[string]any{}
		for _, required := range s.Required {
			object[required] = m.minimal(s.Properties[required], required)
		}
		return object
	}
	return m.plausible(field{[]string{name}, s})[0]
}

// A change sets a field to a value, or removes it.
type change struct {
	field  field
	value  any
	remove bool
}

// apply changes an object of a type. Fields that are missing on the way get what they require.
func (m model) apply(s *schema, object any, c change) { m.set(s, object, c.field.path, c) }

func (m model) set(s *schema, in any, path []string, c change) any {
	if len(path) == 0 {
		return c.value
	}
	s = m.resolve(s)
	name, next := path[0], (*schema)(nil)
	switch {
	case s.Items != nil:
		next = s.Items
		list, _ := in.([]any)
		if len(list) == 0 {
			list = []any{nil}
		}
		if list[0] == nil && len(path) > 1 {
			list[0] = m.minimal(next, name)
		}
		list[0] = m.set(next, list[0], path[1:], c)
		return list
	case s.Properties[name] != nil:
		next = s.Properties[name]
	default:
		next = s.AdditionalProperties
	}
	object, _ := in.(map[string]any)
	if object == nil {
		object = map[string]any{}
	}
	if c.remove && len(path) == 1 {
		delete(object, name)
		return object
	}
	if object[name] == nil && len(path) > 1 {
		object[name] = m.minimal(next, name)
	}
	object[name] = m.set(next, object[name], path[1:], c)
	return object
}

// has reports whether an object has a field.
func has(in any, path []string) bool {
	for _, name := range path {
		switch v := in.(type) {
		case map[string]any:
			next, ok := v[name]
			if !ok {
				return false
			}
			in = next
		case []any:
			if len(v) == 0 {
				return false
			}
			in = v[0]
		default:
			return false
		}
	}
	return true
}
