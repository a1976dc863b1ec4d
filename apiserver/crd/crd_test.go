package crd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/crd"
	"github.com/planekit/planekit/kinds/apiextensions"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/memstore"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// api calls a server as an administrator.
type api struct {
	t      testing.TB
	client *http.Client
	store  storage.Store
	server *apiservertest.Server
}

type answer struct {
	code   int
	header http.Header
	body   string
}

// start runs a server that serves definitions.
func start(t testing.TB, rules crd.RuleCompiler, options ...apiservertest.Option) *api {
	t.Helper()
	namespaces := apiserver.Resource{
		Version: "v1", Kind: "Namespace", Plural: "namespaces",
		New: func() runtime.Object { return &corev1.Namespace{} }, NewList: func() runtime.Object { return &corev1.NamespaceList{} },
	}
	a := &api{t: t, store: memstore.New()}
	options = append([]apiservertest.Option{apiservertest.WithResources(crd.Resource(rules), namespaces), withStore(a)}, options...)
	s := apiservertest.Start(t, options...)
	a.server = s
	run(t, s, rules)
	a.client = s.As("admin", "system:masters")
	return a
}

// run serves the definitions of s until the test ends.
func run(t testing.TB, s *apiservertest.Server, rules crd.RuleCompiler, changes ...func(*crd.Config)) *crd.Definitions {
	t.Helper()
	config := crd.Config{Server: s.Server, Rules: rules}
	for _, change := range changes {
		change(&config)
	}
	d, err := crd.New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	<-d.Ready()
	return d
}

func (a *api) do(method, path, body string, headers ...string) answer {
	a.t.Helper()
	r, err := http.NewRequest(method, "http://memory"+path, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	response, err := a.client.Do(r)
	if err != nil {
		a.t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(data)}
}

func (r answer) message() string {
	var status metav1.Status
	if json.Unmarshal([]byte(r.body), &status) == nil && status.Kind == "Status" {
		return status.Message
	}
	return r.body
}

// want fails the test unless the answer has the code and contains text.
func (a *api) want(got answer, code int, text string) answer {
	a.t.Helper()
	if got.code != code || !strings.Contains(got.message(), text) {
		a.t.Fatalf("got %d %s\nwant %d %q", got.code, got.body, code, text)
	}
	return got
}

// install creates a definition and waits until it is established.
func (a *api) install(body string) {
	a.t.Helper()
	name := decode[apiextensions.CustomResourceDefinition](a.t, a.want(a.do("POST", definitions, body), 201, "")).Name
	a.await(name, "established", func(d *apiextensions.CustomResourceDefinition) bool {
		return condition(d, "Established").Status == "True"
	})
}

// await waits until a definition is as it should be; nil is deleted.
func (a *api) await(name, want string, ok func(*apiextensions.CustomResourceDefinition) bool) {
	a.t.Helper()
	a.until(definitions+"/"+name, want, func(got answer) bool {
		return got.code == 404 && ok(nil) || got.code == 200 && ok(decode[apiextensions.CustomResourceDefinition](a.t, got))
	})
}

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

// until sends GET requests of a path until the response is as it should be.
func (a *api) until(path, want string, ok func(answer) bool) {
	a.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		got := a.do("GET", path, "")
		if ok(got) {
			return
		}
		if time.Now().After(end) {
			a.t.Fatalf("GET %s = %d %s after %v, want %s", path, got.code, got.body, patience, want)
		}
	}
}

// untilCode sends GET requests of a path until the response has the code.
func (a *api) untilCode(path string, code int) {
	a.t.Helper()
	a.until(path, fmt.Sprint(code), func(got answer) bool { return got.code == code })
}

// condition returns a condition of a definition, the zero value if the definition is nil or lacks it.
func condition(d *apiextensions.CustomResourceDefinition, name string) apiextensions.CustomResourceDefinitionCondition {
	if d == nil {
		return apiextensions.CustomResourceDefinitionCondition{}
	}
	for _, c := range d.Status.Conditions {
		if c.Type == name {
			return c
		}
	}
	return apiextensions.CustomResourceDefinitionCondition{}
}

