package kube

import (
	"context"

	"github.com/planekit/planekit/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// strategy is an [apiserver.Strategy] before its type is erased. It is the only
// place where objects are asserted to be of their resource's type. Functions may
// be nil.
type strategy[T runtime.Object] struct {
	complete       func(obj T)
	create         func(obj T)
	update         func(obj, old T)
	validate       func(obj T) field.ErrorList
	validateUpdate func(obj, old T) field.ErrorList
}

func (s strategy[T]) erase() apiserver.Strategy {
	var out apiserver.Strategy
	if s.complete != nil {
		out.Default = func(obj runtime.Object) { s.complete(obj.(T)) }
	}
	if s.create != nil {
		out.PrepareForCreate = func(_ context.Context, obj runtime.Object) { s.create(obj.(T)) }
	}
	if s.update != nil {
		out.PrepareForUpdate = func(_ context.Context, obj, old runtime.Object) { s.update(obj.(T), old.(T)) }
	}
	if s.validate != nil {
		out.Validate = func(_ context.Context, obj runtime.Object) field.ErrorList { return s.validate(obj.(T)) }
	}
	if s.validateUpdate != nil {
		out.ValidateUpdate = func(_ context.Context, obj, old runtime.Object) field.ErrorList {
			return s.validateUpdate(obj.(T), old.(T))
		}
	}
	return out
}

// status is the subresource through which only the status changes. resets are the
// fields that cannot be changed here; none given are spec.
func status[T runtime.Object](s strategy[T], resets ...string) apiserver.Subresource {
	return apiserver.Status{Strategy: s.erase(), Resets: resets}
}

// selectable maps field paths to what they select on.
type selectable[T runtime.Object] map[string]func(T) string

func (s selectable[T]) erase() map[string]func(runtime.Object) string {
	out := make(map[string]func(runtime.Object) string, len(s))
	for path, value := range s {
		out[path] = func(obj runtime.Object) string { return value(obj.(T)) }
	}
	return out
}
