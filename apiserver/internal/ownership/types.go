package ownership

import (
	"encoding/json"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// Types knows how the fields of a set of types merge.
type Types struct{ known managedfields.TypeConverter }

// NewTypes reads OpenAPI schemas by name, as JSON.
func NewTypes(definitions []byte) (*Types, error) {
	var schemas map[string]*spec.Schema
	if err := json.Unmarshal(definitions, &schemas); err != nil {
		return nil, fmt.Errorf("ownership: schemas: %w", err)
	}
	known, err := managedfields.NewTypeConverter(schemas, false)
	if err != nil {
		return nil, fmt.Errorf("ownership: %w", err)
	}
	return &Types{known}, nil
}

// ObjectToTyped looks at obj without its managedFields, which nobody owns and
// which are dear to look at.
func (t *Types) ObjectToTyped(obj runtime.Object, options ...typed.ValidationOptions) (*typed.TypedValue, error) {
	return t.known.ObjectToTyped(Without(obj), options...)
}

// TypedToObject returns an object of which as much is known as is asked for: its
// kind for now.
func (t *Types) TypedToObject(value *typed.TypedValue) (runtime.Object, error) {
	return &merged{value}, nil
}

// merged is an object that only its kind has been read of.
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

// shallow copies the struct that obj points to, and nothing below.
func shallow(obj runtime.Object) runtime.Object {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.DeepCopy()
	}
	out := reflect.New(reflect.TypeOf(obj).Elem())
	out.Elem().Set(reflect.ValueOf(obj).Elem())
	return out.Interface().(runtime.Object)
}
