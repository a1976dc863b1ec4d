package openapi

import (
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
	Subs       []Sub
}

// A Sub is a subresource. Type is the type of its bodies.
type Sub struct {
	Name  string
	Verbs []string
	Kind  Kind
	Type  reflect.Type
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

// DefinitionsKey returns a key that differs if Definitions differs. It holds within one process.
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
	tag(s, r.Type, r.Kind)
	if r.List != nil {
		tag(s, r.List, Kind{r.Kind.Group, r.Kind.Version, r.Kind.Kind + "List"})
	}
	for _, sub := range r.Subs {
		tag(s, sub.Type, sub.Kind)
	}
}

// tag marks the schema of t as that of an API kind.
func tag(s schemas, t reflect.Type, kind Kind) {
	schema := s[s.add(t)]
	if !slices.Contains(schema.Kinds, kind) {
		schema.Kinds = append(schema.Kinds, kind)
	}
}
