package crd_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/planekit/planekit/kinds/apiextensions"
	"github.com/planekit/planekit/storage"
)

// TestHostileDefinitions: each is refused with a clear error, in bounded time.
func TestHostileDefinitions(t *testing.T) {
	a := start(t, nil)
	deep := strings.Repeat(`{"type":"object","properties":{"a":`, 300) + `{"type":"string"}` + strings.Repeat(`}}`, 300)
	items := strings.Repeat(`{"type":"array","items":`, 2000) + `{"type":"string"}` + strings.Repeat(`}`, 2000)
	large := `{"type":"object","properties":{"a":{"type":"string","description":"` + strings.Repeat("x", 4<<20) + `"}}}`
	for name, test := range map[string]struct {
		schema string
		code   int
		text   string
	}{
		"deep":      {deep, 400, "exceeded max depth"},
		"items":     {`{"type":"object","properties":{"a":` + items + `}}`, 400, "exceeded max depth"},
		"large":     {large, 413, "limit is"},
		"reference": {`{"type":"object","properties":{"a":{"$ref":"#/definitions/a"}}}`, 422, "$ref is not supported"},
		"pattern":   {`{"type":"object","properties":{"a":{"type":"string","pattern":"(a{1000}){1000}"}}}`, 422, "must be a valid regular expression"},
		"default":   {`{"type":"object","properties":{"a":{"type":"string","default":{"b":1}}}}`, 422, "must be of type string"},
		"root":      {`{"type":"object","nullable":true}`, 422, "nullable cannot be true at the root"},
		"rules":     {`{"type":"object","x-kubernetes-validations":[{"rule":"true"}]}`, 422, "does not evaluate x-kubernetes-validations"},
	} {
		began := time.Now()
		a.want(a.do("POST", definitions, widgets(test.schema, "")), test.code, test.text)
		t.Logf("%s: %v", name, time.Since(began))
	}
	for body, text := range map[string]string{
		strings.Replace(widgets(widgetSchema, ""), `"widgets.example.com"`, `"x.example.com"`, 1):                    `must be spec.names.plural+"."+spec.group`,
		strings.Replace(widgets(widgetSchema, ""), `"storage":true`, `"storage":false`, 1):                           "must have exactly one version marked as storage version",
		strings.Replace(widgets(widgetSchema, ""), `"Namespaced"`, `"Everywhere"`, 1):                                "spec.scope: Unsupported value",
		widgets(widgetSchema, `,"additionalPrinterColumns":[{"name":"a","type":"list","jsonPath":".a"}]`):            "must be one of boolean,date,integer,number,string",
		widgets(widgetSchema, `,"selectableFields":[{"jsonPath":".spec.any"}]`):                                      "must point to a field of type string, boolean or integer",
		widgets(widgetSchema, `,"subresources":{"scale":{"specReplicasPath":"a","statusReplicasPath":""}}`):          "must be a simple json path starting with .",
		strings.Replace(strings.ReplaceAll(widgets(widgetSchema, ""), "example.com", "example.k8s.io"), "x", "x", 1): "protected groups must have approval annotation",
	} {
		a.want(a.do("POST", definitions, body), 422, text)
	}
}

// TestSchemaChangesInMidList: every request sees one schema, and pages go on.
func TestSchemaChangesInMidList(t *testing.T) {
	a := start(t, nil)
	a.install(widgets(widgetSchema, ""))
	for i := range 10 {
		a.want(a.do("POST", path, widget(fmt.Sprint("w", i), `{"size":1}`)), 201, "")
	}
	type page struct {
		Metadata struct{ Continue string }
		Items    []struct{ Spec map[string]any }
	}
	first := decode[page](t, a.do("GET", path+"?limit=4", ""))
	changed := strings.Replace(widgetSchema, `"color":{"type":"string","default":"red"`, `"color":{"type":"string","default":"green"`, 1)
	changed = strings.Replace(changed, `"replicas":{"type":"integer","default":1}`, `"replicas":{"type":"integer"},"new":{"type":"integer","default":7}`, 1)
	old := decode[apiextensions.CustomResourceDefinition](t, a.do("GET", definitions+"/widgets.example.com", ""))
	body := strings.Replace(widgets(changed, ""), `"metadata":{`, `"metadata":{"resourceVersion":"`+old.ResourceVersion+`",`, 1)
	a.want(a.do("PUT", definitions+"/widgets.example.com", body), 200, "")
	a.until(path+"/w0", "the new default 7", func(got answer) bool { return strings.Contains(got.body, `"new":7`) })
	rest := decode[page](t, a.do("GET", path+"?continue="+first.Metadata.Continue, ""))
	if len(first.Items) != 4 || len(rest.Items) != 6 {
		t.Errorf("pages of %d and %d", len(first.Items), len(rest.Items))
	}
	for _, item := range rest.Items {
		if fmt.Sprint(item.Spec) != "map[color:red new:7 replicas:1 size:1]" {
			t.Errorf("the spec of an item of the second page is %v, want map[color:red new:7 replicas:1 size:1]", item.Spec)
		}
	}
}