func decode[T any](t testing.TB, r answer) *T {
	t.Helper()
	out := new(T)
	if err := json.Unmarshal([]byte(r.body), out); err != nil {
		t.Fatalf("%v in %s", err, r.body)
	}
	return out
}

// widgets is a definition; more is added to its version.
func widgets(schema, more string) string {
	return define("widgets", "Widget", schema, more)
}

func define(plural, kind, schema, more string) string {
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%s.example.com"},
		"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":%q,"kind":%q,"shortNames":[%q],"categories":["all"]},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":%s}%s}]}}`, plural, plural, kind, "x"+plural, schema, more)
}

const (
	widgetSchema = `{"type":"object","properties":{
		"spec":{"type":"object","required":["size"],"properties":{
			"size":{"type":"integer","minimum":1,"maximum":10},
			"color":{"type":"string","default":"red","enum":["red","green"]},
			"replicas":{"type":"integer","default":1},
			"ports":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],
				"items":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"port":{"type":"integer"}}}},
			"any":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
			"amount":{"x-kubernetes-int-or-string":true,"anyOf":[{"type":"integer"},{"type":"string"}]},
			"pod":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}}},
		"status":{"type":"object","properties":{"replicas":{"type":"integer"},"selector":{"type":"string"},
			"conditions":{"type":"array","items":{"type":"object","properties":{"type":{"type":"string"},"status":{"type":"string"}}}}}}}}`
	widgetMore = `,"subresources":{"status":{},"scale":{"specReplicasPath":".spec.replicas","statusReplicasPath":".status.replicas","labelSelectorPath":".status.selector"}},
		"additionalPrinterColumns":[{"name":"Size","type":"integer","jsonPath":".spec.size"},
			{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"},
			{"name":"Color","type":"string","priority":1,"jsonPath":".spec.color"},
			{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}],
		"selectableFields":[{"jsonPath":".spec.color"}]`
	path = "/apis/example.com/v1/namespaces/default/widgets"
)

func widget(name, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":%q},"spec":%s}`, name, spec)
}

func TestObjects(t *testing.T) {
	a := start(t, nil)
	a.want(a.do("GET", path, ""), 404, "")
	a.install(widgets(widgetSchema, widgetMore))
	got := a.want(a.do("POST", path+"?fieldValidation=Warn", widget("a", `{"size":3,"unknown":1,"any":{"x":{"y":1}},"amount":"5","pod":{"apiVersion":"v1","kind":"Pod","x":1}}`)), 201, "")
	for _, part := range []string{`"color":"red"`, `"any":{"x":{"y":1}}`, `"amount":"5"`, `"generation":1`, `"managedFields"`, `"apiVersion":"example.com/v1"`} {
		if !strings.Contains(got.body, part) {
			t.Errorf("no %s in %s", part, got.body)
		}
	}
	if strings.Contains(got.body, `"unknown":1`) || !strings.Contains(got.header.Get("Warning"), `unknown field \"spec.unknown\"`) {
		t.Errorf("the create gives %s with the headers %v, want the unknown field gone and a warning of it", got.body, got.header)
	}
	a.want(a.do("POST", path+"?fieldValidation=Strict", widget("b", `{"size":3,"unknown":1}`)), 400, `strict decoding error: unknown field "spec.unknown"`)
	a.want(a.do("POST", path+"?fieldValidation=Strict", widget("b", `{"size":3,"size":3}`)), 400, `duplicate field "spec.size"`)
	a.want(a.do("POST", path, widget("b", `{"size":30,"color":"blue"}`)), 422, `spec.color: Unsupported value: "blue": supported values: "red", "green"`)
	a.want(a.do("POST", path, widget("b", `{"size":30}`)), 422, `spec.size: Invalid value: 30: spec.size in body should be less than or equal to 10`)
	a.want(a.do("POST", path, widget("b", `{}`)), 422, `spec.size: Required value`)
	a.want(a.do("POST", path, widget("b", `{"size":"x"}`)), 422, `spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"`)
	a.want(a.do("POST", path, widget("b", `{"size":1,"ports":[{"name":"a"},{"name":"a"}]}`)), 422, `spec.ports[1]: Duplicate value: {"name":"a"}`)
	a.want(a.do("POST", path, widget("b", `{"size":1,"pod":{"x":1}}`)), 422, `spec.pod.apiVersion: Required value`)
	a.want(a.do("POST", path, `{"metadata":{"name":"b"}}`), 400, `Object 'Kind' is missing`)
	a.want(a.do("POST", path, "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: yaml}\nspec: {size: 2}\n", "Content-Type: application/yaml"), 201, `"color":"red"`)
	a.want(a.do("GET", path, ""), 200, `"kind":"WidgetList"`)
	a.want(a.do("GET", path+"?fieldSelector=spec.color%3Dgreen", ""), 200, `"items":[]`)
	a.want(a.do("GET", path+"?fieldSelector=spec.size%3D1", ""), 400, `field label not supported: spec.size`)
}

