package ownership_test

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/internal/ownership"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// untypedTrackers returns trackers of objects that have the schema of a resource, and not its Go type.
func untypedTrackers(t testing.TB, r apiserver.Resource) []*ownership.Tracker {
	t.Helper()
	var all []*ownership.Tracker
	for _, sub := range []string{"", "status"} {
		c := configOf(t, r, sub)
		c.New = func() runtime.Object { return &unstructured.Unstructured{} }
		tracker, err := ownership.New(c)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, tracker)
	}
	return all
}

// toUntyped converts an object, and changes it in ways that its Go type does not allow.
func (w *twins) toUntyped(obj runtime.Object) *unstructured.Unstructured {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil // the object has raw JSON that cannot be converted
	}
	w.spoilBelow(fields)
	return &unstructured.Unstructured{Object: fields}
}

// spoil changes a few values: they become null, empty, numbers or objects, or come twice.
func (w *twins) spoil(v any) any {
	if w.chance(150) {
		return []any{nil, map[string]any{}, []any{}, int64(1), 1.5, "1", true, map[string]any{"a": int64(1)}}[w.IntN(8)]
	}
	switch v := v.(type) {
	case map[string]any:
		w.spoilBelow(v)
	case []any:
		for i := range v {
			v[i] = w.spoil(v[i])
		}
		if len(v) > 0 && w.chance(40) {
			return append(v, runtime.DeepCopyJSONValue(v[0]))
		}
	}
	return v
}

func (w *twins) spoilBelow(fields map[string]any) {
	for name, v := range fields {
		if name != "apiVersion" && name != "kind" && name != "metadata" && name != "managedFields" {
			fields[name] = w.spoil(v)
		}
	}
}

// TestUntypedSameAsAside makes random changes of objects that are not of a Go type. Their owners are those that apimachinery
// finds, which is rarely asked.
func TestUntypedSameAsAside(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	updates, detours := 0, int64(0)
	for _, r := range allResources() {
		trackers := untypedTrackers(t, r)
		synctest.Test(t, func(t *testing.T) {
			w := &twins{T: t, random: seeded(seed), resource: r}
			for range 20 {
				updates += w.untypedSequence(trackers)
			}
		})
		for _, one := range trackers {
			detours += one.Detours()
		}
	}
	t.Logf("%d of %d updates were left to apimachinery", detours, updates)
	if int(detours)*4 > updates {
		t.Error("too many updates were left to apimachinery")
	}
}

// untypedSequence makes changes of one object, and returns how many.
func (w *twins) untypedSequence(trackers []*ownership.Tracker) int {
	kind := gvkOf(w.resource)
	live := &unstructured.Unstructured{Object: map[string]any{}}
	live.SetGroupVersionKind(kind)
	obj := w.fresh()
	n := 1 + w.IntN(5)
	for i := range n {
		if i > 0 {
			w.edit(reflect.ValueOf(obj).Elem(), 6)
			obj.GetObjectKind().SetGroupVersionKind(kind)
		}
		next := w.toUntyped(obj)
		if next == nil {
			return i
		}
		next.SetManagedFields(live.GetManagedFields())
		if w.chance(4) {
			next.SetManagedFields(w.entries(live.GetManagedFields(), kind.GroupVersion().String()))
		}
		next.SetUID(live.GetUID())
		at, manager := w.IntN(len(trackers)), managers[w.IntN(len(managers))]
		tracker := trackers[at]
		before, aside := live.DeepCopy(), next.DeepCopy()
		want := tracker.UpdateAside(live.DeepCopy(), aside, manager)
		got := tracker.Update(live, next, manager)
		if !reflect.DeepEqual(live, before) {
			w.Fatalf("%s: the live object has changed", w.resource.Kind)
		}
		if want != nil && got == nil && strings.Contains(want.Error(), " ."+[]string{"status", "spec"}[at]) {
			return i // of what a request cannot change nothing is compared
		}
		if (want == nil) != (got == nil) || describe(aside.GetManagedFields()) != describe(next.GetManagedFields()) {
			a, _ := json.Marshal(before)
			b, _ := json.Marshal(aside)
			w.Fatalf("%s by %q:\n%s\nto\n%s\ngot  %v\n%s\nwant %v\n%s", w.resource.Kind, manager, a, b, got, describe(next.GetManagedFields()), want, describe(aside.GetManagedFields()))
		}
		if got != nil {
			return i
		}
		next.SetUID("a")
		live = next
		time.Sleep(time.Duration(w.IntN(3)) * 400 * time.Millisecond)
	}
	return n
}

func BenchmarkUntyped(b *testing.B) {
	tracker := untypedTrackers(b, pods(b))[0]
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(servicePod(b))
	if err != nil {
		b.Fatal(err)
	}
	pod := &unstructured.Unstructured{Object: fields}
	empty := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod"}}
	other := pod.DeepCopy()
	other.SetLabels(map[string]string{"app": "other"})
	for _, way := range []struct {
		name   string
		update update
	}{{"direct", tracker.Update}, {"apimachinery", tracker.UpdateAside}} {
		for what, live := range map[string]*unstructured.Unstructured{"create": empty, "update": other} {
			b.Run(what+"/way="+way.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					pod.SetManagedFields(nil)
					if err := way.update(live, pod, "kubectl"); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
	if tracker.Detours() > 0 {
		b.Error("not direct")
	}
}
