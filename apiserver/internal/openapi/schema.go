// Package openapi writes OpenAPI v3 and v2 documents from Go types by reflection.
//
// A document holds the schemas of the types it is given and of all that they
// contain, with descriptions from their SwaggerDoc methods, and the paths of the
// resources. Everything in it comes from struct tags and from methods which
// k8s.io/api types have and others may have; there is nothing to generate.
//
// A table has what Kubernetes' own types say only in comments, such as which lists merge by which
// keys. Other types say it in the struct tags patchStrategy and patchMergeKey.
//
// The documents have the part of OpenAPI that kubectl and client-go read.
package openapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// A Schema is an OpenAPI v3 schema with Kubernetes' extensions.
type Schema struct {
	Ref                  string             `json:"$ref,omitempty"`
	Description          string             `json:"description,omitempty"`
	Type                 string             `json:"type,omitempty"`
	Format               string             `json:"format,omitempty"`
	AllOf                []Schema           `json:"allOf,omitempty"`
	OneOf                []Schema           `json:"oneOf,omitempty"`
	Items                *Schema            `json:"items,omitempty"`
	Properties           map[string]*Schema `json:"properties,omitempty"`
	AdditionalProperties *Schema            `json:"additionalProperties,omitempty"`
	Required             []string           `json:"required,omitempty"`
	Kinds                []Kind             `json:"x-kubernetes-group-version-kind,omitempty"`
	Default              json.RawMessage    `json:"default,omitempty"`
	Enum                 []string           `json:"enum,omitempty"`
	ListType             string             `json:"x-kubernetes-list-type,omitempty"`
	ListMapKeys          []string           `json:"x-kubernetes-list-map-keys,omitempty"`
	MapType              string             `json:"x-kubernetes-map-type,omitempty"`
	PatchStrategy        string             `json:"x-kubernetes-patch-strategy,omitempty"`
	PatchMergeKey        string             `json:"x-kubernetes-patch-merge-key,omitempty"`
	IntOrString          bool               `json:"x-kubernetes-int-or-string,omitempty"`

	// given and givenV2 return the JSON of a schema that is given as such; nil means that the fields
	// above are the schema.
	given, givenV2 func() ([]byte, error)
}

// A Kind names a type of the API.
type Kind struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
}

const refPrefix = "#/components/schemas/"

// schemas collects the schemas of types by name.
type schemas map[string]*Schema

// MarshalJSON implements [json.Marshaler].
func (s schemas) MarshalJSON() ([]byte, error) {
	all := make(map[string]any, len(s))
	for name, schema := range s {
		all[name] = schema
		if schema.given == nil {
			continue
		}
		data, err := schema.given()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all[name] = json.RawMessage(data)
	}
	return json.Marshal(all)
}

// add adds the schema of t, a struct, if it is missing, and returns its name.
func (s schemas) add(t reflect.Type) string {
	name := modelName(t)
	if s[name] != nil {
		return name
	}
	schema := &Schema{}
	s[name] = schema // before its fields: types may contain themselves
	if own, ok := ownSchema(t); ok {
		*schema = own
		schema.Description = cmp.Or(docs(t)[""], undocumented[name])
		return name
	}
	schema.Type = "object"
	markersOf(t, "").put(schema)
	schema.Description = docs(t)[""]
	s.fields(t, schema)
	return name
}

// fields adds the properties of struct t to schema, including those of embedded structs.
func (s schemas) fields(t reflect.Type, schema *Schema) {
	text := docs(t)
	for i := range t.NumField() {
		f := t.Field(i)
		tag, given := f.Tag.Lookup("json")
		name, options, _ := strings.Cut(tag, ",")
		if name == "-" || (!f.IsExported() && !f.Anonymous) {
			continue
		}
		if f.Anonymous && name == "" {
			if inner := indirect(f.Type); inner.Kind() == reflect.Struct {
				s.fields(inner, schema)
			}
			continue
		}
		if !given || name == "" {
			name = f.Name
		}
		marked := markersOf(t, name)
		p := s.of(f.Type)
		p.Default = zeroOf(f.Type, strings.Contains(options, "omitempty"))
		marked.put(&p)
		p.Description = text[name]
		p.PatchStrategy = f.Tag.Get("patchStrategy")
		p.PatchMergeKey = f.Tag.Get("patchMergeKey")
		p.wrapRef()
		if schema.Properties == nil {
			schema.Properties = map[string]*Schema{}
		}
		schema.Properties[name] = &p
		if marked.required || !marked.optional && !strings.Contains(options, "omit") {
			schema.Required = append(schema.Required, name)
		}
	}
}

// of returns the schema of a value of type t at the place where it is used.
func (s schemas) of(t reflect.Type) Schema {
	t = indirect(t)
	switch t.Kind() {
	case reflect.Struct:
		return Schema{Ref: refPrefix + s.add(t)}
	case reflect.Slice, reflect.Array:
		if own, ok := ownSchema(t); ok {
			return own
		}
		if t.Elem().Kind() == reflect.Uint8 {
			return Schema{Type: "string", Format: "byte"}
		}
		return Schema{Type: "array", Items: s.element(t.Elem())}
	case reflect.Map:
		return Schema{Type: "object", AdditionalProperties: s.element(t.Elem())}
	case reflect.String:
		return Schema{Type: "string", Enum: markersOf(t, "").enum}
	case reflect.Bool:
		return Schema{Type: "boolean"}
	case reflect.Float32, reflect.Float64:
		return Schema{Type: "number", Format: "double"}
	case reflect.Int64, reflect.Int, reflect.Uint64, reflect.Uint:
		return Schema{Type: "integer", Format: "int64"}
	case reflect.Interface:
		return Schema{} // anything
	}
	return Schema{Type: "integer", Format: "int32"}
}

// element returns the schema of a value in a list or map.
func (s schemas) element(t reflect.Type) *Schema {
	e := s.of(t)
	e.Default = zeroOf(t, false)
	e.wrapRef()
	return &e
}

// wrapRef wraps a reference if the schema has more fields, because clients ignore what is beside a
// reference.
func (s *Schema) wrapRef() {
	if s.Ref != "" && (s.Description != "" || s.Default != nil || s.MapType != "" || s.PatchStrategy != "") {
		s.AllOf, s.Ref = []Schema{{Ref: s.Ref}}, ""
	}
}

// zeroOf returns the default of a field of type t whose absence Go cannot represent; nil for all
// other types. Types that decode themselves take null as absence.
func zeroOf(t reflect.Type, omitEmpty bool) json.RawMessage {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Array, reflect.Interface:
		return nil
	case reflect.Struct:
		return json.RawMessage("{}")
	}
	switch {
	case omitEmpty:
		return nil
	case t.Kind() == reflect.String:
		return json.RawMessage(`""`)
	case t.Kind() == reflect.Bool:
		return json.RawMessage("false")
	}
	return json.RawMessage("0")
}

func indirect(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}
