package crd

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/planekit/planekit/internal/structural"
	"github.com/planekit/planekit/kinds/apiextensions"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxSchemaDepth and maxSchemas bound a schema: each level is a call of a few functions, and each schema is
// some hundred bytes of memory.
const maxSchemaDepth, maxSchemas = 200, 200_000

// validateSchema checks the schema of a version. One that has not changed is not checked again.
func (c checker) validateSchema(ctx context.Context, v, old *apiextensions.CustomResourceDefinitionVersion, path *field.Path) field.ErrorList {
	s := v.Schema.OpenAPIV3Schema
	if s == nil {
		return nil
	}
	var before *props
	if old != nil && old.Schema != nil {
		if before = old.Schema.OpenAPIV3Schema; equality.Semantic.DeepEqual(before, s) && (v.Subresources == nil) == (old.Subresources == nil) {
			return nil
		}
	}
	at := path.Child("openAPIV3Schema")
	if depth, count := measure(s); depth > maxSchemaDepth || count > maxSchemas {
		return field.ErrorList{field.Forbidden(at, fmt.Sprintf("the schema is too large: it has %d schemas, at most %d are allowed, on %d levels, at most %d are allowed", count, maxSchemas, depth, maxSchemaDepth))}
	}
	var all field.ErrorList
	if v.Subresources != nil && v.Subresources.Status != nil {
		all = append(all, rootWithStatus(s, path)...)
	}
	if s.Nullable {
		all = append(all, field.Forbidden(path.Child("openAPIV3Schema.nullable"), "nullable cannot be true at the root"))
	}
	compiled, err := structural.Compile(ctx, s)
	if err == nil {
		errs := structural.Check(at, s)
		if len(errs) == 0 {
			errs = checkDefaults(ctx, at, compiled.Resource())
		}
		all = append(all, errs...)
	}
	all = append(all, (&schemaChecker{defaults: true}).check(s, at, true)...)
	if err != nil && len(all) == 0 {
		all = append(all, field.Invalid(at, "", err.Error()))
	}
	if len(all) == 0 && hasRules(s) {
		if c.rules == nil {
			return field.ErrorList{field.Forbidden(at, "this server does not evaluate x-kubernetes-validations")}
		}
		all = append(all, c.rules.Check(ctx, at, s, before)...)
	}
	return all
}

// measure returns the depth of s and the number of schemas in it.
func measure(s *props) (depth, count int) {
	count = 1
	below := func(p *props) {
		if p == nil {
			return
		}
		d, n := measure(p)
		depth, count = max(depth, d), count+n
	}
	for _, list := range [][]props{s.AllOf, s.AnyOf, s.OneOf} {
		for i := range list {
			below(&list[i])
		}
	}
	for _, p := range s.Properties {
		below(&p)
	}
	below(s.Not)
	if s.Items != nil {
		below(s.Items.Schema)
	}
	if s.AdditionalProperties != nil {
		below(s.AdditionalProperties.Schema)
	}
	return depth + 1, count
}

// allowedAtRoot are the fields of a schema that are compatible with a status subresource, which is validated by
// itself.
var allowedAtRoot = []string{
	"Description", "Type", "Format", "Title", "Maximum", "ExclusiveMaximum", "Minimum", "ExclusiveMinimum", "MaxLength", "MinLength",
	"Pattern", "MaxItems", "MinItems", "UniqueItems", "MultipleOf", "Required", "Items", "Properties", "ExternalDocs", "Example",
	"XPreserveUnknownFields", "XValidations",
}

func rootWithStatus(s *props, path *field.Path) field.ErrorList {
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		switch {
		case v.Field(i).IsZero() || (v.Field(i).Kind() == reflect.Slice || v.Field(i).Kind() == reflect.Map) && v.Field(i).Len() == 0:
		case name == "Type" && s.Type != "object":
			return field.ErrorList{field.Invalid(path.Child("openAPIV3Schema.type"), s.Type, `only "object" is allowed as the type at the root of the schema if the status subresource is enabled`)}
		case !slices.Contains(allowedAtRoot, name):
			data, _ := json.Marshal(s)
			return field.ErrorList{field.Invalid(path.Child("openAPIV3Schema"), string(data), fmt.Sprintf("only %v fields are allowed at the root of the schema if the status subresource is enabled", allowedAtRoot))}
		}
	}
	return nil
}

