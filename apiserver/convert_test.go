package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/memstore"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// bulbConverter converts bulbs as the functions of bulbKind do, and fails on demand.
type bulbConverter struct {
	// before, if not nil, is called before each conversion, and fails it with its error.
	before atomic.Pointer[func(ctx context.Context, objs []runtime.Object) error]
	asked  atomic.Int64
	// objects counts the converted objects.
	objects atomic.Int64
}

func (c *bulbConverter) Convert(ctx context.Context, objs []runtime.Object, version string) ([]runtime.Object, error) {
	c.asked.Add(1)
	c.objects.Add(int64(len(objs)))
	if before := c.before.Load(); before != nil {
		if err := (*before)(ctx, objs); err != nil {
			return nil, err
		}
	}
	out := make([]runtime.Object, len(objs))
	for i, obj := range objs {
		to := bulbKind.Versions[0].To
		if version == "v1alpha1" {
			to = bulbKind.Versions[0].From
		}
		var err error
		if out[i], err = to(obj); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (c *bulbConverter) fail(before func(ctx context.Context, objs []runtime.Object) error) {
	c.before.Store(&before)
}

// reset returns how often the converter was asked since the last reset, and for how many objects.
func (c *bulbConverter) reset() [2]int64 { return [2]int64{c.asked.Swap(0), c.objects.Swap(0)} }

// convertedBulbs are bulbs with a Converter, stored in v1 or in v1alpha1.
func convertedBulbs(c apiserver.Converter, storage string) apiserver.Resource {
	r := bulbs()
	old := bulbKind.Versions[0]
	strategy := apiserver.Strategy{Validate: nil}
	columns := []apiserver.Column{{Name: "Light", Type: "string", Value: func(obj runtime.Object) any { return obj.(*OldBulb).Light }}}
	fields := map[string]func(runtime.Object) string{"light": func(obj runtime.Object) string { return obj.(*OldBulb).Light }}
	if storage == "v1" {
		r.Converter = c
		r.Versions = []apiserver.Version{{Name: old.Name, New: old.New, NewList: old.NewList, Strategy: &strategy, Columns: columns, Fields: fields}}
		return r
	}
	return apiserver.Resource{
		Group: r.Group, Version: old.Name, Kind: r.Kind, Plural: r.Plural, Namespaced: true, New: old.New, NewList: old.NewList,
		Columns: columns, Fields: fields, Converter: c,
		Versions: []apiserver.Version{{Name: r.Version, New: r.New, NewList: r.NewList, Strategy: &r.Strategy, Fields: r.Fields, Subresources: r.Subresources}},
	}
}

func startConverted(t *testing.T, c *bulbConverter) *api {
	return start(t, apiservertest.WithResources(convertedBulbs(c, "v1")))
}

// TestConverterAsksOnce: objects are converted once, all of a list together, and never for requests
// in the version in which they are stored.
func TestConverterAsksOnce(t *testing.T) {
	c := &bulbConverter{}
	a := startConverted(t, c)
	asked := func(what string, times, objects int64) {
		t.Helper()
		if got := c.reset(); got != [2]int64{times, objects} {
			t.Errorf("%s: asked %d times for %d objects, want %d and %d", what, got[0], got[1], times, objects)
		}
	}
	const n = 100
	for i := range n {
		a.create(bulbPath, bulb(fmt.Sprintf("b%03d", i), `{"color":"red","watts":40}`))
	}
	a.shows(bulbPath, `"watts":40`)
	a.want(a.do("PATCH", bulbPath+"/b000", `{"spec":{"watts":41}}`, mergePatch), 200, "")
	a.want(a.do("DELETE", bulbPath+"/b001", ""), 200, "")
	asked("the stored version", 0, 0)
	if got := a.shows(oldBulbPath, `"light":"red:41"`); strings.Count(got.body, `"light":"red:40"`) != n-2 {
		t.Errorf("the list has red:40 %d times, want %d: %.3000s", strings.Count(got.body, `"light":"red:40"`), n-2, got.body)
	}
	asked("a list", 1, n-1)
	a.shows(oldBulbPath+"/b000", `"light":"red:41"`)
	a.shows(oldBulbPath+"?limit=2", `"continue"`)
	a.want(a.do("GET", oldBulbPath, "", "Accept: application/json;as=Table;g=meta.k8s.io;v=v1"), 200, "")
	asked("reads of what was listed", 0, 0)
	a.want(a.do("PATCH", bulbPath+"/b000", `{"spec":{"watts":42}}`, mergePatch), 200, "")
	a.shows(oldBulbPath+"?fieldSelector=light%3Dred:42", `"name":"b000"`)
	asked("a list after a change", 1, 1)
	// A write is converted to be stored, and back to be shown. Owners that have named fields of the
	// other version would cost more.
	a.create(oldBulbPath, oldBulb("old", "blue:41"))
	a.shows(oldBulbPath+"/old", `"light":"blue:41"`)
	asked("a create", 2, 2)
	if got := a.want(a.do("PATCH", oldBulbPath+"/old", `{"light":"blue:0"}`, mergePatch), 200, ""); !strings.Contains(got.body, "blue:60") {
		t.Errorf("no default of the stored version in %s", got.body)
	}
	asked("a patch", 2, 2)
	a.shows(oldBulbPath+"/old", `"light":"blue:60"`)
	a.shows(bulbPath+"/old", `"watts":60`)
	asked("reads of what was patched", 0, 0)
	a.want(a.do("PATCH", oldBulbPath+"/old", `{"light":"blue:60"}`, mergePatch), 200, "")
	asked("a patch that sets the default", 2, 2)
	a.shows(oldBulbPath+"/old", `"light":"blue:60"`)
	a.want(a.do("PATCH", oldBulbPath+"/old", `{"light":"blue:60"}`, mergePatch), 200, "")
	asked("a patch that changes nothing", 1, 1)
	a.want(a.do("DELETE", oldBulbPath+"/b002", ""), 200, "")
	asked("a delete of what was listed", 0, 0)
	a.want(a.do("DELETE", oldBulbPath+"?fieldSelector=light%3Dred:40", ""), 200, "")
	asked("a delete of many", 0, 0)
	if got := a.shows(bulbPath, "b000"); strings.Contains(got.body, "b003") {
		t.Errorf("the list after the delete of many has b003, want it gone: %.3000s", got.body)
	}
}

// TestConverterPages: a page converts no more than it shows.
func TestConverterPages(t *testing.T) {
	c := &bulbConverter{}
	a := startConverted(t, c)
	for i := range 10 {
		a.create(bulbPath, bulb(fmt.Sprintf("b%d", i), fmt.Sprintf(`{"color":"red","watts":%d}`, 40+i%2)))
	}
	names, next := "", ""
	for page := range 4 {
		got := a.want(a.do("GET", oldBulbPath+"?limit=3&continue="+next, ""), 200, "")
		list := into[metav1.PartialObjectMetadataList](t, got)
		for _, one := range list.Items {
			names += one.Name
		}
		if asked := c.reset(); asked != [2]int64{1, int64(len(list.Items))} {
			t.Errorf("page %d: asked %v", page, asked)
		}
		if next = list.Continue; (next == "") != (page == 3) || next != "" && *list.RemainingItemCount != int64(7-3*page) {
			t.Errorf("page %d: continue %q, %v remain", page, next, list.RemainingItemCount)
		}
	}
	if names != "b0b1b2b3b4b5b6b7b8b9" {
		t.Error(names)
	}
	got := into[metav1.PartialObjectMetadataList](t, a.do("GET", oldBulbPath+"?limit=2&fieldSelector=light%3Dred:41", ""))
	if len(got.Items) != 2 || got.Items[1].Name != "b3" || got.Continue == "" {
		t.Errorf("the list of red:41 is %+v, want 2 items, the second b3, and a continue token", got)
	}
	// An old state comes from the store, which keeps no conversions.
	a.want(a.do("DELETE", oldBulbPath+"/b0", ""), 200, "")
	if old := a.want(a.do("GET", oldBulbPath+"?resourceVersionMatch=Exact&resourceVersion="+got.ResourceVersion, ""), 200, ""); !strings.Contains(old.body, `"name":"b0"`) {
		t.Error(old.body)
	}
}

// TestConverterFails: a conversion that fails costs the requests that need it, and no others.
func TestConverterFails(t *testing.T) {
	c := &bulbConverter{}
	a := startConverted(t, c)
	a.create(bulbPath, bulb("a", `{"color":"red"}`))
	watch := a.watch(oldBulbPath + "?watch=true&resourceVersion=" + into[metav1.PartialObjectMetadataList](t, a.do("GET", bulbPath, "")).ResourceVersion)
	c.fail(func(context.Context, []runtime.Object) error { return errors.New("no way") })
	for _, one := range [][3]string{
		{"GET", oldBulbPath + "/a"}, {"GET", oldBulbPath}, {"GET", oldBulbPath + "?limit=1"}, {"GET", oldBulbPath + "?watch=true"},
		{"POST", oldBulbPath, oldBulb("b", "red:40")}, {"POST", oldBulbPath + "?dryRun=All", oldBulb("b", "red:40")},
		{"PUT", oldBulbPath + "/a", oldBulb("a", "red:41")}, {"DELETE", oldBulbPath + "/a"}, {"DELETE", oldBulbPath},
	} {
		a.want(a.do(one[0], one[1], one[2]), http.StatusInternalServerError, "no way")
	}
	a.want(a.do("PATCH", oldBulbPath+"/a", `{"light":"pink:43"}`, mergePatch), http.StatusInternalServerError, "no way")
	a.want(a.do("PATCH", oldBulbPath+"/a?fieldManager=m", `{"apiVersion":"example.com/v1alpha1","kind":"Bulb","light":"pink:43"}`, "Content-Type: application/apply-patch+yaml"), http.StatusInternalServerError, "no way")
	if got := a.shows(bulbPath, `"name":"a"`); strings.Contains(got.body, `"name":"b"`) {
		t.Error(got.body) // nothing has been stored
	}
	a.want(a.do("PATCH", bulbPath+"/a", `{"spec":{"watts":42}}`, mergePatch), 200, "")
	if e := watch.next(); e == nil || e.Type != "ERROR" || !strings.Contains(string(e.Object), "no way") || !strings.Contains(string(e.Object), `"code":500`) {
		t.Errorf("the watch gives %s, want an ERROR of code 500 with %q", e, "no way")
	}
	if e := watch.next(); e != nil {
		t.Errorf("after the error: %+v", e)
	}
	c.before.Store(nil)
	a.shows(oldBulbPath+"/a", `"light":"red:42"`)
}

// TestConverterLies: a converter that returns other objects than it got is no better than one that fails.
func TestConverterLies(t *testing.T) {
	lie := atomic.Pointer[func([]runtime.Object) []runtime.Object]{}
	c := &bulbConverter{}
	r := convertedBulbs(apiserver.ConverterFunc(func(ctx context.Context, objs []runtime.Object, version string) ([]runtime.Object, error) {
		out, err := c.Convert(ctx, objs, version)
		if f := lie.Load(); f != nil {
			out = (*f)(out)
		}
		return out, err
	}), "v1")
	a := start(t, apiservertest.WithResources(r))
	a.create(bulbPath, bulb("a", `{"color":"red"}`))
	for text, f := range map[string]func([]runtime.Object) []runtime.Object{
		"has returned 0":       func([]runtime.Object) []runtime.Object { return nil },
		"changed the metadata": func(all []runtime.Object) []runtime.Object { all[0].(*OldBulb).Name = "x"; return all },
		"panic":                func(all []runtime.Object) []runtime.Object { panic("panic") },
	} {
		lie.Store(&f)
		if text == "panic" {
			text = ""
		}
		a.want(a.do("GET", oldBulbPath+"/a", ""), http.StatusInternalServerError, text)
	}
	lie.Store(nil)
	a.shows(oldBulbPath+"/a", `"light":"red:60"`)
}

// TestConverterHangs: of many requests for the same objects one waits for the converter and the
// others for it. If its client goes away another one asks.
func TestConverterHangs(t *testing.T) {
	c := &bulbConverter{}
	a := startConverted(t, c)
	for i := range 20 {
		a.create(bulbPath, bulb(fmt.Sprintf("b%d", i), `{"color":"red"}`))
	}
	hanging, release := make(chan struct{}, 100), make(chan struct{})
	c.fail(func(ctx context.Context, _ []runtime.Object) error {
		hanging <- struct{}{}
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	first, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	list := func(ctx context.Context) (int, error) {
		request, err := http.NewRequestWithContext(ctx, "GET", a.base+oldBulbPath, nil)
		if err != nil {
			return 0, err
		}
		response, err := a.client.Do(request)
		if err != nil {
			return 0, err
		}
		defer response.Body.Close()
		return response.StatusCode, nil
	}
	all.Go(func() {
		if code, err := list(first); err == nil {
			t.Errorf("the cancelled list: %d", code)
		}
	})
	<-hanging
	for range 50 {
		all.Go(func() {
			if code, err := list(t.Context()); code != 200 {
				t.Errorf("a list that waited for the cancelled one = %d, %v, want 200", code, err)
			}
		})
	}
	a.shows(bulbPath, `"name":"b0"`) // is not held up
	cancel()
	<-hanging // another request has taken over
	close(release)
	all.Wait()
	if asked := c.reset(); asked != [2]int64{2, 40} {
		t.Errorf("asked %v", asked)
	}
}

// TestConverterWatch: a watch converts what it shows, at most once for all watches.
func TestConverterWatch(t *testing.T) {
	c := &bulbConverter{}
	a := startConverted(t, c)
	a.create(bulbPath, bulb("a", `{"color":"red"}`))
	watches := []*stream{
		a.watch(oldBulbPath + "?watch=true"), a.watch(oldBulbPath + "?watch=true"),
		a.watch(oldBulbPath + "?watch=true&fieldSelector=light%3Dred:60"), a.watch(oldBulbPath+"?watch=true", "Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"),
	}
	for _, w := range watches {
		w.want("ADDED/a")
	}
	a.want(a.do("PATCH", bulbPath+"/a", `{"spec":{"watts":42}}`, mergePatch), 200, "")
	a.want(a.do("PATCH", bulbPath+"/a", `{"spec":{"watts":60}}`, mergePatch), 200, "")
	a.want(a.do("DELETE", bulbPath+"/a", ""), 200, "")
	for i, w := range watches {
		if i == 2 {
			w.want("DELETED/a", "ADDED/a", "DELETED/a")
			continue
		}
		for _, text := range []string{`MODIFIED "light":"red:42"`, `MODIFIED "light":"red:60"`, `DELETED "light":"red:60"`} {
			what, content, _ := strings.Cut(text, " ")
			if e := w.next(); e == nil || e.Type != what || i < 3 && !strings.Contains(string(e.Object), content) {
				t.Errorf("watch %d: %+v, want %s", i, e, text)
			}
		}
	}
	if asked := c.reset(); asked[1] != 3 {
		t.Errorf("asked %v", asked)
	}
	// A watch that begins in the past gets the changes from history.
	late := a.watch(oldBulbPath + "?watch=true&resourceVersion=1")
	late.want("ADDED/a", "MODIFIED/a", "MODIFIED/a", "DELETED/a")
}

// TestConverterMigrates: objects stay readable in all versions while the version in which they are stored changes.
func TestConverterMigrates(t *testing.T) {
	store, c := memstore.New(), &bulbConverter{}
	a := start(t, apiservertest.WithConfig(func(config *apiserver.Config) { config.Store = store }), apiservertest.WithResources(convertedBulbs(c, "v1alpha1")))
	a.create(oldBulbPath, oldBulb("a", "red:40"))
	a.create(bulbPath, bulb("b", `{"color":"blue"}`))
	b := start(t, apiservertest.WithConfig(func(config *apiserver.Config) { config.Store = store }), apiservertest.WithResources(convertedBulbs(c, "v1")))
	b.create(bulbPath, bulb("c", `{"color":"green"}`))
	c.reset()
	for _, s := range []*api{a, b} {
		if got := s.shows(bulbPath, `"color":"red"`); !strings.Contains(got.body, `"color":"blue"`) || !strings.Contains(got.body, `"color":"green"`) {
			t.Error(got.body)
		}
		if got := s.shows(oldBulbPath, `"red:40"`); !strings.Contains(got.body, `"blue:60"`) || !strings.Contains(got.body, `"green:60"`) {
			t.Error(got.body)
		}
	}
	// A write that changes nothing stores the object in the version of now.
	b.want(b.do("PATCH", bulbPath+"/a", `{}`, mergePatch), 200, "")
	record, err := store.Get(t.Context(), storage.Key("/registry/example.com/bulbs/default/a"), 0)
	if err != nil || !strings.Contains(string(record.Value), `"apiVersion":"example.com/v1"`) {
		t.Errorf("the stored object is %s, %v, want the apiVersion example.com/v1", record.Value, err)
	}
}

// TestConverterModel compares random changes in random versions, by servers that store in different versions, with a map.
func TestConverterModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	store, c := memstore.New(), &bulbConverter{}
	var servers []*api
	for _, version := range []string{"v1", "v1alpha1"} {
		servers = append(servers, start(t, apiservertest.WithConfig(func(config *apiserver.Config) { config.Store = store }), apiservertest.WithResources(convertedBulbs(c, version))))
	}
	model := map[string]int{}
	for range 300 {
		s, name, watts := servers[random.IntN(2)], fmt.Sprint("b", random.IntN(5)), 1+random.IntN(3)
		path, body, patch := bulbPath, bulb(name, fmt.Sprintf(`{"color":"red","watts":%d}`, watts)), fmt.Sprintf(`{"spec":{"watts":%d}}`, watts)
		if random.IntN(2) == 0 {
			path, body, patch = oldBulbPath, oldBulb(name, fmt.Sprint("red:", watts)), fmt.Sprintf(`{"light":"red:%d"}`, watts)
		}
		_, exists := model[name]
		code := map[bool]int{true: 200, false: 404}[exists]
		switch random.IntN(6) {
		case 0:
			s.want(s.do("POST", path, body), map[bool]int{true: 409, false: 201}[exists], "")
			if !exists {
				model[name] = watts
			}
			continue
		case 1:
			s.want(s.do("PUT", path+"/"+name, body), code, "")
		case 2:
			s.want(s.do("PATCH", path+"/"+name, patch, mergePatch), code, "")
		case 3:
			s.want(s.do("DELETE", path+"/"+name, ""), code, "")
			delete(model, name)
			continue
		case 4:
			if got := s.want(s.do("GET", path+"/"+name, ""), code, ""); exists && !strings.Contains(got.body, patchedText(path, model[name])) {
				t.Fatalf("%s %s is %s, want %d", path, name, got.body, model[name])
			}
			continue
		default:
			got := s.want(s.do("GET", path, ""), 200, "").body
			for name, watts := range model {
				if !strings.Contains(got, fmt.Sprintf(`"name":%q`, name)) || !strings.Contains(got, patchedText(path, watts)) {
					t.Fatalf("%s is %s, want %v", path, got, model)
				}
			}
			if strings.Count(got, `"uid"`) != len(model) {
				t.Fatalf("%s is %s, want %v", path, got, model)
			}
			continue
		}
		if exists {
			model[name] = watts
		}
	}
}

func patchedText(path string, watts int) string {
	if path == bulbPath {
		return fmt.Sprintf(`"watts":%d`, watts)
	}
	return fmt.Sprintf(`"light":"red:%d"`, watts)
}

// TestConverterRefused: what the server could not convert is refused by New.
func TestConverterRefused(t *testing.T) {
	for text, change := range map[string]func(r *apiserver.Resource){
		"To and From":  func(r *apiserver.Resource) { r.Versions[0].To = bulbKind.Versions[0].To },
		"Strategy":     func(r *apiserver.Resource) { r.Versions[0].Strategy = nil },
		"AfterCreate":  func(r *apiserver.Resource) { r.AfterCreate = func(context.Context, runtime.Object) {} },
		"New and NewL": func(r *apiserver.Resource) { r.Versions[0].New = nil },
	} {
		r := convertedBulbs(&bulbConverter{}, "v1")
		change(&r)
		_, err := apiserver.New(apiserver.Config{
			Store: memstore.New(), Authenticator: authn.Func(nil), Authorizer: authz.Func(nil), Resources: []apiserver.Resource{r},
		})
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("New = %v, want an error with %q", err, text)
		}
	}
}
