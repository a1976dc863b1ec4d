package collection_test

import (
	"fmt"
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/internal/collection"
	corev1 "k8s.io/api/core/v1"
)

func Example() {
	old := &corev1.ConfigMap{Data: map[string]string{"a": "b"}}
	released := old.DeepCopy()
	released.Finalizers = []string{"example.com/held"}
	changed := released.DeepCopy()
	changed.Data["a"] = "c"
	for _, o := range []*corev1.ConfigMap{released, changed} {
		fmt.Println(collection.Only(&admission.Request{Operation: admission.Update, Object: o, OldObject: old}, o))
	}
	// Output:
	// true
	// false
}

// TestOnly: an object that is new, or whose former state is of another type, is not one of garbage
// collection.
func TestOnly(t *testing.T) {
	o := &corev1.ConfigMap{}
	for _, r := range []admission.Request{
		{Operation: admission.Create, Object: o, OldObject: o},
		{Operation: admission.Update, Object: o},
		{Operation: admission.Update, Object: o, OldObject: (*corev1.ConfigMap)(nil)},
		{Operation: admission.Update, Object: o, OldObject: &corev1.Secret{}},
	} {
		if collection.Only(&r, o) {
			t.Errorf("Only(%+v, %T) = true, want false", r, o)
		}
	}
}
