package ownership_test

import (
	"fmt"
	"testing"

	"github.com/planekit/planekit/apiserver/internal/ownership"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

const definitions = `{"ConfigMap": {"type": "object",
	"x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "ConfigMap"}],
	"properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
		"data": {"type": "object", "additionalProperties": {"type": "string"}}}}}`

func tracker(t testing.TB) *ownership.Tracker {
	t.Helper()
	types, err := ownership.NewTypes([]byte(definitions))
	if err != nil {
		t.Fatal(err)
	}
	tr, err := ownership.New(ownership.Config{
		Kind: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Types: types,
		New: func() runtime.Object { return &corev1.ConfigMap{} },
	})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func configMap(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "u"}, Data: data,
	}
}

func Example() {
	types, _ := ownership.NewTypes([]byte(definitions))
	tr, _ := ownership.New(ownership.Config{
		Kind: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Types: types,
		New: func() runtime.Object { return &corev1.ConfigMap{} },
	})
	live := configMap(map[string]string{"a": "1"})
	tr.Create(live, "alice")
	patch := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c"}, "data": map[string]any{"a": "2"},
	}}
	_, err := tr.Apply(live, patch, "bob", false)
	fmt.Println(err)
	// Output: Apply failed with 1 conflict: conflict with "alice" using v1: .data.a
}

func TestUpdateLeavesTheLiveObjectAlone(t *testing.T) {
	tr := tracker(t)
	live := configMap(map[string]string{"a": "1"})
	if err := tr.Create(live, "alice"); err != nil {
		t.Fatal(err)
	}
	before := live.DeepCopy()
	obj := live.DeepCopy()
	obj.Data["b"] = "2"
	if err := tr.Update(live, obj, "bob"); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(before) != fmt.Sprint(live) {
		t.Errorf("live changed: %v", live)
	}
	if len(obj.ManagedFields) != 2 || obj.ManagedFields[1].FieldsV1.GetRawString() != `{"f:data":{"f:b":{}}}` {
		t.Errorf(`Update by bob leaves the entries %v, want two, the second with {"f:data":{"f:b":{}}}`, obj.ManagedFields)
	}
}

func TestEntriesOfAnotherVersionAreForgotten(t *testing.T) {
	tr := tracker(t)
	live := configMap(map[string]string{"a": "1"})
	live.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "old", Operation: "Update", APIVersion: "v0",
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:a":{}}}`)}}
	obj := live.DeepCopy()
	obj.Data["a"] = "2"
	if err := tr.Update(live, obj, "new"); err != nil {
		t.Fatal(err)
	}
	if len(obj.ManagedFields) != 1 || obj.ManagedFields[0].Manager != "new" {
		t.Errorf(`Update by new leaves the entries %v, want one, of new`, obj.ManagedFields)
	}
}

// TestDuplicatesAreNoReasonToForget updates an object whose list has one key
// twice, which was stored before that was checked.
func TestDuplicatesAreNoReasonToForget(t *testing.T) {
	types, err := ownership.NewTypes([]byte(`{"Pod": {"type": "object",
		"x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "Pod"}],
		"properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}, "status": {"type": "object"},
			"spec": {"type": "object", "properties": {"nodeName": {"type": "string"}, "containers": {"type": "array",
				"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": {"type": "object",
					"properties": {"name": {"type": "string"}, "image": {"type": "string"}, "resources": {"type": "object"}}}}}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	tr, err := ownership.New(ownership.Config{
		Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Types: types, New: func() runtime.Object { return &corev1.Pod{} },
	})
	if err != nil {
		t.Fatal(err)
	}
	live := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	live.Spec.Containers = []corev1.Container{{Name: "c", Image: "1"}, {Name: "c", Image: "2"}}
	if err := tr.Create(live, "alice"); err != nil {
		t.Fatal(err)
	}
	live.UID = "u"
	obj := live.DeepCopy()
	obj.Spec.NodeName = "n"
	if err := tr.Update(live, obj, "bob"); err != nil {
		t.Fatal(err)
	}
	if len(obj.ManagedFields) != 2 || obj.ManagedFields[1].FieldsV1.GetRawString() != `{"f:spec":{"f:nodeName":{}}}` {
		t.Errorf(`Update by bob leaves the entries %v, want two, the second with {"f:spec":{"f:nodeName":{}}}`, obj.ManagedFields)
	}
}

func TestKeepTimes(t *testing.T) {
	tr := tracker(t)
	live := configMap(map[string]string{"a": "1"})
	if err := tr.Create(live, "alice"); err != nil {
		t.Fatal(err)
	}
	obj := live.DeepCopy()
	later := metav1.NewTime(live.ManagedFields[0].Time.Add(1e9))
	obj.ManagedFields[0].Time = &later
	if now, kept := ownership.KeepTimes(obj, live); !kept || now[0].Time != &later || obj.ManagedFields[0].Time == &later {
		t.Error("not kept")
	}
	obj = live.DeepCopy()
	obj.ManagedFields[0].Manager = "bob"
	if _, kept := ownership.KeepTimes(obj, live); kept {
		t.Error("kept another's")
	}
}

func BenchmarkCreate(b *testing.B) {
	tr := tracker(b)
	obj := configMap(map[string]string{"a": "1"})
	b.ReportAllocs()
	for b.Loop() {
		obj.ManagedFields = nil
		if err := tr.Create(obj, "alice"); err != nil {
			b.Fatal(err)
		}
	}
}
