package structural

import "github.com/planekit/planekit/kinds/apiextensions"

// WithMeta returns the schema of a whole resource: s with the fields kind, apiVersion and metadata, of
// which only name and generateName have schemas.
func (s *Schema) WithMeta() *Schema {
	if s.whole != nil {
		return s.whole()
	}
	return s.withMeta()
}

func (s *Schema) withMeta() *Schema {
	text := &Schema{Type: "string", Source: &apiextensions.JSONSchemaProps{Type: "string"}, checks: noChecks}
	is := func(part *Schema, of string) bool { return part != nil && part.Type == of }
	if m := s.Properties["metadata"]; is(s.Properties["kind"], "string") && is(s.Properties["apiVersion"], "string") && is(m, "object") &&
		is(m.Properties["name"], "string") && is(m.Properties["generateName"], "string") {
		return s
	}
	out := *s
	out.whole, out.Items, out.bare = nil, nil, s
	out.Properties = make(map[string]*Schema, len(s.Properties)+3)
	for name, part := range s.Properties {
		out.Properties[name] = part
	}
	out.Properties["kind"], out.Properties["apiVersion"] = text, text
	out.Properties["metadata"] = &Schema{
		Type: "object", Source: &apiextensions.JSONSchemaProps{Type: "object"}, checks: noChecks,
		Properties: map[string]*Schema{"name": text, "generateName": text},
	}
	return &out
}

// EnumTexts returns the values that are texts of those to which s restricts its own.
func (s *Schema) EnumTexts() []string {
	if s.checks.enum == nil {
		return nil
	}
	return s.checks.enum.texts
}
