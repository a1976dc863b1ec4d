package apiserver_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/memstore"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestNestingInPatches: no patch is read deeper than a document.
func TestNestingInPatches(t *testing.T) {
	a := start(t)
	a.create(configPath, configMap("web", ""))
	deep := strings.Repeat(`{"a":`, 10_001) + "1" + strings.Repeat("}", 10_001)
	for _, c := range []struct{ name, body, header string }{
		{"merge", `{"data":` + deep + `}`, mergePatch},
		{"strategic", `{"data":` + deep + `}`, strategicPatch},
		{"JSON", `[{"op":"add","path":"/data","value":` + deep + `}]`, jsonPatch},
		{"test", `[{"op":"test","path":"/data","value":` + deep + `}]`, jsonPatch},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &api{t, a.client, a.base}
			bounded(t, time.Second, func() { a.want(a.do("PATCH", configPath+"/web", c.body, c.header), 400, "") })
		})
	}
}

// TestCompressedBodies: a body that says it is compressed is not expanded.
func TestCompressedBodies(t *testing.T) {
	a := start(t)
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write([]byte(configMap("web", `,"data":{"k":"`+strings.Repeat("x", 64<<20)+`"}`))); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{"POST", "PUT", "PATCH"} {
		path, media := configPath, "Content-Type: application/json"
		if method != "POST" {
			path += "/web"
		}
		if method == "PATCH" {
			media = mergePatch
		}
		a.want(a.do(method, path, packed.String(), media, "Content-Encoding: gzip"), 400, "")
	}
}

