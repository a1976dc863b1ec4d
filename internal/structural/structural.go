// Package structural compiles the schemas of CustomResourceDefinitions and applies them to objects: unknown
// fields are removed, defaults are set, and values are validated
// (https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema).
//
//	schema, err := structural.Compile(definition.Spec.Versions[0].Schema.OpenAPIV3Schema)
//	unknown := schema.Complete(object, true)
//	errs := schema.Validate(object)
//
// Objects are JSON values as apimachinery decodes them: maps, slices, strings, booleans, int64, float64 and
// nil. Complete changes its argument; all other methods do not. A Schema may be used by many goroutines.
//
// A valid object is recognized in one pass that builds nothing. Only an invalid one is validated again by
// k8s.io/kube-openapi, as in kube-apiserver, whose errors say what is wrong.
//
// CEL rules are compiled and evaluated by package apiserver/crd/rules.
package structural

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/planekit/planekit/kinds/apiextensions"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// A Schema describes a value.
type Schema struct {
	// Type is an OpenAPI type; empty is any.
	Type                                      string
	Nullable, Preserve, Embedded, IntOrString bool
	// Default is set where a field is absent; nil is none.
	Default    any
	Properties map[string]*Schema
	// Additional describes the fields that Properties does not name. If it is nil, and
	// HasAdditional is set, they may have any value.
	Additional    *Schema
	HasAdditional bool
	Items         *Schema
	ListType      string
	ListMapKeys   []string
	MapType       string
	Rules         []apiextensions.ValidationRule

	// Source holds the keywords of the uncompiled schema, without the description and the schemas that
	// are compiled to Properties, Additional and Items: those would take as much memory again.
	Source *apiextensions.JSONSchemaProps

	checks *checks
	// settled is the part of Default that objects get.
	settled any
	// defaulting is nil if there are no defaults here.
	defaulting *defaulting
	// deep facts, of this schema and all below.
	lists, embeds bool
	// spec holds what openapi has returned, until nothing else does.
	spec *atomic.Pointer[weak.Pointer[spec.Schema]]
	// whole returns the schema with metadata; nil if the schema is not that of an embedded resource.
	whole func() *Schema
	// bare is the schema without metadata, of a schema that WithMeta has made.
	bare *Schema
}

// Compile compiles s. It fails if s uses a keyword that no structural schema may have.
//
// It charges the programs of patterns to the budget of ctx.
func Compile(ctx context.Context, s *apiextensions.JSONSchemaProps) (*Schema, error) {
	if s == nil {
		return nil, nil
	}
	out, err := compile(ctx, s)
	if err == nil {
		out.settle(out, nil)
	}
	return out, err
}

func compile(ctx context.Context, s *apiextensions.JSONSchemaProps) (*Schema, error) {
	if err := unsupported(s); err != nil {
		return nil, err
	}
	out := &Schema{
		Type: s.Type, Nullable: s.Nullable, Embedded: s.XEmbeddedResource, IntOrString: s.XIntOrString,
		Preserve:    s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields,
		ListMapKeys: s.XListMapKeys, Rules: s.XValidations, Source: keywords(s), spec: new(atomic.Pointer[weak.Pointer[spec.Schema]]),
	}
	if s.XListType != nil {
		out.ListType = *s.XListType
	}
	if s.XMapType != nil {
		out.MapType = *s.XMapType
	}
	if s.Default != nil && len(s.Default.Raw) > 0 {
		if err := utiljson.Unmarshal(s.Default.Raw, &out.Default); err != nil {
			return nil, fmt.Errorf("default: %w", err)
		}
	}
	if err := out.compileBelow(ctx, s); err != nil {
		return nil, err
	}
	out.lists = out.ListType == "set" || out.ListType == "map"
	out.embeds = out.Embedded
	for _, part := range out.parts() {
		out.lists = out.lists || part.lists
		out.embeds = out.embeds || part.embeds
	}
	var err error
	if out.checks, err = compileChecks(ctx, s); err != nil {
		return nil, err
	}
	if out.Embedded {
		out.whole = sync.OnceValue(out.withMeta)
	}
	return out, nil
}

