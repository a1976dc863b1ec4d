package ownership_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver/internal/openapi"
	"github.com/planekit/planekit/internal/mergeschema"
	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
)

// FuzzSchema compares the conversion with that of kube-openapi, for the schemas of all built-in
// types, those of a user's type, and schemas that no Go type has.
func FuzzSchema(f *testing.F) {
	for _, r := range allResources() {
		definitions, err := openapi.Definitions([]openapi.Resource{{
			Kind: openapi.Kind{Group: r.Group, Version: r.Version, Kind: r.Kind}, Type: reflect.TypeOf(r.New()).Elem(),
		}})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(definitions))
	}
	for _, odd := range []string{
		`{}`, `{"A": {}}`, `{"A": {"$ref": "#/components/schemas/B"}}`, `{"A": {"type": "whole"}}`, `{"A": {"type": "array"}}`,
		`{"A": {"type": "array", "items": {}, "x-kubernetes-list-type": "map"}}`,
		`{"A": {"type": "array", "items": {}, "x-kubernetes-list-type": "heap"}}`,
		`{"A": {"type": "array", "items": {"type": "string"}, "x-kubernetes-patch-strategy": "replace"}}`,
		`{"A": {"type": "array", "items": {"type": "string"}, "x-kubernetes-patch-strategy": "retainKeys"}}`,
		`{"A": {"type": "array", "items": {"type": "string"}, "x-kubernetes-patch-strategy": "merge,retainKeys", "x-kubernetes-patch-merge-key": "k"}}`,
		`{"A": {"type": "object", "x-kubernetes-map-type": "granular", "additionalProperties": false}}`,
		`{"A": {"type": "object", "x-kubernetes-map-type": "round"}}`,
		`{"A": {"type": "object", "properties": {"b": {"type": "integer", "default": 5}}, "additionalProperties": true}}`,
		`{"A": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"b": {"type": "object", "properties": {"c": {"type": "string", "format": "date"}}}}}}`,
		`{"A": {"type": "object", "properties": {"b": {"allOf": [{"$ref": "x/B"}], "x-kubernetes-map-type": "atomic", "default": {"a": ["b"]}}}}}`,
	} {
		f.Add(odd)
	}
	f.Fuzz(func(t *testing.T, definitions string) {
		var schemas map[string]*spec.Schema
		if err := json.Unmarshal([]byte(definitions), &schemas); err != nil {
			return // kube-openapi looks at more than what merges
		}
		for _, s := range schemas {
			if s == nil {
				return
			}
		}
		want, wantErr := schemaconv.ToSchemaFromOpenAPI(schemas, false)
		got, err := mergeschema.Types([]byte(definitions))
		if wantErr != nil && err != nil {
			return
		}
		if (wantErr == nil) != (err == nil) {
			t.Fatalf("%v, want %v", err, wantErr)
		}
		if got, want := sorted(got), sorted(want.Types); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v\nwant %+v", got, want)
		}
	})
}

// sorted sorts types and their fields, which come from maps.
func sorted(types []schema.TypeDef) []schema.TypeDef {
	for _, t := range types {
		sortFields(t.Atom)
	}
	slices.SortFunc(types, func(a, b schema.TypeDef) int { return strings.Compare(a.Name, b.Name) })
	return types
}

func sortFields(a schema.Atom) {
	if a.List != nil {
		sortFields(a.List.ElementType.Inlined)
	}
	if a.Map == nil {
		return
	}
	sortFields(a.Map.ElementType.Inlined)
	for _, f := range a.Map.Fields {
		sortFields(f.Type.Inlined)
	}
	slices.SortFunc(a.Map.Fields, func(a, b schema.StructField) int { return strings.Compare(a.Name, b.Name) })
}
