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
	"github.com/planekit/planekit/apiserver/internal/openapi"
	"github.com/planekit/planekit/apiserver/internal/ownership"
	"github.com/planekit/planekit/apiserver/kube"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// widget is a type of a user's own, with fields of every sort.
type widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   widgetSpec         `json:"spec"`
	Status *map[string]string `json:"status"`
}

type widgetSpec struct {
	inlined  `json:",inline"`
	Any      any               `json:"any,omitempty"`
	Anything map[string]any    `json:"anything"`
	Numbers  []int32           `json:"numbers,omitempty" patchStrategy:"merge"`
	Parts    []*widgetPart     `json:"parts" patchStrategy:"merge" patchMergeKey:"id"`
	Named    map[string]*part2 `json:"named,omitempty"`
	Bytes    []byte            `json:"bytes"`
	When     metav1.Time       `json:"when,omitempty"`
	Until    metav1.Time       `json:"until,omitzero"`
	At       *metav1.Time      `json:"at"`
	Plain    struct{ A, B string }
	Ratio    float64 `json:"ratio"`
}

type inlined struct {
	Inner string `json:"inner,omitempty"`
}

type widgetPart struct {
	ID   *int64 `json:"id"`
	Size string `json:"size,omitempty"`
}

type part2 struct {
	Size string `json:"size"`
}

func (w *widget) DeepCopyObject() runtime.Object { return deepCopy(w) }

// deepCopy goes by way of JSON, which cuts times to seconds: not those of owners.
func deepCopy(w *widget) *widget {
	bare := *w
	bare.ManagedFields = nil
	data, err := json.Marshal(bare)
	if err != nil {
		panic(err)
	}
	out := &widget{}
	if err := json.Unmarshal(data, out); err != nil {
		panic(err)
	}
	w.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return out
}

func allResources() []apiserver.Resource {
	return append(kube.Resources(), apiserver.Resource{Group: "example.com", Version: "v1", Kind: "Widget", New: func() runtime.Object { return &widget{} }})
}