// TestVersions: an object is written in one version and read in another, also after the storage version has
// changed.
func TestVersions(t *testing.T) {
	a := start(t, nil)
	schema := func(field string) string {
		return `"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"size":{"type":"integer"},"` + field + `":{"type":"string","default":"x"}}}}}}`
	}
	two := func(stored string) string {
		one := func(name, field string) string {
			return fmt.Sprintf(`{"name":%q,"served":true,"storage":%t,%s%s}`, name, name == stored, schema(field), map[string]string{"v1beta1": `,"deprecated":true`}[name])
		}
		return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com",
			"scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},"versions":[%s,%s]}}`, one("v1", "new"), one("v1beta1", "old"))
	}
	a.install(two("v1beta1"))
	beta := strings.Replace(path, "v1", "v1beta1", 1)
	body := strings.Replace(widget("a", `{"size":1}`), "/v1", "/v1beta1", 1)
	got := a.want(a.do("POST", beta, body), 201, `"old":"x"`)
	if w := got.header.Get("Warning"); !strings.Contains(w, "example.com/v1beta1 Widget is deprecated; use example.com/v1 Widget") {
		t.Errorf("the warning is %q", w)
	}
	a.want(a.do("GET", path+"/a", ""), 200, `"apiVersion":"example.com/v1"`)
	if got := a.do("GET", path+"/a", ""); strings.Contains(got.body, `"old"`) {
		t.Errorf("a field of another version: %s", got.body)
	}
	old := decode[apiextensions.CustomResourceDefinition](t, a.do("GET", definitions+"/widgets.example.com", ""))
	next := strings.Replace(two("v1"), `"metadata":{`, `"metadata":{"resourceVersion":"`+old.ResourceVersion+`",`, 1)
	a.want(a.do("PUT", definitions+"/widgets.example.com", next), 200, `"storedVersions":["v1beta1","v1"]`)
	a.want(a.do("GET", path+"/a", ""), 200, `"size":1`)
	a.want(a.do("PATCH", path+"/a", `{"spec":{"size":2}}`, "Content-Type: application/merge-patch+json"), 200, `"size":2`)
	a.want(a.do("GET", beta+"/a", ""), 200, `"size":2`)
	if v := decode[struct{ PreferredVersion struct{ Version string } }](t, a.do("GET", "/apis/example.com", "")); v.PreferredVersion.Version != "v1" {
		t.Errorf("the preferred version is %s", v.PreferredVersion.Version)
	}
}

// TestAnswersOfVersions: the answer to a write in a version in which objects are not stored is what reads and watches
// show: without the fields that the stored version does not have, and with its defaults.
func TestAnswersOfVersions(t *testing.T) {
	a := start(t, nil)
	version := func(name string, stored bool, fields string) string {
		return fmt.Sprintf(`{"name":%q,"served":true,"storage":%t,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","properties":{
			"spec":{"type":"object","properties":{"size":{"type":"integer"},%s}},"status":{"type":"object","properties":{%s}}}}}}`, name, stored, fields, fields)
	}
	a.install(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com",
		"scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},"versions":[` +
		version("v1", false, `"lost":{"type":"string"},"color":{"type":"string"},"part":{"type":"object","x-kubernetes-preserve-unknown-fields":true}`) + "," +
		version("v2", true, `"more":{"type":"string","default":"x"},"color":{"type":"string","default":"red"},"part":{"type":"object","properties":{"a":{"type":"string"}}}`) + `]}}`)
	shown, events := a.watch(path)
	defer shown()
	const spec = `{"size":1,"lost":"x","part":{"a":"x","b":"x"}}`
	merge, apply := "Content-Type: application/merge-patch+json", "Content-Type: application/apply-patch+yaml"
	for _, w := range []struct {
		code                 int
		method, path, body   string
		header, fields, name string
	}{
		{201, "POST", path + "?dryRun=All", widget("a", spec), "", `"color":"red","part":{"a":"x"},"size":1}`, ""},
		{201, "POST", path, widget("a", spec), "", `"color":"red","part":{"a":"x"},"size":1}`, "/a"},
		{200, "PATCH", path + "/a?dryRun=All", `{"spec":{"lost":"y","size":2,"color":null}}`, merge, `"color":"red","part":{"a":"x"},"size":2}`, ""},
		{200, "PATCH", path + "/a", `{"spec":{"lost":"y","size":2,"color":"blue"}}`, merge, `"color":"blue","part":{"a":"x"},"size":2}`, "/a"},
		{200, "PATCH", path + "/a/status", `{"status":` + spec + `}`, merge, `"status":{"color":"red","part":{"a":"x"}}`, "/a"},
		{201, "PATCH", path + "/b?fieldManager=m", widget("b", spec), apply, `"color":"red","part":{"a":"x"},"size":1}`, "/b"},
		{200, "PATCH", path + "/b?fieldManager=n&force=true", widget("b", `{"part":{"a":"y","c":"x"}}`), apply, `"part":{"a":"y"},"size":1}`, "/b"},
	} {
		got := a.want(a.do(w.method, w.path, w.body, w.header), w.code, w.fields)
		if w.name == "" {
			a.want(a.do("GET", path, ""), 200, "")
			continue
		}
		if read := a.do("GET", path+w.name, ""); read.body != got.body {
			t.Errorf("%s %s is answered with %s\nwhere a read shows %s", w.method, w.path, got.body, read.body)
		}
		if event := <-events; event+"\n" != got.body {
			t.Errorf("%s %s is answered with %s\nwhere a watch shows %s", w.method, w.path, got.body, event)
		}
		record, err := a.store.Get(t.Context(), storage.Key("/registry/example.com/widgets/default"+w.name), 0)
		if err != nil || strings.Contains(string(record.Value), `"lost":`) || strings.Contains(string(record.Value), `"b":"x"`) {
			t.Errorf("%s %s stores %s, %v", w.method, w.path, record.Value, err)
		}
	}
}

