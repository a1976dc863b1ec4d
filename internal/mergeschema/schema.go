// Package mergeschema reads from OpenAPI schemas how the fields of objects merge in server-side apply.
//
//	kinds, err := mergeschema.Kinds(definitions)
//	pod, err := kinds[corev1.SchemeGroupVersion.WithKind("Pod")].FromUnstructured(fields)
//
// It does what k8s.io/kube-openapi/pkg/schemaconv does for the schemas that API servers write. That
// package needs 0.4 MB of JSON decoders and OpenAPI documents in every program.
package mergeschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	kinds "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// Kinds reads OpenAPI schemas by name, as JSON, and returns the types of the kinds that they name in
// x-kubernetes-group-version-kind.
func Kinds(definitions []byte) (map[kinds.GroupVersionKind]typed.ParseableType, error) {
	parser := &typed.Parser{}
	var err error
	if parser.Schema.Types, err = Types(definitions); err != nil {
		return nil, err
	}
	var tags map[string]struct {
		Kinds []kinds.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
	}
	if err := json.Unmarshal(definitions, &tags); err != nil {
		return nil, fmt.Errorf("merge schema: kinds: %w", err)
	}
	all := map[kinds.GroupVersionKind]typed.ParseableType{}
	for name, tag := range tags {
		for _, kind := range tag.Kinds {
			all[kind] = parser.Type(name)
		}
	}
	return all, nil
}

// Types reads OpenAPI schemas by name, as JSON.
func Types(definitions []byte) ([]schema.TypeDef, error) {
	var models map[string]model
	if err := json.Unmarshal(definitions, &models); err != nil {
		return nil, fmt.Errorf("merge schema: %w", err)
	}
	types, err := mergeSchema(models)
	if err != nil {
		return nil, fmt.Errorf("merge schema: %w", err)
	}
	return types, nil
}

// Names of types whose schema says less than how they merge, and of the types that stand for
// values without a schema.
const (
	quantity     = "io.k8s.apimachinery.pkg.api.resource.Quantity"
	rawExtension = "io.k8s.apimachinery.pkg.runtime.RawExtension"
	untyped      = "__untyped_atomic_"
	deduced      = "__untyped_deduced_"
)

// model is the part of an OpenAPI schema that determines how a type merges.
type model struct {
	Ref           string           `json:"$ref"`
	AllOf         []model          `json:"allOf"`
	Type          string           `json:"type"`
	Format        string           `json:"format"`
	Default       any              `json:"default"`
	Items         *model           `json:"items"`
	Properties    map[string]model `json:"properties"`
	Additional    *additional      `json:"additionalProperties"`
	ListType      string           `json:"x-kubernetes-list-type"`
	ListMapKeys   []string         `json:"x-kubernetes-list-map-keys"`
	MapType       string           `json:"x-kubernetes-map-type"`
	PatchStrategy string           `json:"x-kubernetes-patch-strategy"`
	PatchMergeKey string           `json:"x-kubernetes-patch-merge-key"`
	Preserve      bool             `json:"x-kubernetes-preserve-unknown-fields"`
}

// additional is the schema of values under other names than those of the properties, or whether
// there may be any.
type additional struct {
	schema  *model
	allowed bool
}

// UnmarshalJSON implements [json.Unmarshaler].
func (a *additional) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &a.allowed) == nil {
		return nil
	}
	return json.Unmarshal(data, &a.schema)
}

