package ownership_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestEntriesBeyondBounds: entries of a client that are too many, too long or nested too
// deeply are ignored, and those of the live object stay; what fits is taken.
func TestEntriesBeyondBounds(t *testing.T) {
	entry := func(manager, version, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: version, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
		}
	}
	deep := `{"f:data":` + strings.Repeat(`{"f:a":`, 5000) + "{}" + strings.Repeat("}", 5001)
	var long strings.Builder
	for i := range 30_000 {
		fmt.Fprintf(&long, `"f:k%d":{},`, i)
	}
	wide := `{"f:data":{` + strings.TrimSuffix(long.String(), ",") + "}}"
	many := make([]metav1.ManagedFieldsEntry, 2000)
	for i := range many {
		many[i] = entry(fmt.Sprint("m", i), "v1", `{"f:data":{"f:a":{}}}`)
	}
	for name, c := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		kept    bool // the live object's
	}{
		"deep":                  {[]metav1.ManagedFieldsEntry{entry("m", "v1", deep)}, true},
		"deep, another version": {[]metav1.ManagedFieldsEntry{entry("m", "v2", deep)}, true},
		"wide":                  {[]metav1.ManagedFieldsEntry{entry("m", "v1", wide)}, true},
		"many":                  {many, true},
		"not JSON":              {[]metav1.ManagedFieldsEntry{entry("m", "v1", strings.Repeat("x", 2000))}, true},
		"fitting":               {[]metav1.ManagedFieldsEntry{entry("m", "v1", `{"f:data":{"f:a":{}}}`)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			tr := tracker(t)
			live := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Data: map[string]string{"a": "b"}}
			live.Name, live.UID = "web", "u"
			if err := tr.Create(live, "first"); err != nil {
				t.Fatal(err)
			}
			obj := live.DeepCopy()
			obj.ManagedFields = c.entries
			if err := tr.Update(live, obj, "second"); err != nil {
				t.Fatal(err)
			}
			if len(obj.ManagedFields) != 1 || (obj.ManagedFields[0].Manager == "first") != c.kept {
				t.Errorf("Update leaves %d entries, %.300v, want one, with first as its manager: %v",
					len(obj.ManagedFields), obj.ManagedFields, c.kept)
			}
		})
	}
}

// TestOwnEntriesAreNotBounded: what the live object has comes back from clients, however
// long it is.
func TestOwnEntriesAreNotBounded(t *testing.T) {
	tr := tracker(t)
	live := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Data: map[string]string{}}
	for i := range 40_000 {
		live.Data[fmt.Sprint("key", i)] = ""
	}
	live.UID = "u"
	if err := tr.Create(live, "first"); err != nil {
		t.Fatal(err)
	}
	if n := len(live.ManagedFields[0].FieldsV1.GetRawString()); n < 300<<10 {
		t.Fatalf("only %d bytes", n)
	}
	obj := live.DeepCopy()
	obj.ManagedFields[0].Manager = "renamed"
	if err := tr.Update(live, obj, "second"); err != nil {
		t.Fatal(err)
	}
	if len(obj.ManagedFields) != 1 || obj.ManagedFields[0].Manager != "renamed" {
		t.Errorf("%d entries, of %s", len(obj.ManagedFields), obj.ManagedFields[0].Manager)
	}
}
