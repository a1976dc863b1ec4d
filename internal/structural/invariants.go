package structural

import (
	"encoding/json"
	"fmt"
	"regexp/syntax"
	"sort"

	"github.com/planekit/planekit/kinds/apiextensions"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

type props = apiextensions.JSONSchemaProps

// Check returns why s is not a structural schema, sorted.
func Check(path *field.Path, s *props) field.ErrorList {
	if s == nil {
		return nil
	}
	all := append(invariants(s, atRoot, path), completeness(s, s, path, path)...)
	sort.SliceStable(all, func(i, j int) bool { return all[i].Error() < all[j].Error() })
	return all
}

// level is where in a schema another one is.
type level int

const (
	atRoot level = iota
	atItems
	atField
)

func invariants(s *props, at level, path *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	var all field.ErrorList
	if s.Type == "array" && s.Items == nil {
		all = append(all, field.Required(path.Child("items"), "must be specified"))
	}
	if s.Items != nil {
		all = append(all, invariants(s.Items.Schema, atItems, path.Child("items"))...)
	}
	for name, p := range s.Properties {
		all = append(all, invariants(&p, atField, path.Child("properties").Key(name))...)
	}
	if a := s.AdditionalProperties; a != nil {
		if at == atRoot {
			all = append(all, field.Forbidden(path.Child("additionalProperties"), "must not be used at the root"))
		}
		all = append(all, invariants(a.Schema, atField, path.Child("additionalProperties"))...)
	}
	preserve := s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields
	if s.XIntOrString && preserve {
		all = append(all, field.Invalid(path.Child("x-kubernetes-preserve-unknown-fields"), true, "must be false if x-kubernetes-int-or-string is true"))
	}
	if s.XIntOrString && s.XEmbeddedResource {
		all = append(all, field.Invalid(path.Child("x-kubernetes-embedded-resource"), true, "must be false if x-kubernetes-int-or-string is true"))
	}
	all = append(all, values(s, isIntOrString(s.AnyOf), len(s.AllOf) > 0 && isIntOrString(s.AllOf[0].AnyOf), at, path)...)
	all = append(all, typeOf(s, preserve, at, path)...)
	return append(all, resourceFields(s, preserve, at, path)...)
}

// typeOf checks the type of s.
func typeOf(s *props, preserve bool, at level, path *field.Path) field.ErrorList {
	var all field.ErrorList
	const embedded = "must be object if x-kubernetes-embedded-resource is true"
	switch {
	case s.XEmbeddedResource && s.Type == "":
		all = append(all, field.Required(path.Child("type"), embedded))
	case s.XEmbeddedResource && s.Type != "object":
		all = append(all, field.Invalid(path.Child("type"), s.Type, embedded))
	case s.XEmbeddedResource:
	case s.Type == "" && !s.XIntOrString && !preserve:
		where := map[level]string{atRoot: "at the root", atItems: "for specified array items", atField: "for specified object fields"}[at]
		all = append(all, field.Required(path.Child("type"), "must not be empty "+where))
	}
	if s.XEmbeddedResource && s.AdditionalProperties != nil {
		all = append(all, field.Forbidden(path.Child("additionalProperties"), "must not be used if x-kubernetes-embedded-resource is set"))
	}
	if at == atRoot && s.Type != "" && s.Type != "object" {
		all = append(all, field.Invalid(path.Child("type"), s.Type, "must be object at the root"))
	}
	return all
}

// resourceFields checks the schemas of the fields that every resource has.
func resourceFields(s *props, preserve bool, where level, path *field.Path) field.ErrorList {
	var all field.ErrorList
	resource := where == atRoot || s.XEmbeddedResource
	for _, name := range []string{"kind", "apiVersion"} {
		if p, ok := s.Properties[name]; ok && resource && p.Type != "string" {
			all = append(all, field.Invalid(path.Child("properties").Key(name).Child("type"), p.Type, "must be string"))
		}
	}
	if m, ok := s.Properties["metadata"]; ok {
		at := path.Child("properties").Key("metadata")
		if resource && m.Type != "object" {
			all = append(all, field.Invalid(at.Child("type"), m.Type, "must be object"))
		}
		if where == atRoot {
			all = append(all, onlyNames(&m, at)...)
		}
	}
	if s.XEmbeddedResource && !preserve && len(s.Properties) == 0 {
		all = append(all, field.Required(path.Child("properties"), "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"))
	}
	return all
}

// values checks what s says about values, and the schemas in it that do nothing else.
func values(s *props, skipAnyOf, skipFirstAllOf bool, at level, path *field.Path) field.ErrorList {
	var all field.ErrorList
	if !skipAnyOf {
		for i := range s.AnyOf {
			all = append(all, nested(&s.AnyOf[i], false, at, path.Child("anyOf").Index(i))...)
		}
	}
	for i := range s.AllOf {
		all = append(all, nested(&s.AllOf[i], skipFirstAllOf && i == 0, at, path.Child("allOf").Index(i))...)
	}
	for i := range s.OneOf {
		all = append(all, nested(&s.OneOf[i], false, at, path.Child("oneOf").Index(i))...)
	}
	all = append(all, nested(s.Not, false, at, path.Child("not"))...)
	if s.Pattern != "" {
		if _, err := syntax.Parse(s.Pattern, syntax.Perl); err != nil {
			all = append(all, field.Invalid(path.Child("pattern"), s.Pattern, fmt.Sprintf("must be a valid regular expression, but isn't: %v", err)))
		}
	}
	return all
}

// nested checks a schema that may only restrict values.
func nested(s *props, skipAnyOf bool, at level, path *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	all := values(s, skipAnyOf, false, at, path)
	if s.Items != nil {
		all = append(all, nested(s.Items.Schema, false, at, path.Child("items"))...)
	}
	for name, p := range s.Properties {
		all = append(all, nested(&p, false, atField, path.Child("properties").Key(name))...)
	}
	for _, k := range []struct {
		keyword, detail string
		set             bool
	}{
		{"type", "empty", s.Type != ""},
		{"additionalProperties", "undefined", s.AdditionalProperties != nil},
		{"default", "undefined", s.Default != nil && len(s.Default.Raw) > 0},
		{"title", "empty", s.Title != ""},
		{"description", "empty", s.Description != ""},
		{"nullable", "false", s.Nullable},
		{"x-kubernetes-preserve-unknown-fields", "false", s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields},
		{"x-kubernetes-embedded-resource", "false", s.XEmbeddedResource},
		{"x-kubernetes-int-or-string", "false", s.XIntOrString},
		{"x-kubernetes-list-map-keys", "empty", len(s.XListMapKeys) > 0},
		{"x-kubernetes-list-type", "undefined", s.XListType != nil},
		{"x-kubernetes-map-type", "undefined", s.XMapType != nil},
		{"x-kubernetes-validations", "empty", len(s.XValidations) > 0},
	} {
		if k.set {
			all = append(all, field.Forbidden(path.Child(k.keyword), "must be "+k.detail+" to be structural"))
		}
	}
	if _, ok := s.Properties["metadata"]; ok {
		all = append(all, field.Forbidden(path.Child("properties").Key("metadata"), "must not be specified in a nested context"))
	}
	return all
}

// completeness returns the values that s restricts in nested schemas, and whose types it does not state. v is
// s or a nested schema for the same values.
func completeness(v, s *props, path, at *field.Path) field.ErrorList {
	var all field.ErrorList
	all = append(all, nestedCompleteness(v.Not, s, path, at.Child("not"))...)
	for _, list := range []struct {
		name  string
		parts []props
	}{{"allOf", v.AllOf}, {"anyOf", v.AnyOf}, {"oneOf", v.OneOf}} {
		for i := range list.parts {
			all = append(all, nestedCompleteness(&list.parts[i], s, path, at.Child(list.name).Index(i))...)
		}
	}
	return all
}

func nestedCompleteness(v, s *props, path, at *field.Path) field.ErrorList {
	if v == nil {
		return nil
	}
	if s == nil {
		return field.ErrorList{field.Required(path, fmt.Sprintf("because it is defined in %s", at))}
	}
	all := completeness(v, s, path, at)
	if v.Items != nil {
		var items *props
		if s.Items != nil {
			items = s.Items.Schema
		}
		all = append(all, nestedCompleteness(v.Items.Schema, items, path.Child("items"), at.Child("items"))...)
	}
	for name, p := range v.Properties {
		from := at.Child("properties").Key(name)
		to := path.Child("properties").Key(name)
		stated, ok := s.Properties[name]
		if !ok {
			all = append(all, field.Required(to, fmt.Sprintf("because it is defined in %s", from)))
			continue
		}
		all = append(all, nestedCompleteness(&p, &stated, to, from)...)
	}
	return all
}

// onlyNames checks that the schema of a resource's metadata restricts nothing but names.
func onlyNames(m *props, path *field.Path) field.ErrorList {
	rest := *m
	left := len(rest.Properties)
	for _, name := range []string{"name", "generateName"} {
		if _, ok := rest.Properties[name]; ok {
			left--
		}
	}
	if left == 0 {
		rest.Properties = nil
	}
	rest.Type, rest.Default = "", nil
	if data, err := json.Marshal(&rest); err == nil && string(data) == "{}" {
		return nil
	}
	return field.ErrorList{field.Forbidden(path, "must not specify anything other than name and generateName, but metadata is implicitly specified")}
}
