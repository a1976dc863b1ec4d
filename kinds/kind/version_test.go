package kind_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/informer"
	"github.com/planekit/planekit/kinds/kind"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// colorsKey is the annotation in which a LampV1 keeps what it has no field for.
const colorsKey = "example.com/colors"

// Lamp has any number of colors. LampV1 has one; the others are in an annotation.
type (
	Lamp struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Colors            []string `json:"colors,omitempty"`
	}
	LampV1 struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Color             string `json:"color,omitempty"`
	}
)

func (l *Lamp) DeepCopyObject() runtime.Object {
	return &Lamp{l.TypeMeta, *l.ObjectMeta.DeepCopy(), slices.Clone(l.Colors)}
}

func (l *LampV1) DeepCopyObject() runtime.Object {
	return &LampV1{l.TypeMeta, *l.ObjectMeta.DeepCopy(), l.Color}
}

var (
	lamps = kind.Define(kind.Kind[*Lamp]{
		Group: "example.com", Version: "v2", Kind: "Lamp", Plural: "lamps", Namespaced: true,
		ShortNames: []string{"lp"}, Categories: []string{"all"},
		Versions: []kind.Version{kind.NewVersion("v1", lampFromV1, lampToV1)},
	})
	lampsV1 = kind.In[*LampV1](lamps, "v1")
)

func lampFromV1(old *LampV1, l *Lamp) error {
	l.Colors = []string{old.Color}
	kept, ok := old.Annotations[colorsKey]
	if !ok {
		return nil
	}
	delete(l.Annotations, colorsKey)
	l.Colors = nil
	if err := json.Unmarshal([]byte(kept), &l.Colors); err != nil {
		return fmt.Errorf("annotation %s: %w", colorsKey, err)
	}
	if len(l.Colors) > 0 {
		l.Colors[0] = old.Color
	} else if old.Color != "" {
		l.Colors = []string{old.Color}
	}
	return nil
}

func lampToV1(l *Lamp, old *LampV1) error {
	if _, ok := l.Annotations[colorsKey]; ok {
		return fmt.Errorf("the annotation %s is reserved", colorsKey)
	}
	if len(l.Colors) > 0 {
		old.Color = l.Colors[0]
	}
	if len(l.Colors) == 1 {
		return nil
	}
	kept, err := json.Marshal(l.Colors)
	metav1.SetMetaDataAnnotation(&old.ObjectMeta, colorsKey, string(kept))
	return err
}

func lamp(name string, colors ...string) *Lamp {
	return &Lamp{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Colors: colors}
}

func lampV1(name, color string) *LampV1 {
	return &LampV1{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Color: color}
}

