package kind

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// A Version is a further version in which servers serve the objects of a kind. [NewVersion] makes
// one. It is not generic because that would cost a server 25 kB of type descriptors.
type Version struct {
	// Name is such as "v1beta1". Required.
	Name string
	// New returns an empty object of this version's Go type, and NewList an empty list. Required.
	New, NewList func() runtime.Object
	// To converts an object of this version to the stored version, and From the reverse. Both copy
	// the metadata and do not change their argument. An error of To refuses what a client wrote.
	// Required.
	To, From func(obj runtime.Object) (runtime.Object, error)
	// stored is nil, with the Go type of the stored version if that is known.
	stored any
}

// NewVersion returns the version called name. Each function fills an empty object, which already has
// a copy of the other's metadata, and must not change that other object; the two may share parts
// of their other fields. A field that the other version lacks is lost unless the function keeps it,
// for example in an annotation.
//
//	kind.NewVersion("v1",
//		func(old *WidgetV1, w *Widget) error { w.Colors = strings.Fields(old.Color); return nil },
//		func(w *Widget, old *WidgetV1) error { old.Color = strings.Join(w.Colors, " "); return nil })
//
// NewVersion panics if a type does not embed [metav1.ObjectMeta].
func NewVersion[V, S any, T versioned[V], Stored versioned[S]](
	name string, to func(obj T, stored Stored) error, from func(stored Stored, obj T) error,
) Version {
	metadata(T(new(V)))
	metadata(Stored(new(S)))
	k := Define(Kind[T]{})
	return Version{
		Name:    name,
		New:     func() runtime.Object { return k.New() },
		NewList: k.NewList,
		To: func(obj runtime.Object) (runtime.Object, error) {
			return convert(obj.(T), Stored(new(S)), to)
		},
		From: func(stored runtime.Object) (runtime.Object, error) {
			return convert(stored.(Stored), T(new(V)), from)
		},
		stored: Stored(nil),
	}
}

// object is the constraint of types with metadata.
type object interface {
	runtime.Object
	metav1.ObjectMetaAccessor
}

// versioned is the constraint that *V is an object with metadata.
type versioned[V any] interface {
	*V
	object
}

// convert fills into, which is empty, from obj.
func convert[T, U object](obj T, into U, fill func(T, U) error) (runtime.Object, error) {
	metadata(obj).DeepCopyInto(metadata(into))
	if err := fill(obj, into); err != nil {
		return nil, err
	}
	return into, nil
}

func metadata(obj metav1.ObjectMetaAccessor) *metav1.ObjectMeta {
	m, ok := obj.GetObjectMeta().(*metav1.ObjectMeta)
	if !ok {
		panic(fmt.Sprintf("kind: %T does not embed metav1.ObjectMeta", obj))
	}
	return m
}

// In returns kind k as it is served in the named version, whose Go type is T, for clients and
// informers. It panics if k has no such version or T is not its type.
//
//	var widgetsV1 = kind.In[*WidgetV1](widgets, "v1")
func In[T, Stored any](k Kind[Stored], version string) Kind[T] {
	for _, v := range k.Versions {
		if v.Name != version {
			continue
		}
		if _, ok := v.New().(T); !ok {
			panic(fmt.Sprintf("kind: objects of %s in version %s are of type %T", k.GroupResource(), version, v.New()))
		}
		return Kind[T]{
			Group: k.Group, Version: v.Name, Kind: k.Kind, Plural: k.Plural, ShortNames: k.ShortNames,
			Categories: k.Categories, Namespaced: k.Namespaced,
			New: func() T { return v.New().(T) }, NewList: v.NewList,
		}
	}
	panic(fmt.Sprintf("kind: %s has no version %s", k.GroupResource(), version))
}
