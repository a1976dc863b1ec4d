// Package typed gives CEL values the types that OpenAPI schemas describe, as in the validation rules
// of CustomResourceDefinitions
// (https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#validation-rules).
//
//	self := typed.Of(schema, true)
//	env, err = self.Declare(env, "self", "oldSelf", false)
//	...
//	vars := map[string]any{"self": typed.Value(object, schema.WithMeta())}
//
// An object is a CEL object with the fields of its schema: a wrong name is found when an expression is
// compiled. A field is reached by its escaped name, so that "foo-bar" is foo__dash__bar. Fields whose
// schema does not state a type are hidden. Dates, durations and bytes have CEL's own types.
//
// Values are views of the JSON values that they are made of, which must not change. They may be used
// by many goroutines.
package typed

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/planekit/planekit/internal/structural"
)

// These figures are kube-apiserver's: the largest request in bytes, and the sizes of values in JSON.
const (
	maxRequest                = 3 << 20
	minText, minBool, minZero = 2, 4, 1
	dateSize                  = 12
	minDateTime, maxDateTime  = 21, 32
	minDuration, maxDuration  = 3, 32
)

// A Type is the type of a value.
type Type struct {
	// Fields holds the fields of an object by their escaped names; nil for any other type.
	Fields map[string]*Type
	// Elem is the type of the elements of a list, or of the values of a map.
	Elem *Type
	// MaxElements bounds the elements of a list or a map, or the bytes of a text.
	MaxElements uint64
	// MinSize is the size in JSON of the smallest value.
	MinSize uint64

	name string
	cel  *cel.Type
	key  *Type // of a map
}

// MaxCount returns how many values of the type can be in one request.
func (t *Type) MaxCount() uint64 { return maxRequest / (t.MinSize + 1) }

func simple(of *cel.Type, minSize, maxElements uint64) *Type {
	return &Type{cel: of, MinSize: minSize, MaxElements: maxElements}
}

func listOf(elem *Type, most uint64) *Type {
	return &Type{Elem: elem, MaxElements: most, MinSize: 2, cel: cel.ListType(elem.cel)}
}

func mapOf(elem *Type, most uint64) *Type {
	return &Type{key: simple(cel.StringType, minText, 0), Elem: elem, MaxElements: most, MinSize: 2, cel: cel.MapType(cel.StringType, elem.cel)}
}

// atLeastZero returns a limit of a schema, or otherwise another one.
func atLeastZero(limit *int64, otherwise uint64) uint64 {
	if limit == nil {
		return otherwise
	}
	return uint64(max(0, *limit))
}

// Of returns the type of values of s, nil if expressions cannot see them. resource is set for a whole
// resource, which has a kind, an apiVersion and metadata with a name and a generateName.
func Of(s *structural.Schema, resource bool) *Type {
	switch {
	case s == nil:
		return nil
	case s.IntOrString:
		return simple(cel.DynType, 1, maxLength(s))
	case resource:
		s = s.WithMeta()
	}
	switch s.Type {
	case "array":
		elem := below(s.Items)
		if elem == nil {
			return nil
		}
		return listOf(elem, atLeastZero(s.Source.MaxItems, (maxRequest-2)/(elem.MinSize+1)))
	case "object":
		if s.Additional == nil {
			return objectOf(s)
		}
		elem := below(s.Additional)
		if elem == nil {
			return nil
		}
		return mapOf(elem, atLeastZero(s.Source.MaxProperties, (maxRequest-2)/(elem.MinSize+6)))
	case "string":
		return textOf(s)
	case "boolean":
		return simple(cel.BoolType, minBool, 0)
	case "number":
		return simple(cel.DoubleType, minZero, 0)
	case "integer":
		return simple(cel.IntType, minZero, 0)
	}
	return nil
}

func below(s *structural.Schema) *Type {
	if s == nil {
		return nil
	}
	return Of(s, s.Embedded)
}

func objectOf(s *structural.Schema) *Type {
	t := &Type{Fields: make(map[string]*Type, len(s.Properties)), MinSize: 2, name: unnamed, cel: cel.ObjectType(unnamed)}
	required := map[string]bool{}
	for _, name := range s.Source.Required {
		required[name] = true
	}
	for name, part := range s.Properties {
		of := below(part)
		if of == nil {
			continue
		}
		if escaped, ok := Escape(name); ok {
			t.Fields[escaped] = of
		}
		if required[name] && part.Default == nil {
			t.MinSize += uint64(len(name)) + of.MinSize + 4
		}
	}
	return t
}