// serve returns a client of a server of lamps.
func serve(t testing.TB) *client.Client {
	t.Helper()
	server := apiservertest.Start(t, apiservertest.WithResources(apiserver.For(lamps, apiserver.Resource{})))
	api, err := client.New(client.InProcess(server.Transport(&user.Info{Name: "jane", Groups: []string{user.Masters}})))
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// cacheOf returns a cache of resource, which runs until the test ends.
func cacheOf[T informer.Object[UID], UID ~string](t *testing.T, group *errgroup.Group, ctx context.Context, source informer.Source[T]) *informer.Informer[T] {
	t.Helper()
	cache, err := informer.For(source)
	if err != nil {
		t.Fatal(err)
	}
	group.Go(func() error { return cache.Run(ctx) })
	return cache
}

// TestVersions writes lamps in both versions, and reads, lists and watches each write in both.
func TestVersions(t *testing.T) {
	api := serve(t)
	now, old := client.For(api, lamps), client.For(api, lampsV1)
	ctx, stop := context.WithCancel(t.Context())
	group, ctx := errgroup.WithContext(ctx)
	nowCache, oldCache := cacheOf(t, group, ctx, now), cacheOf(t, group, ctx, old)

	// see checks every way to read the lamp that was last written at revision.
	see := func(revision, name string, colors ...string) {
		t.Helper()
		if err := errors.Join(nowCache.WaitFor(ctx, revision), oldCache.WaitFor(ctx, revision)); err != nil {
			t.Fatal(err)
		}
		got, err1 := now.Get(ctx, "default", name)
		gotV1, err2 := old.Get(ctx, "default", name)
		list, _, err3 := now.List(ctx, "default", metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		listV1, _, err4 := old.List(ctx, "default", metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		if err := errors.Join(err1, err2, err3, err4); err != nil || len(list) != 1 || len(listV1) != 1 {
			t.Fatal(err, list, listV1)
		}
		watched, ok := nowCache.Get("default/" + name)
		watchedV1, okV1 := oldCache.Get("default/" + name)
		if !ok || !okV1 {
			t.Fatalf("%s is watched: %v and %v", name, ok, okV1)
		}
		for _, l := range []*Lamp{got, list[0], watched} {
			if !slices.Equal(l.Colors, colors) || l.ResourceVersion != revision || l.Annotations[colorsKey] != "" {
				t.Errorf("in v2, %s is %+v", name, l)
			}
		}
		for _, l := range []*LampV1{gotV1, listV1[0], watchedV1} {
			if l.Color != colors[0] || l.ResourceVersion != revision || (l.Annotations[colorsKey] != "") != (len(colors) > 1) {
				t.Errorf("in v1, %s is %+v", name, l)
			}
		}
	}

	made, err := old.Create(ctx, lampV1("one", "red"))
	if err != nil {
		t.Fatal(err)
	}
	see(made.ResourceVersion, "one", "red")
	patched, err := now.Patch(ctx, "default", "one", "application/merge-patch+json", []byte(`{"colors":["red","blue"]}`))
	if err != nil {
		t.Fatal(err)
	}
	see(patched.ResourceVersion, "one", "red", "blue")
	made, err = old.Patch(ctx, "default", "one", "application/merge-patch+json", []byte(`{"color":"green"}`))
	if err != nil {
		t.Fatal(err)
	}
	see(made.ResourceVersion, "one", "green", "blue")
	made.Color = "pink"
	if made, err = old.Update(ctx, made); err != nil {
		t.Fatal(err)
	}
	see(made.ResourceVersion, "one", "pink", "blue")
	if _, err := old.Patch(ctx, "default", "one", "application/merge-patch+json", []byte(`{"metadata":{"annotations":{"example.com/colors":"x"}}}`)); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "annotation example.com/colors: ") {
		t.Errorf("a patch that breaks the annotation: %v, want 422 that names it", err)
	}

	if err := old.Delete(ctx, "default", "one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	next, err := now.Create(ctx, lamp("two", "white", "black", "white"))
	if err != nil {
		t.Fatal(err)
	}
	see(next.ResourceVersion, "two", "white", "black", "white")
	if n, m := len(slices.Collect(nowCache.All())), len(slices.Collect(oldCache.All())); n != 1 || m != 1 {
		t.Errorf("%d and %d lamps are cached, want one", n, m)
	}
	stop()
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

// FuzzVersions sends a lamp through both versions: what a client reads in one and writes back
// changes nothing in the other.
func FuzzVersions(f *testing.F) {
	f.Add("red", "blue", uint8(2), "green", "note")
	f.Add("", "", uint8(0), "", "")
	f.Add("", "x", uint8(3), "y", colorsKey)
	f.Add(`"]`, "\x00", uint8(1), "\u2028", "{}")
	api := serve(f)
	now, old := client.For(api, lamps), client.For(api, lampsV1)
	f.Fuzz(func(t *testing.T, first, second string, count uint8, third, note string) {
		for _, text := range []string{first, second, third, note} {
			if !utf8.ValidString(text) {
				return // JSON has no other strings
			}
		}
		colors := []string{first, second, first}[:count%4]
		ctx := t.Context()
		made := lamp("a", colors...)
		made.Annotations = map[string]string{"note": note}
		made, err := now.Create(ctx, made)
		if err != nil {
			t.Fatal(err)
		}
		inV1, err := old.Get(ctx, "default", "a")
		if err != nil {
			t.Fatal(err)
		}
		if inV1, err = old.Update(ctx, inV1); err != nil {
			t.Fatal(err)
		}
		if inV1.Annotations["note"] != note || inV1.UID != made.UID {
			t.Errorf("in v1: %+v", inV1)
		}
		if again, err := now.Get(ctx, "default", "a"); err != nil || !slices.Equal(again.Colors, colors) || !reflect.DeepEqual(again.Annotations, made.Annotations) {
			t.Errorf("through v1, %q became %+v (%v)", colors, again, err)
		}
		inV1.Color = third
		if _, err = old.Update(ctx, inV1); err != nil {
			t.Fatal(err)
		}
		want := slices.Clone(colors)
		if len(want) > 0 {
			want[0] = third
		} else if third != "" {
			want = []string{third}
		}
		if again, err := now.Get(ctx, "default", "a"); err != nil || !slices.Equal(again.Colors, want) {
			t.Errorf("%q became %+v (%v), want %q", colors, again, err, want)
		}
		if err := now.Delete(ctx, "default", "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	})
}

// TestConversion checks the functions of a version by themselves: they copy the metadata, and what
// a conversion changes is not changed in the original.
func TestConversion(t *testing.T) {
	v := lamps.Versions[0]
	from := lampV1("one", "red")
	from.Annotations = map[string]string{colorsKey: `["","blue"]`}
	from.Finalizers = []string{"a"}
	obj, err := v.To(from)
	if err != nil {
		t.Fatal(err)
	}
	to := obj.(*Lamp)
	if !slices.Equal(to.Colors, []string{"red", "blue"}) || to.Name != "one" || to.Finalizers[0] != "a" {
		t.Errorf("To(%+v) = %+v, want name one, colors red and blue and finalizer a", from, to)
	}
	to.Finalizers[0] = "b"
	if len(to.Annotations) != 0 || from.Annotations[colorsKey] == "" || from.Finalizers[0] != "a" {
		t.Errorf("%+v was made of %+v", to, from)
	}
	back, err := v.From(to)
	if err != nil || !reflect.DeepEqual(back.(*LampV1).Annotations, map[string]string{colorsKey: `["red","blue"]`}) {
		t.Errorf("From(%+v) = %+v, %v, want only the annotation %s: %s", to, back, err, colorsKey, `["red","blue"]`)
	}
	to.Annotations = map[string]string{colorsKey: ""}
	if obj, err := v.From(to); obj != nil || err == nil {
		t.Errorf("From(%+v) = %v, %v, want nil and an error", to, obj, err)
	}
	from.Annotations[colorsKey] = "x"
	if obj, err := v.To(from); obj != nil || err == nil {
		t.Errorf("To(%+v) = %v, %v, want nil and an error", from, obj, err)
	}
}

// TestIn checks the kind of a version.
func TestIn(t *testing.T) {
	k := lampsV1
	if k.GVK().String() != "example.com/v1, Kind=Lamp" || k.GroupResource() != lamps.GroupResource() || !k.Namespaced ||
		k.ShortNames[0] != "lp" || k.Categories[0] != "all" || k.Versions != nil || k.New().Color != "" {
		t.Errorf("In() = %+v, want example.com/v1, Kind=Lamp of %v, namespaced, short name lp, category all, no versions and no color",
			k, lamps.GroupResource())
	}
	if list := reflect.TypeOf(k.NewList()).Elem(); !strings.HasPrefix(list.Name(), "list[") {
		t.Errorf("the list is a %s", list)
	}
	for want, call := range map[string]func(){
		"lamps.example.com has no version v3":                                      func() { kind.In[*LampV1](lamps, "v3") },
		"objects of lamps.example.com in version v1 are of type *kind_test.LampV1": func() { kind.In[*Lamp](lamps, "v1") },
		"version v1 of widgets.example.com converts to *kind_test.Lamp": func() {
			k := widgets
			k.Versions = lamps.Versions
			kind.Define(k)
		},
		"*kind_test.bare does not embed metav1.ObjectMeta": func() {
			kind.NewVersion("v1", func(*bare, *Lamp) error { return nil }, func(*Lamp, *bare) error { return nil })
		},
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, want) {
					t.Errorf("panic %q, want %q", got, want)
				}
			}()
			call()
		}()
	}
}

// bare has metadata of its own.
type bare struct{ Lamp }

func (*bare) GetObjectMeta() metav1.Object { return &metav1.PartialObjectMetadata{} }