// mergeSchema converts OpenAPI schemas by name.
func mergeSchema(models map[string]model) ([]schema.TypeDef, error) {
	sh := newSharing()
	var types []schema.TypeDef
	for name, m := range models {
		var atom schema.Atom
		switch {
		case m.Ref != "":
			continue
		case name == quantity:
			atom = sh.scalar(schema.Untyped)
		case name == rawExtension:
			atom = sh.anything(untyped, schema.Atomic)
		default:
			var err error
			if atom, err = sh.atom(&m, false); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
		types = append(types, schema.TypeDef{Name: name, Atom: atom})
	}
	types = append(types,
		schema.TypeDef{Name: untyped, Atom: sh.anything(untyped, schema.Atomic)},
		schema.TypeDef{Name: deduced, Atom: sh.anything(deduced, schema.Separable)})
	return types, nil
}

// anything returns the schema of a value of any type.
func (sh *sharing) anything(named string, maps schema.ElementRelationship) schema.Atom {
	a := sh.scalar(schema.Untyped)
	a.List = sh.list(&schema.List{ElementType: sh.reference(untyped), ElementRelationship: schema.Atomic})
	a.Map = sh.object(&schema.Map{ElementType: sh.reference(named), ElementRelationship: maps})
	return a
}

// atom converts a type. With preserve, its fields and those below may have any names.
func (sh *sharing) atom(m *model, preserve bool) (a schema.Atom, err error) {
	preserve = preserve || m.Preserve
	switch m.Type {
	case "integer", "number":
		return sh.scalar(schema.Numeric), nil
	case "boolean":
		return sh.scalar(schema.Boolean), nil
	case "string":
		if m.Format == "" || m.Format == "byte" {
			return sh.scalar(schema.String), nil
		}
		return sh.scalar(schema.Untyped), nil
	case "array":
		a.List, err = sh.listOf(m, preserve)
		return a, err
	case "object":
		a.Map, err = sh.mapOf(m, preserve)
		return a, err
	case "": // any type
		var err2 error
		a = sh.scalar(schema.Untyped)
		a.List, err = sh.listOf(m, preserve)
		a.Map, err2 = sh.mapOf(m, preserve)
		return a, errors.Join(err, err2)
	}
	return a, fmt.Errorf("unknown type %q", m.Type)
}

// element converts the type of a field or of a value in a list or map.
func (sh *sharing) element(m *model, preserve bool) (schema.TypeRef, error) {
	ref := m.Ref
	if ref == "" && len(m.AllOf) == 1 {
		ref = m.AllOf[0].Ref
	}
	if _, name := path.Split(ref); name != "" {
		r := sh.reference(name)
		relationship, err := m.mapRelationship()
		if relationship != "" {
			r.ElementRelationship = sh.relationship(relationship)
		}
		return r, err
	}
	inlined, err := sh.atom(m, preserve)
	return schema.TypeRef{Inlined: inlined}, err
}

func (sh *sharing) mapOf(m *model, preserve bool) (*schema.Map, error) {
	relationship, err := m.mapRelationship()
	if err != nil {
		return nil, err
	}
	out := &schema.Map{ElementRelationship: relationship}
	for _, name := range slices.Sorted(maps.Keys(m.Properties)) {
		p := m.Properties[name]
		field, err := sh.element(&p, preserve)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out.Fields = append(out.Fields, schema.StructField{Name: name, Type: field, Default: p.Default})
	}
	switch a := m.Additional; {
	case a == nil && (preserve || len(m.Properties) == 0), a != nil && a.allowed:
		out.ElementType = sh.reference(deduced)
	case a != nil && a.schema != nil:
		if out.ElementType, err = sh.element(a.schema, preserve); err != nil {
			return nil, err
		}
	}
	return sh.object(out), nil
}

func (m *model) mapRelationship() (schema.ElementRelationship, error) {
	switch m.MapType {
	case "":
		return "", nil
	case "atomic":
		return schema.Atomic, nil
	case "granular":
		return schema.Separable, nil
	}
	return "", fmt.Errorf("unknown map type %q", m.MapType)
}

func (sh *sharing) listOf(m *model, preserve bool) (*schema.List, error) {
	out := &schema.List{ElementRelationship: schema.Atomic, ElementType: sh.reference(untyped)}
	switch {
	case m.ListType == "set", m.ListType == "" && (m.PatchStrategy == "merge" || m.PatchStrategy == "merge,retainKeys"):
		out.ElementRelationship = schema.Associative
		if m.ListType == "" && m.PatchMergeKey != "" {
			out.Keys = []string{m.PatchMergeKey}
		}
	case m.ListType == "map":
		if len(m.ListMapKeys) == 0 {
			return nil, errors.New("a list of type map has no keys")
		}
		out.ElementRelationship, out.Keys = schema.Associative, m.ListMapKeys
	case m.ListType != "" && m.ListType != "atomic":
		return nil, fmt.Errorf("unknown list type %q", m.ListType)
	case m.ListType == "" && m.PatchStrategy != "" && m.PatchStrategy != "retainKeys":
		return nil, fmt.Errorf("unknown patch strategy %q", m.PatchStrategy)
	}
	if m.Items == nil {
		if m.Type != "" {
			return nil, errors.New("an array has no items")
		}
		return sh.list(out), nil
	}
	var err error
	if out.ElementType, err = sh.element(m.Items, preserve); err != nil {
		return nil, err
	}
	return sh.list(out), nil
}
