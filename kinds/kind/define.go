package kind

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Define returns k with the functions New and NewList that it lacks, so that the only method that a
// type needs is DeepCopyObject. It panics if a version converts to another type than T.
func Define[V any, T pointer[V]](k Kind[T]) Kind[T] {
	if k.New == nil {
		k.New = func() T { return new(V) }
	}
	if k.NewList == nil {
		k.NewList = func() runtime.Object { return &list[V, T]{} }
	}
	for _, v := range k.Versions {
		if _, ok := v.stored.(T); !ok && v.stored != nil {
			panic(fmt.Sprintf("kind: version %s of %s converts to %T", v.Name, k.GroupResource(), v.stored))
		}
	}
	return k
}

// pointer is the constraint that *V is an object of the API.
type pointer[V any] interface {
	*V
	runtime.Object
}

// list is the type of a list of objects whose type has no list type of its own.
type list[V any, T pointer[V]] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []V `json:"items"`
}

// DeepCopyObject implements [runtime.Object].
func (l *list[V, T]) DeepCopyObject() runtime.Object {
	out := &list[V, T]{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	if l.Items != nil {
		out.Items = make([]V, len(l.Items))
		for i := range l.Items {
			out.Items[i] = *T(&l.Items[i]).DeepCopyObject().(T)
		}
	}
	return out
}
