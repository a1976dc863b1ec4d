package ownership

import (
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/planekit/planekit/internal/mergeschema"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// Types knows how the fields of a set of types merge.
type Types struct {
	kinds map[schema.GroupVersionKind]typed.ParseableType
	// mu guards plans.
	mu    sync.Mutex
	plans *compiler
}

// plan returns the plan of objects of t, or nil.
func (t *Types) plan(of reflect.Type, kind typed.ParseableType) *plan {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.plans == nil {
		t.plans = &compiler{schema: kind.Schema, made: map[planKey]*plan{}, shapes: map[planKey]*plan{}}
	}
	return t.plans.root(of, kind.TypeRef)
}

// NewTypes reads OpenAPI schemas by name, as JSON.
func NewTypes(definitions []byte) (*Types, error) {
	kinds, err := mergeschema.Kinds(definitions)
	if err != nil {
		return nil, fmt.Errorf("ownership: %w", err)
	}
	return &Types{kinds: kinds}, nil
}

// ObjectToTyped returns obj without its managedFields, which have no owner and are expensive to
// compare. An object that may hold duplicates, as the live object and its update may, is not
// validated: its schema is that of its Go type, and validation is almost half of the cost of an
// update.
func (t *Types) ObjectToTyped(obj runtime.Object, options ...typed.ValidationOptions) (*typed.TypedValue, error) {
	obj = Without(obj)
	gvk := obj.GetObjectKind().GroupVersionKind()
	kind, known := t.kinds[gvk]
	if !known {
		return nil, runtime.NewNotRegisteredErrForKind("apiserver", gvk)
	}
	if u, ok := obj.(runtime.Unstructured); ok {
		return kind.FromUnstructured(u.UnstructuredContent(), options...)
	}
	if !slices.Contains(options, typed.AllowDuplicates) {
		return kind.FromStructured(obj, options...)
	}
	fields, err := value.NewValueReflect(obj)
	if err != nil {
		return nil, err
	}
	//lint:ignore SA1019 for two objects on every write it is not cheap
	return typed.AsTypedUnvalidated(fields, kind.Schema, kind.TypeRef), nil
}

// TypedToObject returns an object of which only the kind is decoded. The rest is decoded when it is
// needed.
func (t *Types) TypedToObject(value *typed.TypedValue) (runtime.Object, error) {
	return &merged{value}, nil
}

// merged is an object of which only the kind is decoded.
type merged struct{ value *typed.TypedValue }

func (m *merged) GetObjectKind() schema.ObjectKind { return m }

func (m *merged) DeepCopyObject() runtime.Object { return &merged{m.value} }

func (m *merged) SetGroupVersionKind(schema.GroupVersionKind) {}

func (m *merged) GroupVersionKind() schema.GroupVersionKind {
	v := m.value.AsValue()
	if !v.IsMap() {
		return schema.GroupVersionKind{}
	}
	fields := v.AsMap()
	text := func(name string) string {
		if f, ok := fields.Get(name); ok && f.IsString() {
			return f.AsString()
		}
		return ""
	}
	return schema.FromAPIVersionAndKind(text("apiVersion"), text("kind"))
}

// shallow returns a copy of the struct that obj points to. It shares everything below.
func shallow(obj runtime.Object) runtime.Object {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.DeepCopy()
	}
	out := reflect.New(reflect.TypeOf(obj).Elem())
	out.Elem().Set(reflect.ValueOf(obj).Elem())
	return out.Interface().(runtime.Object)
}