// trackerOf returns the tracker of a resource, and of its status with sub.
func trackerOf(t testing.TB, r apiserver.Resource, sub string) *ownership.Tracker {
	t.Helper()
	made, err := ownership.New(configOf(t, r, sub))
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func configOf(t testing.TB, r apiserver.Resource, sub string) ownership.Config {
	t.Helper()
	definitions, err := openapi.Definitions([]openapi.Resource{{
		Kind: openapi.Kind{Group: r.Group, Version: r.Version, Kind: r.Kind}, Type: reflect.TypeOf(r.New()).Elem(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	types, err := ownership.NewTypes(definitions)
	if err != nil {
		t.Fatal(err)
	}
	c := ownership.Config{Kind: gvkOf(r), Subresource: sub, New: r.New, Types: types, Ignored: []string{"status"}}
	if sub != "" {
		c.Ignored = []string{"spec", "metadata.ownerReferences", "metadata.labels.a"}
	}
	return c
}

func gvkOf(r apiserver.Resource) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
}

// twins runs the same updates through a tracker and through apimachinery alone.
type twins struct {
	*testing.T
	random
	resource apiserver.Resource
	trackers []*ownership.Tracker
	live     runtime.Object
	// text is sent by clients now and then, if there is one.
	text string
}

var managers = []string{"kubectl", "kubelet", "m1", "m2", "m3", "", `odd"<name>`, "m4", "m5", "m6", "ancient-changes"}

func (w *twins) accessor(obj runtime.Object) metav1.Object {
	m, err := meta.Accessor(obj)
	if err != nil {
		w.Fatal(err)
	}
	return m
}

func (w *twins) fresh() runtime.Object {
	obj := w.resource.New()
	w.fill(reflect.ValueOf(obj).Elem(), 7)
	obj.GetObjectKind().SetGroupVersionKind(gvkOf(w.resource))
	m := w.accessor(obj)
	m.SetManagedFields(w.entries(nil, gvkOf(w.resource).GroupVersion().String()))
	return obj
}

// step makes one random change and compares the owners of fields after it.
func (w *twins) step(tame bool) {
	at := w.IntN(len(w.trackers))
	tracker, manager := w.trackers[at], managers[w.IntN(len(managers))]
	live := w.live
	var obj runtime.Object
	switch {
	case live == nil:
		live = w.resource.New()
		live.GetObjectKind().SetGroupVersionKind(gvkOf(w.resource))
		obj = w.fresh()
	case w.chance(10) && !tame:
		w.apply(tracker, manager)
		return
	default:
		obj = live.DeepCopyObject()
		if !w.chance(8) {
			w.edit(reflect.ValueOf(obj).Elem(), 6)
		}
		m := w.accessor(obj)
		entries := w.accessor(live).GetManagedFields()
		if w.chance(3) && !tame {
			entries = w.entries(entries, gvkOf(w.resource).GroupVersion().String())
			if len(entries) > 0 && w.text != "" {
				entries[0].FieldsV1 = metav1.NewFieldsV1(w.text)
			}
		}
		m.SetManagedFields(entries)
	}
	m := w.accessor(obj)
	if tame && w.live == nil {
		m.SetManagedFields(nil)
	}
	m.SetUID(w.accessor(live).GetUID())
	obj.GetObjectKind().SetGroupVersionKind(gvkOf(w.resource))
	sent := describe(m.GetManagedFields())
	before := live.DeepCopyObject()
	aside := obj.DeepCopyObject()
	want := tracker.UpdateAside(live.DeepCopyObject(), aside, manager)
	detours := tracker.Detours()
	got := tracker.Update(live, obj, manager)
	if tame && want == nil && tracker.Detours() > detours {
		w.Errorf("%s: an update was left to apimachinery", w.resource.Kind)
	}
	if want != nil && got == nil && strings.Contains(want.Error(), " ."+[]string{"status", "status", "spec"}[at]) {
		return // of what a request cannot change nothing is compared
	}
	wantEntries, gotEntries := w.accessor(aside).GetManagedFields(), m.GetManagedFields()
	if (want == nil) != (got == nil) || describe(wantEntries) != describe(gotEntries) || (wantEntries == nil) != (gotEntries == nil) {
		a, _ := json.Marshal(before)
		b, _ := json.Marshal(aside)
		w.Fatalf("%s by %q through %d:\n%s\nto\n%s\nsent\n%s\ngot  %v\n%s\nwant %v\n%s", w.resource.Kind, manager, at, a, b, sent, got, describe(gotEntries), want, describe(wantEntries))
	}
	if got != nil {
		return
	}
	m.SetUID("a")
	w.live = obj
}

func (w *twins) apply(tracker *ownership.Tracker, manager string) {
	patch := w.fresh()
	w.accessor(patch).SetManagedFields(nil)
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(patch)
	if err != nil {
		return
	}
	delete(fields, []string{"spec", "status", "data", "metadata"}[w.IntN(4)])
	fields["apiVersion"], fields["kind"] = gvkOf(w.resource).GroupVersion().String(), w.resource.Kind
	obj, err := tracker.Apply(w.live, &unstructured.Unstructured{Object: fields}, manager, w.chance(2))
	if err != nil || obj == nil {
		return
	}
	w.accessor(obj).SetUID("a")
	w.live = obj
}

// run makes sequences of changes to objects of every resource.
func run(t *testing.T, seed uint64, tame bool, sequences int, resources []apiserver.Resource, trackers map[string][]*ownership.Tracker) {
	for _, r := range resources {
		synctest.Test(t, func(t *testing.T) {
			w := &twins{T: t, random: seeded(seed), resource: r, trackers: trackers[r.Group+r.Kind]}
			for range sequences {
				w.live = nil
				steps := 3 + w.IntN(6)
				if w.chance(10) {
					steps = 40 // enough for managers to be forgotten
				}
				for range steps {
					w.step(tame)
					time.Sleep(time.Duration(w.IntN(3)) * 400 * time.Millisecond)
				}
			}
		})
	}
}

func allTrackers(t testing.TB) map[string][]*ownership.Tracker {
	out := map[string][]*ownership.Tracker{}
	for _, r := range allResources() {
		out[r.Group+r.Kind] = []*ownership.Tracker{trackerOf(t, r, ""), trackerOf(t, r, ""), trackerOf(t, r, "status")}
	}
	return out
}

// TestSameAsAside holds thousands of sequences of creates, updates and applies
// against what apimachinery makes of them.
func TestSameAsAside(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	run(t, seed, false, 43, allResources(), allTrackers(t))
}

// FuzzSameAsAside does the same from a seed, with a text of managedFields that a
// client might send.
func FuzzSameAsAside(f *testing.F) {
	f.Add(uint64(1), `{"f:metadata":{"f:labels":{".":{},"f:a":{}}}}`)
	f.Add(uint64(2), `{"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{".":{}}}}}`)
	f.Add(uint64(3), `{"f:metadata":{"f:finalizers":{"v:\"a\"":{}}}}`)
	resources, trackers := allResources(), allTrackers(f)
	f.Fuzz(func(t *testing.T, seed uint64, text string) {
		r := resources[seed%uint64(len(resources))]
		synctest.Test(t, func(t *testing.T) {
			w := &twins{T: t, random: seeded(seed), resource: r, trackers: trackers[r.Group+r.Kind], text: text}
			for range 6 {
				w.step(false)
			}
		})
	})
}

// TestKubernetesTypesNeedNoDetour updates as well-behaved clients do.
func TestKubernetesTypesNeedNoDetour(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	run(t, seed, true, 10, kube.Resources(), allTrackers(t))
}

// TestMetadataIsPlanned: what every object has is compared without
// structured-merge-diff.
func TestMetadataIsPlanned(t *testing.T) {
	for _, r := range allResources() {
		if names := trackerOf(t, r, "").Foreign(); len(names) > 0 {
			t.Errorf("the tracker of %s leaves %v to structured-merge-diff, want no fields of metadata", r.Kind, names)
		}
	}
}
