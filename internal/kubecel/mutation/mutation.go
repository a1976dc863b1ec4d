// Package mutation gives CEL expressions the types with which MutatingAdmissionPolicies describe changes
// (https://kubernetes.io/docs/reference/access-authn-authz/mutating-admission-policy/).
//
//	env, err := mutation.Extend(base)
//	ast, err := kubecel.Compile(env, `Object{spec: Object.spec{replicas: 3}}`)
//	...
//	fields, err := mutation.Fields(result, 3<<20)
//
// Object is the type of an object, Object.spec that of its field spec, and so on. Their fields have any type; whether the
// names of types match the path of fields is seen when a value is read. JSONPatch is an operation of RFC 6902, whose
// value may contain such objects. jsonpatch.escapeKey escapes a key for a path.
package mutation

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// The types of results.
var (
	ObjectType = cel.ObjectType("Object")
	PatchType  = cel.ObjectType("JSONPatch")
	// PatchesType is a list of operations.
	PatchesType = cel.ListType(PatchType)
)

// Extend returns env with the types and functions.
func Extend(env *cel.Env) (*cel.Env, error) {
	return env.Extend(
		cel.CustomTypeProvider(&provider{env.CELTypeProvider()}),
		cel.Function("jsonpatch.escapeKey", cel.Overload("string_jsonpatch_escapeKey_string", []*cel.Type{cel.StringType}, cel.StringType,
			cel.UnaryBinding(escapeKey))),
	)
}

var escapes = strings.NewReplacer("~", "~0", "/", "~1")

func escapeKey(key ref.Val) ref.Val {
	s, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key)
	}
	return types.String(escapes.Replace(string(s)))
}

// provider adds the types to those of another provider.
type provider struct{ types.Provider }

func isObject(name string) bool { return name == "Object" || strings.HasPrefix(name, "Object.") }

func isOwn(name string) bool { return name == "JSONPatch" || isObject(name) }

// patchFields are the fields of an operation.
var patchFields = map[string]*types.Type{
	"op": types.StringType, "path": types.StringType, "from": types.StringType, "value": types.DynType,
}

func (p *provider) FindStructType(name string) (*types.Type, bool) {
	if isOwn(name) {
		return types.NewTypeTypeWithParam(types.NewObjectType(name)), true
	}
	return p.Provider.FindStructType(name)
}

func (p *provider) FindStructFieldNames(name string) ([]string, bool) {
	switch {
	case name == "JSONPatch":
		return slices.Sorted(maps.Keys(patchFields)), true
	case isObject(name):
		return nil, true
	}
	return p.Provider.FindStructFieldNames(name)
}

func (p *provider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	switch {
	case name == "JSONPatch":
		t, ok := patchFields[field]
		return &types.FieldType{Type: t}, ok
	case isObject(name):
		return &types.FieldType{Type: types.DynType}, true
	}
	return p.Provider.FindStructFieldType(name, field)
}

// NewValue implements [types.Provider].
func (p *provider) NewValue(name string, fields map[string]ref.Val) ref.Val {
	if !isOwn(name) {
		return p.Provider.NewValue(name, fields)
	}
	if name == "JSONPatch" {
		for _, field := range []string{"op", "path", "from"} {
			if v, ok := fields[field]; ok {
				if _, text := v.(types.String); !text {
					return types.NewErr("unexpected type %T for JSONPatchType '%s' field", v.Value(), field)
				}
			}
		}
	}
	return &made{types.NewObjectType(name), fields}
}

// made is a value of one of the types.
type made struct {
	of     *types.Type
	fields map[string]ref.Val
}

// ConvertToNative fails: [Fields] and [Operations] read values.
func (m *made) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("type conversion error from '%s' to '%v'", m.of.TypeName(), t)
}

// ConvertToType converts to the value's own type, or to the type of types.
func (m *made) ConvertToType(t ref.Type) ref.Val {
	switch {
	case t.TypeName() == m.of.TypeName():
		return m
	case t == types.TypeType:
		return types.NewTypeTypeWithParam(m.of)
	}
	return types.NewErr("unsupported conversion into %v", t)
}

// Equal compares types and fields.
func (m *made) Equal(other ref.Val) ref.Val {
	o, ok := other.(*made)
	if !ok || o.of.TypeName() != m.of.TypeName() || len(o.fields) != len(m.fields) {
		return types.False
	}
	for name, v := range m.fields {
		if w, ok := o.fields[name]; !ok || types.Equal(v, w) != types.True {
			return types.False
		}
	}
	return types.True
}

// Type returns the type of the value.
func (m *made) Type() ref.Type { return m.of }

// Value returns the value itself.
func (m *made) Value() any { return m }

// IsZeroValue reports whether no field is set, for optional values.
func (m *made) IsZeroValue() bool { return len(m.fields) == 0 }

// Operation is an operation of a JSON patch.
type Operation struct {
	Op, Path, From string
	// Value is a JSON value, if HasValue is set.
	Value    any
	HasValue bool
}

