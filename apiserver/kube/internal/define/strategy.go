// Package define turns functions over one Go type into the parts of an [apiserver.Resource].
//
//	define.Strategy[*corev1.Node]{Default: defaultNode, Validate: validateNode}.Erase()
//
// It is the only place where an object is asserted to be of its resource's Go type. An object of
// another type is a bug of the caller and panics.
package define

import (
	"context"

	"github.com/planekit/planekit/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A Strategy is an [apiserver.Strategy] over one Go type. Functions may be nil.
type Strategy[T runtime.Object] struct {
	// Counted returns the part of an object whose changes its metadata.generation counts. A new object has
	// generation 1. It needs objects that are a metav1.Object.
	Counted        func(obj T) any
	Default        func(obj T)
	Create         func(obj T)
	Update         func(obj, old T)
	Validate       func(obj T) field.ErrorList
	ValidateUpdate func(obj, old T) field.ErrorList
}

// Erase returns the strategy for objects of any type.
func (s Strategy[T]) Erase() apiserver.Strategy {
	var out apiserver.Strategy
	if s.Counted != nil {
		s.Create, s.Update = s.counts(s.Create, s.Update)
	}
	if s.Default != nil {
		out.Default = func(obj runtime.Object) { s.Default(obj.(T)) }
	}
	if s.Create != nil {
		out.PrepareForCreate = func(_ context.Context, obj runtime.Object) { s.Create(obj.(T)) }
	}
	if s.Update != nil {
		out.PrepareForUpdate = func(_ context.Context, obj, old runtime.Object) { s.Update(obj.(T), old.(T)) }
	}
	if s.Validate != nil {
		out.Validate = func(_ context.Context, obj runtime.Object) field.ErrorList { return s.Validate(obj.(T)) }
	}
	if s.ValidateUpdate != nil {
		out.ValidateUpdate = func(_ context.Context, obj, old runtime.Object) field.ErrorList {
			return s.ValidateUpdate(obj.(T), old.(T))
		}
	}
	return out
}

// Status returns the subresource that changes the status alone. resets are the paths of the fields
// that it cannot change; none means spec.
func Status[T runtime.Object](s Strategy[T], resets ...string) apiserver.Subresource {
	return apiserver.Status{Strategy: s.Erase(), Resets: resets}
}

// Fields maps the paths of selectable fields to their values.
type Fields[T runtime.Object] map[string]func(T) string

// Erase returns the fields for objects of any type.
func (s Fields[T]) Erase() map[string]func(runtime.Object) string {
	out := make(map[string]func(runtime.Object) string, len(s))
	for path, value := range s {
		out[path] = func(obj runtime.Object) string { return value(obj.(T)) }
	}
	return out
}
