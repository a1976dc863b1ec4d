package structural

import (
	"weak"

	"github.com/planekit/planekit/kinds/apiextensions"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// openapi returns what s says of a value itself, without the values in it, as kube-openapi validates with it. It is
// made when it is used, which most schemas never see, and kept for as long as the garbage collector leaves it.
func (s *Schema) openapi() (*spec.Schema, error) {
	if s.bare != nil {
		return s.bare.openapi()
	}
	if s.spec == nil {
		return s.toOpenAPI()
	}
	if before := s.spec.Load(); before != nil {
		if made := before.Value(); made != nil {
			return made, nil
		}
	}
	made, err := s.toOpenAPI()
	if err == nil {
		kept := weak.Make(made)
		s.spec.Store(&kept)
	}
	return made, err
}

func (s *Schema) toOpenAPI() (*spec.Schema, error) {
	source := *s.Source
	source.Properties, source.Items, source.AdditionalProperties = nil, nil, nil
	source.AllOf, source.AnyOf, source.OneOf, source.Not = nil, nil, nil, nil
	return toOpenAPI(&source)
}

// toOpenAPI converts s to the type that kube-openapi validates with.
func toOpenAPI(s *apiextensions.JSONSchemaProps) (*spec.Schema, error) {
	if s == nil {
		return nil, nil
	}
	out := &spec.Schema{SchemaProps: spec.SchemaProps{
		Nullable: s.Nullable, Format: usedFormat(s), Title: s.Title, Maximum: s.Maximum, ExclusiveMaximum: s.ExclusiveMaximum,
		Minimum: s.Minimum, ExclusiveMinimum: s.ExclusiveMinimum, MaxLength: s.MaxLength, MinLength: s.MinLength, Pattern: s.Pattern,
		MaxItems: s.MaxItems, MinItems: s.MinItems, UniqueItems: s.UniqueItems, MultipleOf: s.MultipleOf,
		MaxProperties: s.MaxProperties, MinProperties: s.MinProperties, Required: s.Required,
	}}
	if s.Type != "" {
		out.Type = spec.StringOrArray{s.Type}
	}
	if s.XIntOrString {
		out.Type = spec.StringOrArray{"integer", "string"}
	}
	for _, e := range s.Enum {
		var v any
		if len(e.Raw) > 0 {
			if err := utiljson.Unmarshal(e.Raw, &v); err != nil {
				return nil, err
			}
		}
		out.Enum = append(out.Enum, v)
	}
	var err error
	for _, list := range []struct {
		from []apiextensions.JSONSchemaProps
		to   *[]spec.Schema
	}{{s.AllOf, &out.AllOf}, {s.AnyOf, &out.AnyOf}, {s.OneOf, &out.OneOf}} {
		for i := range list.from {
			one, err := toOpenAPI(&list.from[i])
			if err != nil {
				return nil, err
			}
			*list.to = append(*list.to, *one)
		}
	}
	if out.Not, err = toOpenAPI(s.Not); err != nil {
		return nil, err
	}
	if s.Properties != nil {
		out.Properties = make(map[string]spec.Schema, len(s.Properties))
	}
	for name, p := range s.Properties {
		one, err := toOpenAPI(&p)
		if err != nil {
			return nil, err
		}
		out.Properties[name] = *one
	}
	if a := s.AdditionalProperties; a != nil {
		out.AdditionalProperties = &spec.SchemaOrBool{Allows: a.Allows}
		if out.AdditionalProperties.Schema, err = toOpenAPI(a.Schema); err != nil {
			return nil, err
		}
	}
	if s.Items != nil && s.Items.Schema != nil {
		out.Items = &spec.SchemaOrArray{}
		if out.Items.Schema, err = toOpenAPI(s.Items.Schema); err != nil {
			return nil, err
		}
	}
	return out, nil
}