// ErrTooLarge marks values that take more bytes as JSON than allowed.
var ErrTooLarge = errors.New("the mutation is too large")

// Fields returns the fields of an object, as JSON values of together about most bytes at most. Values may contain others
// many times, so that few of them make many fields.
func Fields(v ref.Val, most int) (map[string]any, error) {
	object, ok := v.(*made)
	if !ok || !isObject(object.of.TypeName()) {
		return nil, fmt.Errorf("unsupported return type from ApplyConfiguration expression: %v", v.Type())
	}
	c := converter{left: most}
	fields, err := c.value(object, object.of.TypeName())
	if err := c.failed(err); err != nil {
		return nil, err
	}
	return fields.(map[string]any), nil
}

// Operations returns the operations of a patch, whose values have together about most bytes at most.
func Operations(v ref.Val, most int) ([]Operation, error) {
	list, ok := v.(traits.Lister)
	if !ok {
		return nil, errors.New("type mismatch: JSONPatchType.expression should evaluate to array")
	}
	c := converter{left: most}
	var all []Operation
	for it := list.Iterator(); it.HasNext() == types.True; {
		next := it.Next()
		patch, ok := next.(*made)
		if !ok || patch.of.TypeName() != "JSONPatch" {
			return nil, fmt.Errorf("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch, got element of %T", next.Value())
		}
		text := func(field string) string {
			s, _ := patch.fields[field].(types.String)
			return string(s)
		}
		o := Operation{Op: text("op"), Path: text("path"), From: text("from")}
		err := c.take(len(o.Op) + len(o.Path) + len(o.From) + 1)
		if value, ok := patch.fields["value"]; ok && err == nil {
			root := ""
			if object, ok := value.(*made); ok {
				root = object.of.TypeName()
			}
			o.HasValue = true
			o.Value, err = c.value(value, root)
		}
		if err := c.failed(err); err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}

// converter makes JSON values of values of CEL.
type converter struct {
	left int // bytes
	// misnamed lists the objects whose type does not match their path.
	misnamed []error
}

// failed returns what was wrong.
func (c *converter) failed(err error) error {
	if err == nil && len(c.misnamed) > 0 {
		err = fmt.Errorf("type mismatch: %w", errors.Join(c.misnamed...))
	}
	return err
}

func (c *converter) take(bytes int) error {
	if c.left -= bytes; c.left < 0 {
		return ErrTooLarge
	}
	return nil
}

// value converts v. path is the name that an object's type must have there; empty outside of objects.
func (c *converter) value(v ref.Val, path string) (any, error) {
	if err := c.take(1); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case *made:
		return c.object(v, path)
	case types.Null:
		return nil, nil
	case types.Bool:
		return bool(v), nil
	case types.Int:
		return int64(v), nil
	case types.Double:
		return float64(v), nil
	case types.String:
		return string(v), c.take(len(v))
	case traits.Mapper:
		return c.table(v, path)
	case traits.Lister:
		return c.list(v, path)
	}
	return c.other(v)
}

func (c *converter) object(o *made, path string) (any, error) {
	if name := o.of.TypeName(); path != "" && name != path {
		c.misnamed = append(c.misnamed, fmt.Errorf("unexpected type name %q, expected %q, which matches field name path from root Object type", name, path))
	}
	fields := make(map[string]any, len(o.fields))
	for _, name := range slices.Sorted(maps.Keys(o.fields)) {
		below := ""
		if path != "" {
			below = path + "." + name
		}
		err := c.take(len(name))
		if err == nil {
			fields[name], err = c.value(o.fields[name], below)
		}
		if err != nil {
			return nil, err
		}
	}
	return fields, nil
}

func (c *converter) list(list traits.Lister, path string) (any, error) {
	all := []any{}
	for it := list.Iterator(); it.HasNext() == types.True; {
		item, err := c.value(it.Next(), path)
		if err != nil {
			return nil, err
		}
		all = append(all, item)
	}
	return all, nil
}

func (c *converter) table(table traits.Mapper, path string) (any, error) {
	all := map[string]any{}
	for it := table.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		name, ok := key.(types.String)
		if !ok {
			return nil, fmt.Errorf("map key %q is of type %T, not string", key.Value(), key)
		}
		err := c.take(len(name))
		if err == nil {
			all[string(name)], err = c.value(table.Get(key), path)
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// other converts the values that have a form of their own in JSON.
func (c *converter) other(v ref.Val) (any, error) {
	switch v := v.(type) {
	case types.Uint:
		return int64(v), nil
	case types.Bytes:
		return []byte(v), c.take(2 * len(v)) // encoded in base 64
	case types.Timestamp, types.Duration:
		text, ok := v.ConvertToType(types.StringType).(types.String)
		if ok {
			return string(text), c.take(len(text))
		}
	case *types.Optional:
		if v.HasValue() {
			return c.value(v.GetValue(), "")
		}
	}
	return nil, fmt.Errorf("a value of type %v cannot be in an object", v.Type())
}
