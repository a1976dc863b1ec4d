package typed

import (
	"fmt"
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/planekit/planekit/internal/structural"
	"k8s.io/apimachinery/pkg/api/equality"
)

// object is an object with fields, or a map.
type object struct {
	fields map[string]any
	schema *structural.Schema
}

var _ traits.Mapper = (*object)(nil)

// part returns the schema of a field, nil if the field is hidden.
func (o *object) part(name string) *structural.Schema {
	if o.schema.Properties != nil {
		return o.schema.Properties[name]
	}
	return o.schema.Additional
}

// Find implements [traits.Mapper]. A null in a field is like none.
func (o *object) Find(key ref.Val) (ref.Val, bool) {
	text, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key), true
	}
	name := string(text)
	if o.schema.Properties != nil {
		if name, ok = Unescape(name); !ok {
			return nil, false
		}
	}
	v, ok := o.fields[name]
	part := o.part(name)
	if !ok || part == nil || v == nil && o.schema.Properties != nil {
		return nil, false
	}
	return Value(v, part), true
}

// Get implements [traits.Mapper].
func (o *object) Get(key ref.Val) ref.Val {
	if v, ok := o.Find(key); ok {
		return v
	}
	return types.ValOrErr(key, "no such key: %v", key)
}

// Contains implements [traits.Container].
func (o *object) Contains(key ref.Val) ref.Val {
	v, ok := o.Find(key)
	if v != nil && types.IsUnknownOrError(v) {
		return v
	}
	return types.Bool(ok)
}

// Size implements [traits.Sizer].
func (o *object) Size() ref.Val { return types.Int(len(o.fields)) }

// Iterator implements [traits.Iterable]. It returns an error for each hidden field, because Size counts them.
func (o *object) Iterator() traits.Iterator {
	keys := make([]ref.Val, 0, len(o.fields))
	for name := range o.fields {
		if o.part(name) == nil {
			keys = append(keys, types.NewErr("a field without a schema has no name"))
			continue
		}
		if escaped, ok := Escape(name); ok && o.schema.Properties != nil {
			name = escaped
		}
		keys = append(keys, types.String(name))
	}
	return &iterator{size: len(keys), at: func(i int) ref.Val { return keys[i] }}
}

// Equal implements [ref.Val]. What is hidden is compared as it is.
func (o *object) Equal(other ref.Val) ref.Val {
	m, ok := other.(traits.Mapper)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	if o.Size() != m.Size() {
		return types.False
	}
	for name, v := range o.fields {
		if o.part(name) == nil {
			with, ok := other.(*object)
			if !ok {
				return types.MaybeNoSuchOverloadErr(other)
			}
			if w, ok := with.fields[name]; ok && !equality.Semantic.DeepEqual(v, w) {
				return types.False
			}
			continue
		}
		a, found := o.Find(types.String(name))
		b, also := m.Find(types.String(name))
		if found != also {
			return types.False
		}
		if !found {
			continue
		}
		if same := a.Equal(b); same != types.True {
			return same
		}
	}
	return types.True
}

// ConvertToNative implements [ref.Val].
func (o *object) ConvertToNative(t reflect.Type) (any, error) {
	if t.Kind() == reflect.Map {
		return o.fields, nil
	}
	return nil, fmt.Errorf("type conversion error from '%s' to '%s'", o.Type(), t)
}

// ConvertToType implements [ref.Val].
func (o *object) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case types.MapType:
		return o
	case types.TypeType:
		return types.MapType
	}
	return types.NewErr("type conversion error from '%s' to '%s'", o.Type(), t.TypeName())
}

// Type implements [ref.Val].
func (o *object) Type() ref.Type { return types.MapType }

// Value implements [ref.Val].
func (o *object) Value() any { return o.fields }

// iterator implements [traits.Iterator] for a sequence. As a value it is null.
type iterator struct {
	types.Null
	next, size int
	at         func(int) ref.Val
}

func (it *iterator) HasNext() ref.Val { return types.Bool(it.next < it.size) }

func (it *iterator) Next() ref.Val {
	it.next++
	return it.at(it.next - 1)
}