// TestForgedContinue: a token leads nowhere but into the list that is asked for.
func TestForgedContinue(t *testing.T) {
	a := start(t)
	for _, name := range []string{"a", "b"} {
		a.create(configPath, configMap(name, ""))
		a.create("/api/v1/namespaces/other/configmaps", configMap(name, ""))
	}
	good := into[corev1.ConfigMapList](t, a.want(a.do("GET", configPath+"?limit=1", ""), 200, "")).Continue
	a.want(a.do("GET", configPath+"?limit=1&continue="+good, ""), 200, `"name":"b"`)
	forge := func(version string, revision int64, after string) string {
		return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"v":%q,"rv":%d,"after":%q}`, version, revision, after))
	}
	const here = "/registry/core/configmaps/default/"
	for name, token := range map[string]string{
		"of another version":   forge("planekit/v2", 1, here+"a"),
		"of Kubernetes":        forge("meta.k8s.io/v1", 1, here+"a"),
		"other namespace":      forge("planekit/v1", 1, "/registry/core/configmaps/other/a"),
		"other resource":       forge("planekit/v1", 1, "/registry/core/pods/default/a"),
		"no resource":          forge("planekit/v1", 1, "/etc/passwd"),
		"out of the namespace": forge("planekit/v1", 1, here+"../other/a"),
		"an empty segment":     forge("planekit/v1", 1, here+"/a"),
		"no revision":          forge("planekit/v1", 0, here+"a"),
		"before all revisions": forge("planekit/v1", -7, here+"a"),
		"after all revisions":  forge("planekit/v1", 1<<60, here+"a"),
		"cut short":            good[:len(good)-3],
		"with an end":          good + "AAAA",
	} {
		t.Run(name, func(t *testing.T) {
			a := &api{t, a.client, a.base}
			a.want(a.do("GET", configPath+"?limit=1&continue="+token, ""), 400, "continue")
			a.want(a.do("DELETE", configPath+"?limit=1&continue="+token, ""), 400, "continue")
		})
	}
	a.want(a.do("GET", podPath+"?limit=1&continue="+good, ""), 400, "continue")
	a.want(a.do("GET", "/api/v1/namespaces/other/configmaps?limit=1&continue="+good, ""), 400, "continue")
}

// TestManyTerms: selectors of 100,000 terms are answered soon, whatever asks.
func TestManyTerms(t *testing.T) {
	a := start(t)
	for i := range 20 {
		a.create(configPath, strings.Replace(configMap(fmt.Sprintf("web-%d", i), ""), `"name"`, `"labels":{"a":"v1"},"name"`, 1))
	}
	var in, is strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&in, "v%d,", i)
		fmt.Fprintf(&is, "a!=x%d,", i)
	}
	for name, query := range map[string]string{
		"in":          "labelSelector=a+in+(" + strings.TrimSuffix(in.String(), ",") + ")",
		"not in":      "labelSelector=a+notin+(" + strings.TrimSuffix(in.String(), ",") + ")",
		"unequal":     "labelSelector=" + strings.TrimSuffix(is.String(), ","),
		"not a field": "fieldSelector=" + strings.TrimSuffix(strings.Repeat("metadata.name!=x,", 100_000), ","),
	} {
		for _, ask := range []string{"GET ?", "DELETE ?dryRun=All&"} {
			method, start, _ := strings.Cut(ask, " ")
			t.Run(method+" "+name, func(t *testing.T) {
				a := &api{t, a.client, a.base}
				bounded(t, 3*time.Second, func() {
					if got := a.do(method, configPath+start+query, ""); got.code != 200 {
						t.Errorf("%s with 100000 terms = %d %.200s, want 200", method, got.code, got.body)
					}
				})
			})
		}
	}
}

// TestInvalidTextInQueries: what a query says is stored as text, or not at all.
func TestInvalidTextInQueries(t *testing.T) {
	a := start(t)
	a.create(configPath, configMap("web", ""))
	for _, path := range []string{"?fieldManager=%ff", "?fieldManager=a%ffb"} {
		if got := a.do("POST", configPath+path, configMap("a", "")); got.code != 400 && got.code != 422 {
			t.Errorf("POST with %s = %d %s, want 400 or 422", path, got.code, got.body)
		}
	}
	a.want(a.do("PATCH", configPath+"/web", `{"data":{"a":"b"}}`, mergePatch, "User-Agent: \xff\xfe"), 200, "")
	if got := a.do("GET", configPath+"/web", ""); strings.ContainsRune(got.body, '\ufffd') {
		t.Errorf("GET of the patched object = %q, want no U+FFFD", got.body)
	}
	a.want(a.do("GET", configPath+"?fieldSelector=metadata.name%3D%ff", ""), 200, `"items":[]`)
	a.want(a.do("GET", configPath+"?labelSelector=%ff", ""), 400, "")
}

// TestYAMLOfAnyText: every string has a form in YAML, and comes back by it.
func TestYAMLOfAnyText(t *testing.T) {
	a := start(t)
	const odd = `\u007f\u0080\u0085\u009f\ufeff\ufffe\uffff\u2028\ud83d\ude00\u0001\"\\`
	created := into[corev1.ConfigMap](t, a.create(configPath, configMap("web", `,"data":{"k":"`+odd+`"}`)))
	got := a.want(a.do("GET", configPath+"/web", "", "Accept: application/yaml"), 200, "")
	a.want(a.do("DELETE", configPath+"/web", ""), 200, "")
	body := regexp.MustCompile(`(?m)^  resourceVersion:.*\n`).ReplaceAllString(got.body, "")
	again := into[corev1.ConfigMap](t, a.want(a.do("POST", configPath, body, yamlBody), 201, ""))
	if created.Data["k"] == "" || again.Data["k"] != created.Data["k"] {
		t.Errorf("%q becomes %q", created.Data["k"], again.Data["k"])
	}
	// Refusals repeat what they were asked.
	a.want(a.do("GET", configPath+"?fieldSelector=%7f%ff%3Dx", "", "Accept: application/yaml"), 400, "")
}

// TestPreconditionsOfCollections: none is deleted but those meant.
func TestPreconditionsOfCollections(t *testing.T) {
	a := start(t)
	a.create(configPath, configMap("a", ""))
	b := into[corev1.ConfigMap](t, a.create(configPath, configMap("b", "")))
	a.want(a.do("DELETE", configPath, `{"preconditions":{"uid":"other"}}`), 409, "UID in the precondition")
	a.want(a.do("DELETE", configPath, `{"preconditions":{"resourceVersion":"`+b.ResourceVersion+`"}}`), 409, "ResourceVersion in the precondition")
	a.want(a.do("GET", configPath+"/b", ""), 200, "")
	a.want(a.do("DELETE", configPath+"?fieldSelector=metadata.name%3Db", `{"preconditions":{"uid":"`+string(b.UID)+`"}}`), 200, "")
	a.want(a.do("GET", configPath+"/b", ""), 404, "")
	a.want(a.do("GET", configPath+"/a", ""), 200, "")
}