// checkDefaults checks that the defaults in s are valid by their own schemas.
func checkDefaults(ctx context.Context, path *field.Path, s *structural.Schema) field.ErrorList {
	if s == nil {
		return nil
	}
	var all field.ErrorList
	if s.Default != nil {
		all = checkDefault(ctx, path.Child("default"), s)
	}
	all = append(all, checkDefaults(ctx, path.Child("items"), s.Items)...)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		all = append(all, checkDefaults(ctx, path.Child("properties").Key(name), s.Properties[name])...)
	}
	return all
}

func checkDefault(ctx context.Context, at *field.Path, s *structural.Schema) field.ErrorList {
	value := runtime.DeepCopyJSONValue(s.Default)
	var all field.ErrorList
	pruned := runtime.DeepCopyJSONValue(value)
	s.RemoveUnknown(pruned)
	if !equality.Semantic.DeepEqual(pruned, value) {
		all = append(all, field.Invalid(at, value, "must not have unknown fields"))
	}
	if errs := s.ValidateMetadata(at, value, false); len(errs) > 0 {
		return append(all, errs...)
	}
	return append(all, s.Validate(ctx, at, value)...)
}

// schemaChecker checks each schema in another one.
type schemaChecker struct {
	// defaults reports whether defaults are allowed, and reason why they are not.
	defaults bool
	reason   string
	// meta is set inside the metadata of a resource.
	meta bool
}

func (c schemaChecker) forbidDefaults(reason string) *schemaChecker {
	c.defaults, c.reason = false, reason
	return &c
}

func (c *schemaChecker) check(s *props, path *field.Path, root bool) field.ErrorList {
	if s == nil {
		return nil
	}
	all := c.keywords(s, path)
	if s.UniqueItems {
		all = append(all, field.Forbidden(path.Child("uniqueItems"), "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"))
	}
	if a := s.AdditionalProperties; a != nil {
		if len(s.Properties) > 0 && (!a.Allows || a.Schema != nil) {
			all = append(all, field.Forbidden(path.Child("additionalProperties"), "additionalProperties and properties are mutual exclusive"))
		}
		below := c
		if c.meta {
			below = c.forbidDefaults("inside additionalProperties applying to object metadata")
		}
		all = append(all, below.check(a.Schema, path.Child("additionalProperties"), false)...)
	}
	for name, p := range s.Properties {
		below := *c
		if (root || s.XEmbeddedResource) && slices.Contains([]string{"metadata", "kind", "apiVersion"}, name) {
			below.meta = true
			if root {
				below.defaults, below.reason = false, "in top-level "+name
			}
		}
		all = append(all, below.check(&p, path.Child("properties").Key(name), false)...)
	}
	all = append(all, c.check(s.Not, path.Child("not"), false)...)
	for _, list := range []struct {
		name  string
		parts []props
	}{{"allOf", s.AllOf}, {"oneOf", s.OneOf}, {"anyOf", s.AnyOf}} {
		for i := range list.parts {
			all = append(all, c.check(&list.parts[i], path.Child(list.name).Index(i), false)...)
		}
	}
	if s.Items != nil {
		all = append(all, c.check(s.Items.Schema, path.Child("items"), false)...)
	}
	all = append(all, mapsAndLists(s, path)...)
	for i, rule := range s.XValidations {
		all = append(all, ruleTexts(s, rule, path.Child("x-kubernetes-validations").Index(i))...)
	}
	return all
}

