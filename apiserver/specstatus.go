package apiserver

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
)

// SpecStatus returns the strategy of a resource whose objects have a spec and a status, and its
// status subresource, as those of a CustomResourceDefinition behave:
//
//   - a request for the object does not change the status, and a new object has none;
//   - a request for the status changes neither spec nor metadata;
//   - metadata.generation begins with 1 and grows with each change of the spec.
//
// spec and status return pointers to the two fields of an object. Both results may be extended:
//
//	strategy, status := apiserver.SpecStatus(
//		func(w *Widget) *WidgetSpec { return &w.Spec },
//		func(w *Widget) *WidgetStatus { return &w.Status })
//	strategy.Validate = ...
func SpecStatus[T runtime.Object, Spec, State any](spec func(T) *Spec, status func(T) *State) (Strategy, Status) {
	main := Strategy{
		PrepareForCreate: func(_ context.Context, obj runtime.Object) {
			*status(obj.(T)) = *new(State)
			accessor(obj).SetGeneration(1)
		},
		PrepareForUpdate: func(_ context.Context, obj, old runtime.Object) {
			before := old.DeepCopyObject().(T)
			*status(obj.(T)) = *status(before)
			generation := accessor(old).GetGeneration()
			if !equality.Semantic.DeepEqual(spec(obj.(T)), spec(before)) {
				generation++
			}
			accessor(obj).SetGeneration(generation)
		},
	}
	return main, Status{
		Strategy: Strategy{PrepareForUpdate: func(_ context.Context, obj, old runtime.Object) {
			before := old.DeepCopyObject().(T)
			*spec(obj.(T)) = *spec(before)
			keepMetadata(obj, before)
		}},
		Resets: []string{"spec", "metadata"},
	}
}

// keepMetadata gives obj the metadata of old, but for what the server keeps track of itself.
func keepMetadata(obj, old runtime.Object) {
	now, before := accessor(obj), accessor(old)
	now.SetLabels(before.GetLabels())
	now.SetAnnotations(before.GetAnnotations())
	now.SetOwnerReferences(before.GetOwnerReferences())
	now.SetFinalizers(before.GetFinalizers())
	now.SetGeneration(before.GetGeneration())
}