// watch returns the objects of events at path, and a function that ends the watch.
func (a *api) watch(path string) (stop func(), events <-chan string) {
	a.t.Helper()
	response, err := a.client.Get("http://memory" + path + "?watch=true")
	if err != nil || response.StatusCode != http.StatusOK {
		a.t.Fatal(response, err)
	}
	out := make(chan string, 100)
	go func() {
		defer close(out)
		for lines := json.NewDecoder(response.Body); ; {
			var event struct{ Object json.RawMessage }
			if lines.Decode(&event) != nil {
				return
			}
			out <- string(event.Object)
		}
	}()
	return func() { response.Body.Close() }, out
}

// TestManyComeAndGo: memory and goroutines are back when all definitions are gone.
func TestManyComeAndGo(t *testing.T) {
	a := start(t, nil)
	const count = 40
	round := func() {
		var all sync.WaitGroup
		for w := range 4 {
			all.Go(func() {
				for i := w; i < count; i += 4 {
					plural := fmt.Sprintf("things%d", i)
					a.install(define(plural, fmt.Sprint("Thing", i), widgetSchema, widgetMore))
					thing := strings.Replace(widget("a", `{"size":1}`), "Widget", fmt.Sprint("Thing", i), 1)
					a.want(a.do("POST", "/apis/example.com/v1/namespaces/default/"+plural, thing), 201, "")
					a.want(a.do("DELETE", definitions+"/"+plural+".example.com", ""), 200, "")
				}
			})
		}
		all.Wait()
		a.until(definitions, "no definition", func(got answer) bool { return strings.Contains(got.body, `"items":[]`) })
		a.until("/apis", "200 without the group example.com", func(got answer) bool { return got.code == 200 && !strings.Contains(got.body, "example.com") })
	}
	measure := func() (int, uint64) {
		for range 3 {
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return runtime.NumGoroutine(), m.HeapAlloc
	}
	round()
	goroutines, heap := measure()
	round()
	for end := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		now, _ := measure()
		if now <= goroutines+2 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d goroutines are left after %v, want at most the %d of before and 2 more", now, patience, goroutines)
		}
	}
	if _, now := measure(); now > heap+16<<20 {
		t.Errorf("%d MB are left of %d", now>>20, heap>>20)
	}
}

// TestLargeDefinition: a large definition takes little more memory than its JSON, of which the store has two revisions.
func TestLargeDefinition(t *testing.T) {
	a := start(t, nil)
	a.install(widgets(widgetSchema, widgetMore))
	var fields strings.Builder
	for i := range 800 {
		fmt.Fprintf(&fields, `"field%d":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string","description":"Name of part %d of the thing, as others know it."}}}},`, i, i)
	}
	body := define("larges", "Large", `{"type":"object","properties":{`+fields.String()+`"z":{"type":"string","default":"x"}}}`, "")
	measure := func() int64 {
		for range 3 {
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	use := func(plural, kind, field string) {
		objects := "/apis/example.com/v1/namespaces/default/" + plural
		a.want(a.do("POST", objects, strings.Replace(widget("a", `{"size":1}`), "Widget", kind, 1)), 201, field)
		wrong := strings.Replace(widget("b", `"x"`), `"spec"`, `"field7":1,"spec"`, 1)
		a.want(a.do("POST", objects, strings.Replace(wrong, "Widget", kind, 1)), 422, "must be of type")
	}
	use("widgets", "Widget", `"size":1`) // which also fills the tables that all share
	before := measure()
	a.install(body)
	if grown := measure() - before; grown > 4*int64(len(body)) {
		t.Errorf("a definition of %d bytes takes %d", len(body), grown)
	}
	use("larges", "Large", `"z":"x"`)
	if grown := measure() - before; grown > 4*int64(len(body)) {
		t.Errorf("a definition of %d bytes takes %d in use", len(body), grown)
	}
}