// keywords checks the keywords that s has.
func (c *schemaChecker) keywords(s *props, path *field.Path) field.ErrorList {
	var all field.ErrorList
	if s.Type != "" && !slices.Contains(schemaTypes, s.Type) {
		all = append(all, field.NotSupported(path.Child("type"), s.Type, []string{"array", "boolean", "integer", "number", "object", "string"}))
	}
	if s.Default != nil && len(s.Default.Raw) > 0 && !c.defaults {
		all = append(all, field.Forbidden(path.Child("default"), strings.TrimSpace("must not be set "+c.reason)))
	}
	for _, k := range []struct {
		name string
		set  bool
	}{
		{"id", s.ID != ""}, {"additionalItems", s.AdditionalItems != nil}, {"patternProperties", len(s.PatternProperties) > 0},
		{"definitions", len(s.Definitions) > 0}, {"dependencies", s.Dependencies != nil}, {"$ref", s.Ref != nil},
	} {
		if k.set {
			all = append(all, field.Forbidden(path.Child(k.name), k.name+" is not supported"))
		}
	}
	if s.Type == "null" {
		all = append(all, field.Forbidden(path.Child("type"), "type cannot be set to null, use nullable as an alternative"))
	}
	if s.Items != nil && len(s.Items.JSONSchemas) > 0 {
		all = append(all, field.Forbidden(path.Child("items"), "items must be a schema object and not an array"))
	}
	if c.meta && s.XEmbeddedResource {
		all = append(all, field.Forbidden(path.Child("x-kubernetes-embedded-resource"), "must not be used inside of resource meta"))
	}
	if s.XPreserveUnknownFields != nil && !*s.XPreserveUnknownFields {
		all = append(all, field.Invalid(path.Child("x-kubernetes-preserve-unknown-fields"), false, "must be true or undefined"))
	}
	return all
}

// mapsAndLists checks the types of maps and lists.
func mapsAndLists(s *props, path *field.Path) field.ErrorList {
	var all field.ErrorList
	needs := func(keyword, of string) {
		detail := fmt.Sprintf("must be %s if %s is specified", of, keyword)
		if s.Type == "" {
			all = append(all, field.Required(path.Child("type"), detail))
		} else if s.Type != of {
			all = append(all, field.Invalid(path.Child("type"), s.Type, detail))
		}
	}
	if s.XMapType != nil {
		needs("x-kubernetes-map-type", "object")
		if *s.XMapType != "atomic" && *s.XMapType != "granular" {
			all = append(all, field.NotSupported(path.Child("x-kubernetes-map-type"), *s.XMapType, []string{"atomic", "granular"}))
		}
	}
	of := ""
	if s.XListType != nil {
		of = *s.XListType
		needs("x-kubernetes-list-type", "array")
		if of != "atomic" && of != "set" && of != "map" {
			all = append(all, field.NotSupported(path.Child("x-kubernetes-list-type"), of, []string{"atomic", "set", "map"}))
		}
	}
	var items *props
	if s.Items != nil {
		items = s.Items.Schema
	}
	if of == "set" && s.Type == "array" && items != nil {
		const atomic = "must be atomic as item of a list with x-kubernetes-list-type=set"
		if items.Type == "array" && items.XListType != nil && *items.XListType != "atomic" {
			all = append(all, field.Invalid(path.Child("items").Child("x-kubernetes-list-type"), items.XListType, atomic))
		}
		if items.Type == "object" && (items.XMapType == nil || *items.XMapType != "atomic") {
			all = append(all, field.Invalid(path.Child("items").Child("x-kubernetes-map-type"), items.XListType, atomic))
		}
	}
	if len(s.XListMapKeys) > 0 && of != "map" {
		const detail = "must be map if x-kubernetes-list-map-keys is non-empty"
		if s.XListType == nil {
			all = append(all, field.Required(path.Child("x-kubernetes-list-type"), detail))
		} else {
			all = append(all, field.Invalid(path.Child("x-kubernetes-list-type"), of, detail))
		}
	}
	if of == "map" {
		all = append(all, listMap(s, items, path)...)
	}
	if (of == "set" || of == "map") && items != nil {
		all = append(all, keysAreSet(s, items, of, path)...)
	}
	return all
}

