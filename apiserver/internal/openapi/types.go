package openapi

import (
	"reflect"
	"slices"
	"strings"
)

// ownSchema is implemented by types that say how they are encoded, such as times, quantities and
// int-or-strings.
func ownSchema(t reflect.Type) (Schema, bool) {
	v := reflect.New(t).Interface()
	typed, ok := v.(interface{ OpenAPISchemaType() []string })
	if !ok {
		return Schema{}, false
	}
	var schema Schema
	if types := typed.OpenAPISchemaType(); len(types) > 0 {
		schema.Type = types[0]
	}
	if formatted, ok := v.(interface{ OpenAPISchemaFormat() string }); ok {
		schema.Format = formatted.OpenAPISchemaFormat()
	}
	if either, ok := v.(interface{ OpenAPIV3OneOfTypes() []string }); ok {
		schema.Type = ""
		for _, t := range either.OpenAPIV3OneOfTypes() {
			schema.OneOf = append(schema.OneOf, Schema{Type: t})
		}
	}
	return schema, true
}

// undocumented has the descriptions of types without a SwaggerDoc method.
var undocumented = map[string]string{
	"io.k8s.apimachinery.pkg.api.resource.Quantity": "A number with a fixed point and an optional suffix: " +
		"a binary one (Ki, Mi, Gi, Ti, Pi, Ei), a decimal one (n, u, m, k, M, G, T, P, E) or an exponent (e3). " +
		"It is written as a string: 100m, 1.5, 2Gi.",
	"io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime":  "A time in RFC 3339 form with six digits below the second.",
	"io.k8s.apimachinery.pkg.apis.meta.v1.Time":       "A time in RFC 3339 form, to the second.",
	"io.k8s.apimachinery.pkg.runtime.RawExtension":    "An object of any kind.",
	"io.k8s.apimachinery.pkg.util.intstr.IntOrString": "A 32-bit integer or a string.",
}

// docs holds the descriptions of a type by JSON field name; that of the type is under "".
func docs(t reflect.Type) map[string]string {
	return own(t, func(v any) map[string]string {
		if documented, ok := v.(interface{ SwaggerDoc() map[string]string }); ok {
			return documented.SwaggerDoc()
		}
		return nil
	})
}

// modelName returns the name of t's schema: the one that the type says, or its import path with the
// parts of the host reversed, so that k8s.io/api/core/v1 becomes io.k8s.api.core.v1.
func modelName(t reflect.Type) string {
	said := own(t, func(v any) string {
		if named, ok := v.(interface{ OpenAPIModelName() string }); ok {
			return named.OpenAPIModelName()
		}
		return ""
	})
	if said != "" {
		return said
	}
	// The list of kind.Define has the name that a list of its objects usually has.
	if strings.Contains(t.Name(), "[") {
		if items, ok := t.FieldByName("Items"); ok && items.Type.Kind() == reflect.Slice {
			return modelName(items.Type.Elem()) + "List"
		}
	}
	host, path, _ := strings.Cut(t.PkgPath(), "/")
	parts := strings.Split(host, ".")
	slices.Reverse(parts)
	if path != "" {
		parts = append(parts, path)
	}
	name := strings.Join(append(parts, t.Name()), ".")
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("/[]*, ", r) {
			return '.'
		}
		return r
	}, name)
}

// own returns the answer of ask for a t, or zero if t has the method only because of an embedded
// struct, for which it speaks.
//
// ask asserts an interface. A lookup of a method by a variable name would make the linker keep
// every exported method of the program.
func own[T any](t reflect.Type, ask func(any) T) T {
	var none T
	said := ask(reflect.New(t).Interface())
	if t.Kind() != reflect.Struct || reflect.DeepEqual(said, none) {
		return said
	}
	for i := range t.NumField() {
		if f := t.Field(i); f.Anonymous && reflect.DeepEqual(said, ask(reflect.New(indirect(f.Type)).Interface())) {
			return none
		}
	}
	return said
}