func TestSubresourcesAndTables(t *testing.T) {
	a := start(t, nil)
	a.install(widgets(widgetSchema, widgetMore))
	a.want(a.do("POST", path, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":3},"status":{"replicas":9}}`), 201, "")
	if got := a.do("GET", path+"/a", ""); strings.Contains(got.body, `"replicas":9`) {
		t.Errorf("a create sets the status: %s", got.body)
	}
	merge := "Content-Type: application/merge-patch+json"
	a.want(a.do("PATCH", path+"/a/status", `{"spec":{"size":5},"status":{"replicas":2,"selector":"a=b","conditions":[{"type":"Ready","status":"True"}]}}`, merge), 200, `"size":3`)
	a.want(a.do("PATCH", path+"/a", `{"spec":{"size":5},"status":{"replicas":7}}`, merge), 200, `"generation":2`)
	a.want(a.do("GET", path+"/a/scale", ""), 200, `"spec":{"replicas":1},"status":{"replicas":2,"selector":"a=b"}`)
	a.want(a.do("PATCH", path+"/a/scale", `{"spec":{"replicas":4}}`, merge), 200, `"spec":{"replicas":4}`)
	a.want(a.do("GET", path+"/a", ""), 200, `"replicas":4`)
	// An update names the resourceVersion, except through the scale.
	const unconditional = ` is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update`
	a.want(a.do("PUT", path+"/a", widget("a", `{"size":5}`)), 422, `widgets.example.com "a"`+unconditional)
	a.want(a.do("PUT", path+"/a/status", widget("a", `{"size":5}`)), 422, `widgets.example.com "a"`+unconditional)
	a.want(a.do("PUT", path+"/a/scale", `{"metadata":{"name":"a","namespace":"default"},"spec":{"replicas":4}}`), 200, `"replicas":4`)
	a.want(a.do("PUT", definitions+"/widgets.example.com", widgets(widgetSchema, widgetMore)), 422,
		`customresourcedefinitions.apiextensions.k8s.io "widgets.example.com"`+unconditional)
	a.want(a.do("PATCH", path+"/a", `{}`, "Content-Type: application/strategic-merge-patch+json"), 415, "accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml")
	table := decode[metav1.Table](t, a.do("GET", path, "", "Accept: application/json;as=Table;g=meta.k8s.io;v=v1"))
	if len(table.ColumnDefinitions) != 5 || table.ColumnDefinitions[3].Priority != 1 {
		t.Errorf("the columns are %+v, want 5, the fourth with priority 1", table.ColumnDefinitions)
	}
	if cells := fmt.Sprint(table.Rows[0].Cells[:4]); cells != "[a 5 True red]" {
		t.Errorf("the cells are %s", cells)
	}
}

// TestUnsetReplicas: the scale of an object without replicas cannot be read, but it can be set.
func TestUnsetReplicas(t *testing.T) {
	a := start(t, nil)
	a.install(widgets(strings.Replace(widgetSchema, `"integer","default":1`, `"integer"`, 1), widgetMore))
	a.want(a.do("POST", path, widget("a", `{"size":3}`)), 201, "")
	merge := "Content-Type: application/merge-patch+json"
	a.want(a.do("GET", path+"/a/scale", ""), 500, `the spec replicas field ".spec.replicas" does not exist`)
	a.want(a.do("PATCH", path+"/a/scale", `{"status":{"replicas":1}}`, merge), 400, `the spec replicas field ".spec.replicas" cannot be empty`)
	a.want(a.do("PUT", path+"/a/scale", `{"metadata":{"name":"a"},"spec":{"replicas":-1}}`), 422,
		`Widget.example.com "a" is invalid: .spec.replicas: Invalid value: -1: should be a non-negative integer`)
	a.want(a.do("PUT", path+"/a/scale", `{"metadata":{"name":"a"},"spec":{"replicas":2}}`), 200, `"replicas":2`)
	a.want(a.do("GET", path+"/a/scale", ""), 200, `"replicas":2`)
}

// TestScaleKeepsOwners: a request for the scale keeps the entries of owners in all versions of the definition, also
// of those that are not served.
func TestScaleKeepsOwners(t *testing.T) {
	a := start(t, nil)
	version := func(name, field string, served, stored bool) string {
		return fmt.Sprintf(`{"name":%q,"served":%t,"storage":%t,"subresources":{"scale":{"specReplicasPath":".spec.%s","statusReplicasPath":".status.n"}},
			"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","x-kubernetes-preserve-unknown-fields":true,
			"properties":{"one":{"type":"integer"},"two":{"type":"integer"}}}}}}}`, name, served, stored, field)
	}
	definition := func(oldServed bool, rv string) string {
		return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"` + rv + `},"spec":{"group":"example.com",
			"scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},"versions":[` + version("v1", "one", true, false) + "," + version("v2", "two", oldServed, true) + `]}}`
	}
	a.install(definition(true, ""))
	v2 := strings.Replace(path, "v1", "v2", 1)
	a.want(a.do("POST", v2+"?fieldManager=old", strings.Replace(widget("a", `{"one":1,"two":2,"x":"y"}`), "/v1", "/v2", 1)), 201, "")
	d := decode[apiextensions.CustomResourceDefinition](t, a.do("GET", definitions+"/widgets.example.com", ""))
	a.want(a.do("PUT", definitions+"/widgets.example.com", definition(false, `,"resourceVersion":"`+d.ResourceVersion+`"`)), 200, "")
	a.untilCode(v2, 404)
	a.want(a.do("PATCH", path+"/a/scale?fieldManager=new", `{"spec":{"replicas":3}}`, "Content-Type: application/merge-patch+json"), 200, `"replicas":3`)
	got := decode[struct{ Metadata metav1.ObjectMeta }](t, a.want(a.do("GET", path+"/a", ""), 200, `"one":3`))
	var all []string
	for _, e := range got.Metadata.ManagedFields {
		all = append(all, strings.TrimSpace(e.Manager+" "+e.APIVersion+" "+e.Subresource)+" "+e.FieldsV1.GetRawString())
	}
	want := []string{`new example.com/v1 scale {"f:spec":{"f:one":{}}}`, `old example.com/v2 {"f:spec":{".":{},"f:one":{},"f:x":{}}}`}
	if !slices.Equal(all, want) {
		t.Errorf("owned by %q", all)
	}
}

func TestApply(t *testing.T) {
	a := start(t, nil)
	a.install(widgets(widgetSchema, widgetMore))
	apply := "Content-Type: application/apply-patch+yaml"
	a.want(a.do("PATCH", path+"/a?fieldManager=x", widget("a", `{"size":3,"ports":[{"name":"a","port":1}]}`), apply), 201, `"color":"red"`)
	a.want(a.do("PATCH", path+"/a?fieldManager=y", widget("a", `{"ports":[{"name":"b","port":2}]}`), apply), 200, `[{"name":"a","port":1},{"name":"b","port":2}]`)
	a.want(a.do("PATCH", path+"/a?fieldManager=y", widget("a", `{"size":4}`), apply), 409, `conflict with "x": .spec.size`)
	a.want(a.do("PATCH", path+"/a?fieldManager=y&force=true", widget("a", `{"size":4}`), apply), 200, `"size":4`)
	a.want(a.do("PATCH", path+"/a?fieldManager=y", widget("a", `{"nonsense":4}`), apply), 400, `field not declared in schema`)
}

// TestDelete: the objects go first, also those in other namespaces, and no client creates more.
func TestDelete(t *testing.T) {
	a := start(t, nil)
	a.install(widgets(widgetSchema, ""))
	for i := range 5 {
		a.want(a.do("POST", fmt.Sprintf("/apis/example.com/v1/namespaces/n%d/widgets", i%2), widget(fmt.Sprint("w", i), `{"size":1}`)), 201, "")
	}
	a.want(a.do("POST", path, strings.Replace(widget("kept", `{"size":1}`), `"name"`, `"finalizers":["example.com/keep"],"name"`, 1)), 201, "")
	a.want(a.do("DELETE", definitions+"/widgets.example.com", ""), 200, "customresourcecleanup.apiextensions.k8s.io")
	a.await("widgets.example.com", "terminating, with its objects not created any more", func(d *apiextensions.CustomResourceDefinition) bool {
		return condition(d, "Terminating").Reason == "InstanceDeletionInProgress" && a.do("POST", path, widget("late", `{"size":1}`)).code == 405
	})
	a.want(a.do("POST", path, widget("late", `{"size":1}`)), 405, "create not allowed while custom resource definition is terminating")
	a.want(a.do("PATCH", path+"/kept", `{"metadata":{"finalizers":null}}`, "Content-Type: application/merge-patch+json"), 200, "")
	a.await("widgets.example.com", "deleted", func(d *apiextensions.CustomResourceDefinition) bool { return d == nil })
	a.untilCode(path, 404)
	a.install(widgets(widgetSchema, ""))
	if list := a.do("GET", "/apis/example.com/v1/widgets", ""); !strings.Contains(list.body, `"items":[]`) {
		t.Errorf("objects have outlived their definition: %s", list.body)
	}
}

func TestNames(t *testing.T) {
	a := start(t, nil)
	a.install(widgets(widgetSchema, ""))
	other := define("gadgets", "Widget", widgetSchema, "")
	a.want(a.do("POST", definitions, other), 201, "")
	a.await("gadgets.example.com", "refused because of its ListKind", func(d *apiextensions.CustomResourceDefinition) bool {
		c := condition(d, "NamesAccepted")
		return c.Status == "False" && c.Reason == "ListKindConflict" && c.Message == `"WidgetList" is already in use`
	})
	a.want(a.do("GET", "/apis/example.com/v1/gadgets", ""), 404, "")
	a.want(a.do("DELETE", definitions+"/widgets.example.com", ""), 200, "")
	a.await("gadgets.example.com", "established", func(d *apiextensions.CustomResourceDefinition) bool {
		return condition(d, "Established").Status == "True"
	})
	a.want(a.do("GET", "/apis/example.com/v1/gadgets", ""), 200, "WidgetList")
}

// withStore makes another server use the store of a.
func withStore(a *api) apiservertest.Option {
	return apiservertest.WithConfig(func(c *apiserver.Config) { c.Store = a.store })
}

// TestRestart: what was established is served as soon as another server is ready.
func TestRestart(t *testing.T) {
	a := start(t, nil)
	a.install(widgets(widgetSchema, widgetMore))
	a.want(a.do("POST", path, widget("a", `{"size":3}`)), 201, "")
	b := start(t, nil, withStore(a))
	b.want(b.do("GET", path+"/a", ""), 200, `"size":3`)
}