// listMap checks a list of type map.
func listMap(s, items *props, path *field.Path) field.ErrorList {
	var all field.ErrorList
	keys := path.Child("x-kubernetes-list-map-keys")
	if len(s.XListMapKeys) == 0 {
		all = append(all, field.Required(keys, "must not be empty if x-kubernetes-list-type is map"))
	}
	if s.Items == nil {
		return append(all, field.Required(path.Child("items"), "must have a schema if x-kubernetes-list-type is map"))
	}
	if items == nil {
		return append(all, field.Invalid(path.Child("items"), s.Items, "must only have a single schema if x-kubernetes-list-type is map"))
	}
	if items.Type != "object" {
		return append(all, field.Invalid(path.Child("items").Child("type"), items.Type, "must be object if parent array's x-kubernetes-list-type is map"))
	}
	seen := map[string]bool{}
	for _, name := range s.XListMapKeys {
		p, ok := items.Properties[name]
		if !ok {
			all = append(all, field.Invalid(keys, s.XListMapKeys, "entries must all be names of item properties"))
		} else if p.Type == "array" || p.Type == "object" {
			all = append(all, field.Invalid(path.Child("items").Child("properties").Key(name).Child("type"), items.Type, "must be a scalar type if parent array's x-kubernetes-list-type is map"))
		}
		if seen[name] {
			all = append(all, field.Invalid(keys, s.XListMapKeys, "must not contain duplicate entries"))
		}
		seen[name] = true
	}
	return all
}

// keysAreSet checks that items, and the keys of items, are there.
func keysAreSet(s, items *props, of string, path *field.Path) field.ErrorList {
	var all field.ErrorList
	if items.Nullable {
		all = append(all, field.Forbidden(path.Child("items").Child("nullable"), "cannot be nullable when x-kubernetes-list-type is "+of))
	}
	if of == "set" {
		return all
	}
	for _, name := range s.XListMapKeys {
		p, ok := items.Properties[name]
		if !ok {
			continue
		}
		at := path.Child("items").Child("properties").Key(name)
		if !slices.Contains(items.Required, name) && p.Default == nil {
			all = append(all, field.Required(at.Child("default"), "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"))
		}
		if p.Nullable {
			all = append(all, field.Forbidden(at.Child("nullable"), "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"))
		}
	}
	return all
}

// ruleTexts checks what does not need CEL.
func ruleTexts(s *props, r apiextensions.ValidationRule, path *field.Path) field.ErrorList {
	var all field.ErrorList
	lines := func(text string) bool { return strings.ContainsAny(text, "\n\r") }
	rule, message := strings.TrimSpace(r.Rule), strings.TrimSpace(r.Message)
	switch {
	case rule == "":
		all = append(all, field.Required(path.Child("rule"), "rule is not specified"))
	case r.Message != "" && message == "":
		all = append(all, field.Invalid(path.Child("message"), r.Message, "must be non-empty if specified"))
	case lines(message):
		all = append(all, field.Invalid(path.Child("message"), r.Message, "must not contain line breaks"))
	case lines(rule) && message == "":
		all = append(all, field.Required(path.Child("message"), "message must be specified if rule contains line breaks"))
	}
	if r.MessageExpression != "" && strings.TrimSpace(r.MessageExpression) == "" {
		all = append(all, field.Required(path.Child("messageExpression"), "messageExpression must be non-empty if specified"))
	}
	reasons := []string{"FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"}
	if r.Reason != nil && !slices.Contains(reasons, *r.Reason) {
		all = append(all, field.NotSupported(path.Child("reason"), *r.Reason, reasons))
	}
	if r.FieldPath != "" && strings.TrimSpace(r.FieldPath) == "" {
		all = append(all, field.Invalid(path.Child("fieldPath"), r.FieldPath, "must be non-empty if specified"))
	}
	if lines(r.FieldPath) {
		all = append(all, field.Invalid(path.Child("fieldPath"), r.FieldPath, "must not contain line breaks"))
	}
	if r.FieldPath == "" {
		return all
	}
	if _, err := structural.FieldPath(s, r.FieldPath); err != nil {
		all = append(all, field.Invalid(path.Child("fieldPath"), r.FieldPath, "must be a valid path"))
	}
	return all
}