func textOf(s *structural.Schema) *Type {
	switch s.Source.Format {
	case "byte":
		return simple(cel.BytesType, minText, atLeastZero(s.Source.MaxLength, maxRequest-2))
	case "duration":
		return simple(cel.DurationType, minDuration, maxDuration)
	case "date":
		return simple(cel.TimestampType, dateSize, dateSize)
	case "date-time":
		return simple(cel.TimestampType, minDateTime, maxDateTime)
	}
	return simple(cel.StringType, minText, maxLength(s))
}

// maxLength returns the largest number of bytes of a text, whose characters have up to four.
func maxLength(s *structural.Schema) uint64 {
	switch {
	case s.Source.MaxLength != nil:
		return 4 * atLeastZero(s.Source.MaxLength, 0)
	case s.IntOrString || len(s.Source.Enum) == 0:
		return maxRequest - 2
	}
	longest := 0
	for _, text := range s.EnumTexts() {
		longest = max(longest, len(text))
	}
	return uint64(longest)
}

// unnamed is the name of the type of an object that has not got its own yet.
const unnamed = "object"

// named returns t with names for the types of all objects in it.
func (t *Type) named(name string) *Type {
	switch {
	case t.Fields != nil:
		out := *t
		out.name, out.cel = name, cel.ObjectType(name)
		out.Fields = make(map[string]*Type, len(t.Fields))
		for field, of := range t.Fields {
			out.Fields[field] = of.named(name + "." + field)
		}
		return &out
	case t.key != nil:
		return mapOf(t.Elem.named(name+".@elem"), t.MaxElements)
	case t.Elem != nil:
		return listOf(t.Elem.named(name+".@idx"), t.MaxElements)
	}
	return t
}

// selfName is the name of the type of the variable. No expression can spell it.
const selfName = "selfType@"

// Declare returns env with variables of type t, and a further variable for an optional t if optional
// is not empty.
func (t *Type) Declare(env *cel.Env, name, another string, optional bool) (*cel.Env, error) {
	t = t.named(selfName)
	second := t.cel
	if optional {
		second = types.NewOptionalType(t.cel)
	}
	p := &provider{Provider: env.CELTypeProvider(), objects: map[string]*Type{}}
	p.add(t)
	return env.Extend(cel.CustomTypeProvider(p), cel.Variable(name, t.cel), cel.Variable(another, second))
}

// SizeAt returns the largest size of the value at a path that begins with a variable of type t.
func (t *Type) SizeAt(path []string) (uint64, bool) {
	for _, name := range path[1:] {
		switch name {
		case "@items", "@values":
			t = t.Elem
		case "@keys":
			t = t.key
		default:
			t = t.Fields[name]
		}
		if t == nil {
			return 0, false
		}
	}
	return t.MaxElements, true
}

// provider adds the types of objects to those of another provider.
type provider struct {
	types.Provider
	objects map[string]*Type
}

func (p *provider) add(t *Type) {
	if t.Fields != nil {
		p.objects[t.name] = t
		for _, of := range t.Fields {
			p.add(of)
		}
	}
	if t.Elem != nil {
		p.add(t.Elem)
	}
}

// Evaluating implements [kubecel.CheckingProvider].
func (p *provider) Evaluating() types.Provider { return p.Provider }

// FindStructType implements [types.Provider].
func (p *provider) FindStructType(name string) (*types.Type, bool) {
	if t, ok := p.objects[name]; ok {
		return types.NewTypeTypeWithParam(t.cel), true
	}
	return p.Provider.FindStructType(name)
}

// FindStructFieldNames implements [types.Provider]. Expressions cannot make objects.
func (p *provider) FindStructFieldNames(name string) ([]string, bool) {
	if _, ok := p.objects[name]; ok {
		return nil, false
	}
	return p.Provider.FindStructFieldNames(name)
}

// FindStructFieldType implements [types.Provider]. A reserved word can be written as it is.
func (p *provider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	t, ok := p.objects[name]
	if !ok {
		return p.Provider.FindStructFieldType(name, field)
	}
	of, ok := t.Fields[field]
	if !ok && reserved[field] {
		of, ok = t.Fields["__"+field+"__"]
	}
	if !ok {
		return nil, false
	}
	return &types.FieldType{Type: of.cel}, true
}