// TestPanicsOfResources: what panics in a resource's own functions costs the
// request, or the object, and nothing else, wherever they are called.
func TestPanicsOfResources(t *testing.T) {
	for _, c := range []struct {
		name     string
		load     func(r *apiserver.Resource, explode func(runtime.Object))
		one, all int
	}{
		{"defaults", func(r *apiserver.Resource, explode func(runtime.Object)) { r.Strategy.Default = explode }, 500, 200},
		{"decoration", func(r *apiserver.Resource, explode func(runtime.Object)) { r.Decorate = explode }, 500, 200},
		{"fields", func(r *apiserver.Resource, explode func(runtime.Object)) {
			r.Fields["data.k"] = func(obj runtime.Object) string { explode(obj); return "" }
		}, 200, 500},
		{"columns", func(r *apiserver.Resource, explode func(runtime.Object)) {
			r.Columns = []apiserver.Column{{Name: "K", Type: "string", Value: func(obj runtime.Object) any { explode(obj); return "" }}}
		}, 500, 500},
	} {
		t.Run(c.name, func(t *testing.T) {
			var armed atomic.Bool
			r := configMaps()
			r.Fields = map[string]func(runtime.Object) string{"data.k": func(runtime.Object) string { return "" }}
			c.load(&r, func(obj runtime.Object) {
				if armed.Load() && obj.(*corev1.ConfigMap).Name == "boom" {
					panic("boom")
				}
			})
			store := memstore.New()
			a := start(t, apiservertest.WithConfig(func(c *apiserver.Config) { c.Store, c.Resources = store, []apiserver.Resource{r} }))
			a.create(configPath, configMap("calm", ""))
			a.create(configPath, configMap("boom", ""))
			record, err := store.Get(t.Context(), "/registry/core/configmaps/default/boom", 0)
			if err != nil {
				t.Fatal(err)
			}
			armed.Store(true)
			// Another server's write reaches the cache by the watch.
			if _, err := store.Commit(t.Context(), storage.Change{Op: storage.Update, Key: record.Key, Value: record.Value, Previous: record.Revision}); err != nil {
				t.Fatal(err)
			}
			const table = "Accept: application/json;as=Table;v=v1;g=meta.k8s.io, application/json"
			if got := a.do("GET", configPath+"/boom", "", table); got.code != c.one {
				t.Errorf("the object: %d %s", got.code, got.body)
			}
			if got := a.do("GET", configPath+"?fieldSelector=data.k!%3Dx", "", table); got.code != c.all {
				t.Errorf("all: %d %s", got.code, got.body)
			}
			a.want(a.do("GET", configPath+"/calm", ""), 200, "")
			a.create(configPath, configMap("calm-2", ""))
		})
	}
}

// TestPanicsGiveTheirPlaceBack: a request that panics no longer counts among
// those in flight, and authenticators, authorizers and admission may panic as well.
func TestPanicsGiveTheirPlaceBack(t *testing.T) {
	var authenticating, authorizing, admitting atomic.Bool
	explode := func(armed *atomic.Bool) {
		if armed.Load() {
			panic("boom")
		}
	}
	s := apiservertest.Start(t, apiservertest.WithResources(resources()...), apiservertest.WithConfig(func(c *apiserver.Config) {
		c.FlowControl = oneSeat(t, 1)
		c.Authenticator = authn.Func(func(*http.Request) (*user.Info, bool, error) {
			explode(&authenticating)
			return &user.Info{Name: "jane"}, true, nil
		})
		c.Authorizer = authz.Func(func(context.Context, authz.Attributes) (authz.Decision, string, error) {
			explode(&authorizing)
			return authz.Allow, "", nil
		})
		c.Admission = admit{mutate: func(context.Context, *admission.Request) error { explode(&admitting); return nil }}
	}))
	a := &api{t, s.Client(), s.URL} // over TLS
	for name, armed := range map[string]*atomic.Bool{"authenticator": &authenticating, "authorizer": &authorizing, "admission": &admitting} {
		armed.Store(true)
		for range 3 {
			if got := a.do("POST", configPath, configMap(name, "")); got.code != 500 || !strings.Contains(got.body, "handler panicked") {
				t.Errorf("POST with a panic in the %s = %d %s, want 500 with %q", name, got.code, got.body, "handler panicked")
			}
		}
		armed.Store(false)
		a.create(configPath, configMap(name, ""))
	}
}
