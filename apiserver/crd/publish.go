package crd

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/kinds/apiextensions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type props = apiextensions.JSONSchemaProps

// published returns the schema of the version as OpenAPI documents have it.
func (v *version) published(*apiextensions.CustomResourceDefinition) *apiserver.Schema {
	group := strings.Split(v.gvk.Group, ".")
	slices.Reverse(group)
	return &apiserver.Schema{
		Name: strings.Join(append(group, v.gvk.Version, v.gvk.Kind), "."),
		V3:   func() ([]byte, error) { return v.document(apiserver.ObjectMetaV3, false) },
		V2:   func() ([]byte, error) { return v.document(apiserver.ObjectMetaV2, true) },
	}
}

// document returns the schema as JSON.
func (v *version) document(metadata string, v2 bool) ([]byte, error) {
	schema, err := v.source()
	if err != nil {
		return nil, err
	}
	known := schema != nil
	if !known {
		schema = &props{Type: "object"}
	}
	preserves := schema.XPreserveUnknownFields != nil && *schema.XPreserveUnknownFields
	switch {
	case !known, v2 && preserves:
		// kubectl takes other fields for errors as soon as there is one.
		schema = &props{Type: "object"}
	default:
		schema = embed(schema, metadata, v2)
		schema.Properties = withResource(schema.Properties, metadata)
	}
	data, err := json.Marshal(schema)
	if err != nil {
		return nil, err
	}
	kinds, err := json.Marshal([]metav1.GroupVersionKind{{Group: v.gvk.Group, Version: v.gvk.Version, Kind: v.gvk.Kind}})
	if err != nil {
		return nil, err
	}
	data = append(data[:len(data)-1], `,"x-kubernetes-group-version-kind":`...)
	return append(append(data, kinds...), '}'), nil
}

// withResource returns fields with those that every resource has.
func withResource(fields map[string]props, metadata string) map[string]props {
	docs := metav1.TypeMeta{}.SwaggerDoc()
	out := map[string]props{
		"apiVersion": {Type: "string", Description: docs["apiVersion"]},
		"kind":       {Type: "string", Description: docs["kind"]},
		"metadata": {Description: metav1.PartialObjectMetadata{}.SwaggerDoc()["metadata"],
			AllOf: []props{{Ref: &metadata}}},
	}
	if metadata == apiserver.ObjectMetaV2 {
		out["metadata"] = props{Description: out["metadata"].Description, Ref: &metadata} // v2 has both beside each other
	}
	for name, p := range fields {
		if _, own := out[name]; !own {
			out[name] = p
		}
	}
	return out
}

// embed returns a copy of s in which embedded resources have the fields of every resource. For OpenAPI v2 it
// leaves out what clients of that do not understand.
func embed(s *props, metadata string, v2 bool) *props {
	if s == nil {
		return nil
	}
	out := *s
	if v2 {
		forV2(&out)
	}
	if out.Properties != nil {
		out.Properties = make(map[string]props, len(s.Properties))
		for name, p := range s.Properties {
			out.Properties[name] = *embed(&p, metadata, v2)
		}
	}
	if out.Items != nil {
		out.Items = &apiextensions.JSONSchemaPropsOrArray{Schema: embed(s.Items.Schema, metadata, v2)}
	}
	if a := out.AdditionalProperties; a != nil {
		out.AdditionalProperties = &apiextensions.JSONSchemaPropsOrBool{Allows: a.Allows, Schema: embed(a.Schema, metadata, v2)}
	}
	preserves := out.XPreserveUnknownFields != nil && *out.XPreserveUnknownFields
	if out.XEmbeddedResource && !(v2 && preserves) {
		out.Properties = withResource(out.Properties, metadata)
		out.Required = slices.Clone(out.Required)
		for _, name := range []string{"kind", "apiVersion"} {
			if !slices.Contains(out.Required, name) {
				out.Required = append(out.Required, name)
			}
		}
	}
	return &out
}

// forV2 removes from s what clients that read OpenAPI v2 do not understand.
func forV2(s *props) {
	s.AllOf, s.OneOf, s.AnyOf, s.Not, s.Default = nil, nil, nil, nil, nil
	required := slices.DeleteFunc(slices.Clone(s.Required), func(name string) bool { return s.Properties[name].Nullable })
	s.Required = required
	if a := s.AdditionalProperties; a != nil && a.Schema != nil && a.Schema.Nullable {
		s.Required = nil
	}
	if s.Nullable {
		s.Type, s.Nullable, s.Items, s.Properties = "", false, nil, nil
	}
	preserves := s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields
	if preserves {
		s.Items, s.Properties = nil, nil
	}
	if s.Items == nil && s.Type == "array" || preserves && s.Type == "object" {
		s.Type = ""
	}
}