// keywords returns s without the schemas that are compiled, and without its description.
func keywords(s *apiextensions.JSONSchemaProps) *apiextensions.JSONSchemaProps {
	out := *s
	out.Description, out.Properties, out.Items = "", nil, nil
	if a := s.AdditionalProperties; a != nil {
		out.AdditionalProperties = &apiextensions.JSONSchemaPropsOrBool{Allows: a.Allows}
	}
	if plain := plainKeywords[s.Type]; reflect.DeepEqual(&out, plain) {
		return plain
	}
	return &out
}

// plainKeywords holds the keywords of schemas that have a type and nothing else, by type. Most schemas share them.
var plainKeywords = map[string]*apiextensions.JSONSchemaProps{
	"": {}, "array": {Type: "array"}, "boolean": {Type: "boolean"}, "integer": {Type: "integer"},
	"number": {Type: "number"}, "object": {Type: "object"}, "string": {Type: "string"},
}

func (s *Schema) compileBelow(ctx context.Context, from *apiextensions.JSONSchemaProps) (err error) {
	if from.Items != nil {
		if len(from.Items.JSONSchemas) > 0 {
			return errors.New("OpenAPIV3Schema 'items' must be a schema, but is an array")
		}
		if from.Items.Schema != nil {
			if s.Items, err = compile(ctx, from.Items.Schema); err != nil {
				return err
			}
		}
	}
	if len(from.Properties) > 0 {
		s.Properties = make(map[string]*Schema, len(from.Properties))
	}
	for name, p := range from.Properties {
		if s.Properties[name], err = compile(ctx, &p); err != nil {
			return err
		}
	}
	if a := from.AdditionalProperties; a != nil {
		s.HasAdditional = true
		if a.Schema != nil {
			s.Additional, err = compile(ctx, a.Schema)
		}
	}
	return err
}

// parts returns the schemas one level below.
func (s *Schema) parts() []*Schema {
	var all []*Schema
	for _, p := range s.Properties {
		all = append(all, p)
	}
	for _, p := range []*Schema{s.Additional, s.Items} {
		if p != nil {
			all = append(all, p)
		}
	}
	return all
}

// field returns the schema of a field, and whether there may be such a field.
func (s *Schema) field(name string) (*Schema, bool) {
	if p := s.Properties[name]; p != nil {
		return p, true
	}
	return s.Additional, s.HasAdditional
}

// unsupported returns an error for the keywords of JSON schema that structural schemas do not have.
func unsupported(s *apiextensions.JSONSchemaProps) error {
	for _, k := range []struct {
		name string
		set  bool
	}{
		{"id", s.ID != ""}, {"schema", s.Schema != ""}, {"$ref", s.Ref != nil && *s.Ref != ""},
		{"patternProperties", len(s.PatternProperties) > 0}, {"dependencies", len(s.Dependencies) > 0},
		{"additionalItems", s.AdditionalItems != nil}, {"definitions", len(s.Definitions) > 0},
	} {
		if k.set {
			return fmt.Errorf("OpenAPIV3Schema '%s' is not supported", k.name)
		}
	}
	for _, list := range [][]apiextensions.JSONSchemaProps{s.AllOf, s.AnyOf, s.OneOf} {
		for i := range list {
			if err := unsupportedBelow(&list[i]); err != nil {
				return err
			}
		}
	}
	if s.Not != nil {
		return unsupportedBelow(s.Not)
	}
	return nil
}

func unsupportedBelow(s *apiextensions.JSONSchemaProps) (err error) {
	s.Subschemas(func(part *apiextensions.JSONSchemaProps) bool {
		shallow := *part
		shallow.AllOf, shallow.AnyOf, shallow.OneOf, shallow.Not = nil, nil, nil, nil
		if err = unsupported(&shallow); err == nil && part.Items != nil && len(part.Items.JSONSchemas) > 0 {
			err = errors.New("OpenAPIV3Schema 'items' must be a schema, but is an array")
		}
		return err == nil
	})
	return err
}
