package openapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// A Resource is a resource whose paths and schemas a document describes.
type Resource struct {
	// Path is the path of the group version, such as "/apis/apps/v1".
	Path       string
	Plural     string
	Namespaced bool
	Verbs      []string
	Kind       Kind
	// Type and List are the Go types of the object and its list. List is nil if there is no list.
	Type, List reflect.Type
	// Event is the Go type of the events of a watch. Nil leaves the paths of watches out.
	Event reflect.Type
	// Given describes the object if its Go type does not; nil means that it does.
	Given *Given
	// ListKind is the kind of the list.
	ListKind    string
	Subs        []Sub
	Connections []Connection
}

// A Sub is a subresource. Type is the type of its bodies; nil means that they are the resource's own.
type Sub struct {
	Name  string
	Verbs []string
	Kind  Kind
	Type  reflect.Type
}

// Given is the schema of a resource whose Go type does not describe its objects.
type Given struct {
	Name string
	// V3 and V2 return the schema as JSON, for OpenAPI v3 and v2.
	V3, V2 func() ([]byte, error)
	// Metadata and ListMetadata are the Go types of the metadata of objects and lists.
	Metadata, ListMetadata reflect.Type
}

// Build returns the JSON of the document of one group version. Options is the type of the body of a
// deletion.
func Build(title, version string, resources []Resource, options reflect.Type) ([]byte, error) {
	d := document{
		OpenAPI: "3.0.0",
		Info:    info{Title: title, Version: version},
		Paths:   map[string]*pathItem{},
	}
	s := schemas{}
	for _, r := range resources {
		r.addSchemas(s)
		r.addPaths(s, d.Paths, options)
	}
	d.Components.Schemas = s
	return json.Marshal(d)
}

// Definitions returns the JSON of the schemas of a group version by name.
func Definitions(resources []Resource) ([]byte, error) {
	s := schemas{}
	for _, r := range resources {
		r.addSchemas(s)
	}
	return json.Marshal(s)
}

// DefinitionsKey returns a key that differs if Definitions differs. It holds within one process. None of
// the resources may have a given schema.
func DefinitionsKey(resources []Resource) string {
	var key strings.Builder
	for _, r := range resources {
		// The address of a reflect.Type identifies the type.
		fmt.Fprintf(&key, "%p %v %p", r.Type, r.Kind, r.List)
		for _, sub := range r.Subs {
			fmt.Fprintf(&key, " %p %v", sub.Type, sub.Kind)
		}
		key.WriteByte('\n')
	}
	return key.String()
}

type document struct {
	OpenAPI    string               `json:"openapi"`
	Info       info                 `json:"info"`
	Paths      map[string]*pathItem `json:"paths"`
	Components struct {
		Schemas schemas `json:"schemas"`
	} `json:"components"`
}

type info struct {
	Title   string `json:"title"`
	Version string `json:"version"`
}

func (r Resource) addSchemas(s schemas) {
	if r.Given != nil {
		r.addGiven(s)
	} else {
		tag(s, r.Type, r.Kind)
		if r.List != nil {
			tag(s, r.List, r.listKind())
		}
	}
	for _, sub := range r.Subs {
		if sub.Type != nil {
			tag(s, sub.Type, sub.Kind)
		}
	}
}

func (r Resource) listKind() Kind {
	return Kind{r.Kind.Group, r.Kind.Version, cmp.Or(r.ListKind, r.Kind.Kind+"List")}
}

// addGiven adds the given schema and that of its list.
func (r Resource) addGiven(s schemas) {
	s.add(r.Given.Metadata)
	s[r.Given.Name] = &Schema{given: r.Given.V3, givenV2: r.Given.V2}
	list := r.listKind()
	text := Schema{Type: "string"}
	s[r.listName()] = &Schema{
		Description: list.Kind + " is a list of " + r.Kind.Kind,
		Type:        "object",
		Required:    []string{"items"},
		Properties: map[string]*Schema{
			"apiVersion": &text, "kind": &text,
			"metadata": {Ref: refPrefix + s.add(r.Given.ListMetadata)},
			"items":    {Type: "array", Items: &Schema{Ref: refPrefix + r.Given.Name}},
		},
		Kinds: []Kind{list},
	}
}

// listName returns the name of the schema of a list of objects with a given schema.
func (r Resource) listName() string {
	return strings.TrimSuffix(r.Given.Name, r.Kind.Kind) + r.listKind().Kind
}

// object returns the name of the schema of the object.
func (r Resource) object(s schemas) string {
	if r.Given != nil {
		return r.Given.Name
	}
	return s.add(r.Type)
}

// body returns the name of the schema of the bodies of a subresource.
func (r Resource) body(s schemas, sub Sub) string {
	if sub.Type == nil {
		return r.object(s)
	}
	return s.add(sub.Type)
}

// tag marks the schema of t as that of an API kind.
func tag(s schemas, t reflect.Type, kind Kind) {
	schema := s[s.add(t)]
	if !slices.Contains(schema.Kinds, kind) {
		schema.Kinds = append(schema.Kinds, kind)
	}
}
