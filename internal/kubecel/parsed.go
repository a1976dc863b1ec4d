package kubecel

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// parsed is a value that was parsed from a text and can be compared with others.
type parsed[T any] struct {
	Opaque[T]
	same func(a, b T) bool
}

func (p parsed[T]) Equal(other ref.Val) ref.Val {
	o, ok := other.(parsed[T])
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	return types.Bool(p.same(p.value, o.value))
}

// reading is a type whose values are parsed.
type reading[T any] struct {
	of    *cel.Type
	parse func(string) (T, error)
	same  func(a, b T) bool
}

func (r reading[T]) value(v T) ref.Val { return parsed[T]{Opaque[T]{r.of, v}, r.same} }

// converts returns the function that parses a text, and tries the one that reports whether the text
// can be parsed.
func (r reading[T]) converts() cel.OverloadOpt {
	return unary(func(text string) ref.Val {
		v, err := r.parse(text)
		if err != nil {
			return types.NewErr("%v", err)
		}
		return r.value(v)
	})
}

func (r reading[T]) tries() cel.OverloadOpt {
	return unary(func(text string) ref.Val {
		_, err := r.parse(text)
		return types.Bool(err == nil)
	})
}

// unary and binary bind functions of Go's own types, or of parsed values.
func unary[A any](f func(A) ref.Val) cel.OverloadOpt {
	return cel.UnaryBinding(func(v ref.Val) ref.Val {
		a, ok := v.Value().(A)
		if !ok {
			return types.MaybeNoSuchOverloadErr(v)
		}
		return f(a)
	})
}

func binary[A, B any](f func(A, B) ref.Val) cel.OverloadOpt {
	return cel.BinaryBinding(func(v, w ref.Val) ref.Val {
		a, ok := v.Value().(A)
		if !ok {
			return types.MaybeNoSuchOverloadErr(v)
		}
		b, ok := w.Value().(B)
		if !ok {
			return types.MaybeNoSuchOverloadErr(w)
		}
		return f(a, b)
	})
}

// member returns a member function without arguments.
func member[A any](name, overload string, of, gives *cel.Type, f func(A) ref.Val) cel.EnvOption {
	return cel.Function(name, cel.MemberOverload(overload, []*cel.Type{of}, gives, unary(f)))
}
