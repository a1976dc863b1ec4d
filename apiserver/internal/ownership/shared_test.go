package ownership_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/planekit/planekit/apiserver/internal/ownership"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func owned(text string) *metav1.ObjectMeta {
	return &metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{
		{Manager: "m", Operation: "Update", APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(text)}, {Manager: "none"},
	}}
}

func TestEqualTextsAreShared(t *testing.T) {
	s := &ownership.Shared{}
	a, b, c := owned(`{"f:a":{}}`), owned(`{"f:a":{}}`), owned(`{"f:b":{}}`)
	for _, obj := range []*metav1.ObjectMeta{a, b, c, {}} {
		s.Share(obj)
	}
	if a.ManagedFields[0].FieldsV1 != b.ManagedFields[0].FieldsV1 || a.ManagedFields[0].FieldsV1 == c.ManagedFields[0].FieldsV1 {
		t.Error("not shared, or too much")
	}
	if got := c.ManagedFields[0]; got.FieldsV1.GetRawString() != `{"f:b":{}}` || got.Manager != "m" || got.Operation != "Update" {
		t.Errorf(`Share makes the entry %+v, want Update by m of {"f:b":{}}`, got)
	}
	if a.ManagedFields[1].FieldsV1 != nil {
		t.Error("made up")
	}
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetManagedFields(a.ManagedFields[:1])
	s.Share(u)
	if got := u.GetManagedFields(); len(got) != 1 || got[0].FieldsV1.GetRawString() != `{"f:a":{}}` {
		t.Errorf(`Share makes the entries %+v of an unstructured object, want one of {"f:a":{}}`, got)
	}
}

// TestSharedForgetsTheOld shows that what is remembered is bounded, and that what
// is still asked for outlives the rest.
func TestSharedForgetsTheOld(t *testing.T) {
	s := &ownership.Shared{}
	often, once := owned(`{"f:often":{}}`), owned(`{"f:once":{}}`)
	s.Share(often)
	s.Share(once)
	big := make([]byte, 1<<16)
	for i := range 200 {
		s.Share(owned(fmt.Sprintf(`{"f:%d%s":{}}`, i, big)))
		again := owned(`{"f:often":{}}`)
		s.Share(again)
		if again.ManagedFields[0].FieldsV1 != often.ManagedFields[0].FieldsV1 {
			t.Fatalf("forgotten after %d", i)
		}
	}
	again := owned(`{"f:once":{}}`)
	s.Share(again)
	if again.ManagedFields[0].FieldsV1 == once.ManagedFields[0].FieldsV1 {
		t.Error("nothing is ever forgotten")
	}
}

func TestSharedByMany(t *testing.T) {
	s := &ownership.Shared{}
	objects := make([]*metav1.ObjectMeta, 64)
	var wg sync.WaitGroup
	for i := range objects {
		objects[i] = owned(fmt.Sprintf(`{"f:%d":{}}`, i%4))
		wg.Go(func() { s.Share(objects[i]) })
	}
	wg.Wait()
	for i, obj := range objects {
		if obj.ManagedFields[0].FieldsV1 != objects[i%4].ManagedFields[0].FieldsV1 {
			t.Fatalf("%d is not shared", i)
		}
	}
}
