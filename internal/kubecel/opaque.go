package kubecel

import (
	"fmt"
	"reflect"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// Opaque is a value that only functions can inspect.
type Opaque[T any] struct {
	of    *cel.Type
	value T
}

// NewOpaque returns v as a value of a type.
func NewOpaque[T any](of *cel.Type, v T) Opaque[T] { return Opaque[T]{of, v} }

// ConvertToNative fails, because the value has no Go form.
func (o Opaque[T]) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("type conversion error from '%s' to '%v'", o.of.TypeName(), t)
}

// ConvertToType converts to the value's own type, or to the type of types.
func (o Opaque[T]) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case o.of:
		return o
	case types.TypeType:
		return o.of
	}
	return types.NewErr("type conversion error from '%s' to '%s'", o.of.TypeName(), t.TypeName())
}

// Equal returns an error, because opaque values cannot be compared.
func (o Opaque[T]) Equal(other ref.Val) ref.Val { return types.MaybeNoSuchOverloadErr(other) }

// Type returns the type of the value.
func (o Opaque[T]) Type() ref.Type { return o.of }

// Value returns the value, a T.
func (o Opaque[T]) Value() any { return o.value }
