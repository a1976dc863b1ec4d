package crd

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestMetadataOf compares metadata of which random fields are set with what apimachinery makes of it.
func TestMetadataOf(t *testing.T) {
	seconds, at := int64(3), metav1.NewTime(time.Date(2026, 11, 28, 10, 0, 0, 0, time.FixedZone("here", 3600)))
	all := metav1.ObjectMeta{
		Name: "a", GenerateName: "b", Namespace: "c", UID: "e", ResourceVersion: "5", Generation: 7,
		CreationTimestamp: at, DeletionTimestamp: &at, DeletionGracePeriodSeconds: &seconds,
		Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": ""}, Finalizers: []string{"x", "y"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "u", Controller: new(true)}},
		ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "m", Operation: "Update", Time: &at, FieldsV1: metav1.NewFieldsV1(`{"f:a":{}}`)}},
	}
	all.SetSelfLink("d")
	from := reflect.ValueOf(all)
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 1))
		var m metav1.ObjectMeta
		for i := range from.NumField() {
			if random.IntN(2) == 0 {
				reflect.ValueOf(&m).Elem().Field(i).Set(from.Field(i))
			}
		}
		want, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&m)
		if err != nil {
			t.Fatal(err)
		}
		if m.CreationTimestamp.IsZero() {
			delete(want, "creationTimestamp")
		}
		if got := metadataOf(&m); !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: %v\nwant %v", seed, got, want)
		}
	}
}
