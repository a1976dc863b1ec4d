package apiserver_test

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/memstore"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (a *api) names(path string) string {
	a.t.Helper()
	var names []string
	for _, item := range into[corev1.ConfigMapList](a.t, a.want(a.do("GET", path, ""), 200, "")).Items {
		names = append(names, item.Name)
	}
	return strings.Join(names, " ")
}

func labelled(name, label string) string {
	return strings.Replace(configMap(name, ""), `"name"`, `"labels":{"l":"`+label+`"},"name"`, 1)
}

func TestListSelectors(t *testing.T) {
	a := start(t)
	for i, name := range []string{"a", "ab", "b"} {
		a.create(configPath, labelled(name, fmt.Sprint(i)))
	}
	a.create("/api/v1/namespaces/other/configmaps", labelled("a", "0"))
	all := "/api/v1/configmaps"
	for query, want := range map[string]string{
		configPath:                                       "a ab b",
		all:                                              "a ab b a",
		all + "?labelSelector=l=0":                       "a a",
		all + "?labelSelector=l!=0":                      "ab b",
		all + "?labelSelector=l+in(0,2)":                 "a b a",
		all + "?labelSelector=!l":                        "",
		all + "?fieldSelector=metadata.name=a":           "a a",
		configPath + "?fieldSelector=metadata.name=a":    "a",
		all + "?fieldSelector=metadata.namespace=other":  "a",
		all + "?fieldSelector=metadata.namespace!=other": "a ab b",
		all + "?fieldSelector=metadata.name=a,metadata.namespace=default":                      "a",
		configPath + "?fieldSelector=metadata.name=../x":                                       "",
		configPath + "?labelSelector=l" + url.QueryEscape(" notin (0)") + "&limit=500":         "ab b",
		configPath + "?fieldSelector=metadata.name=a&labelSelector=l=1":                        "",
		"/api/v1/namespaces/none/configmaps":                                                   "",
		configPath + "?fieldSelector=metadata.name=a&limit=1":                                  "a",
		configPath + "?labelSelector=" + strings.TrimSuffix(strings.Repeat("!x,", 10000), ","): "a ab b",
	} {
		if got := a.names(query); got != want {
			t.Errorf("%.80s: %q, want %q", query, got, want)
		}
	}
	a.create(podPath, pod("p", ""))
	a.want(a.do("GET", podPath+"?fieldSelector=spec.nodeName=", ""), 200, `"name":"p"`)
	a.want(a.do("GET", podPath+"?fieldSelector=spec.other=x", ""), 400, "field label not supported: spec.other")
	a.want(a.do("GET", podPath+"?fieldSelector=x", ""), 400, "invalid selector: 'x'")
	a.want(a.do("GET", podPath+"?labelSelector=a+b", ""), 400, "unable to parse requirement")
	if empty := a.do("GET", "/apis/apps/v1/deployments", ""); !strings.Contains(empty.body, `"items":[]`) || strings.Contains(empty.body, `"items":null`) {
		t.Errorf("an empty list is %s", empty.body)
	}
}

func TestListPages(t *testing.T) {
	a := start(t)
	var want []string
	for i := range 7 {
		name := fmt.Sprintf("c%d", i)
		a.create(configPath, labelled(name, fmt.Sprint(i%2)))
		want = append(want, name)
	}
	first := into[corev1.ConfigMapList](t, a.want(a.do("GET", configPath+"?limit=3", ""), 200, ""))
	if len(first.Items) != 3 || first.Continue == "" || first.RemainingItemCount == nil || *first.RemainingItemCount != 4 {
		t.Fatalf("first page: %d items, %+v", len(first.Items), first.ListMeta)
	}
	a.create(configPath, configMap("c9", ""))
	a.want(a.do("DELETE", configPath+"/c4", ""), 200, "")
	got, page := first.Items, first
	for page.Continue != "" {
		page = into[corev1.ConfigMapList](t, a.want(a.do("GET", configPath+"?limit=3&continue="+page.Continue, ""), 200, ""))
		if page.ResourceVersion != first.ResourceVersion {
			t.Errorf("page at %s, first at %s", page.ResourceVersion, first.ResourceVersion)
		}
		got = append(got, page.Items...)
	}
	var names []string
	for _, item := range got {
		names = append(names, item.Name)
	}
	if strings.Join(names, " ") != strings.Join(want, " ") {
		t.Errorf("pages: %v, want %v", names, want)
	}
	some := into[corev1.ConfigMapList](t, a.do("GET", configPath+"?limit=2&labelSelector=l=1", ""))
	if len(some.Items) != 2 || some.Continue == "" || some.RemainingItemCount != nil {
		t.Errorf("page of some: %d items, %+v", len(some.Items), some.ListMeta)
	}
	rest := into[corev1.ConfigMapList](t, a.do("GET", configPath+"?limit=2&labelSelector=l=1&continue="+some.Continue, ""))
	if len(rest.Items) != 1 || rest.Items[0].Name != "c5" || rest.Continue != "" {
		t.Errorf("rest of some: %+v", rest)
	}
	a.want(a.do("GET", podPath+"?continue="+first.Continue, ""), 400, "continue key is not valid")
	a.want(a.do("GET", configPath+"?continue=forged", ""), 400, "continue key is not valid")
	a.want(a.do("GET", configPath+"?limit=1&resourceVersion=5&continue="+first.Continue, ""), 400, "not allowed when using continue")
}

func TestListRevisions(t *testing.T) {
	a := start(t)
	first := into[corev1.ConfigMap](t, a.create(configPath, configMap("a", ""))).ResourceVersion
	a.create(configPath, configMap("b", ""))
	for query, want := range map[string]string{
		"":                   "a b",
		"?resourceVersion=0": "a b",
		"?resourceVersion=0&resourceVersionMatch=NotOlderThan":        "a b",
		"?resourceVersionMatch=NotOlderThan&resourceVersion=" + first: "a b",
		"?resourceVersionMatch=Exact&resourceVersion=" + first:        "a",
		"?limit=5&resourceVersion=" + first:                           "a",
	} {
		if got := a.names(configPath + query); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	a.want(a.do("GET", configPath+"?resourceVersion=x", ""), 400, "resourceVersion")
	a.want(a.do("GET", configPath+"?resourceVersion=-1", ""), 400, "resourceVersion")
	a.want(a.do("GET", configPath+"?resourceVersionMatch=Exact", ""), 422, "resourceVersionMatch is forbidden unless resourceVersion is provided")
	a.want(a.do("GET", configPath+"?resourceVersionMatch=Other&resourceVersion=1", ""), 422, `Unsupported value: "Other"`)
	if got := a.names(configPath + "?limit=-1"); got != "a b" {
		t.Errorf("a list with limit=-1 has %q, want %q", got, "a b")
	}
	a.want(a.do("GET", configPath+"?limit=x", ""), 400, "")
	a.want(a.do("GET", configPath+"/a?resourceVersion="+first, ""), 200, "")
	a.want(a.do("GET", configPath+"/a?resourceVersion=x", ""), 400, "")
	a.want(a.do("GET", configPath+"/none", ""), 404, `configmaps "none" not found`)
}

// TestQuietContinueExpires: a token ends with the store's history, also where no object of the kind has changed since.
func TestQuietContinueExpires(t *testing.T) {
	a := start(t, apiservertest.WithConfig(func(c *apiserver.Config) { c.Store = memstore.NewHistory(4) }))
	for _, name := range []string{"a", "b", "c"} {
		a.create(configPath, configMap(name, ""))
	}
	token := into[corev1.ConfigMapList](t, a.do("GET", configPath+"?limit=1", "")).Continue
	a.create(podPath, pod("p", ""))
	a.want(a.do("GET", configPath+"?continue="+token, ""), 200, "")
	for i := range 10 {
		a.create(podPath, pod(fmt.Sprint("q", i), ""))
	}
	a.want(a.do("GET", configPath+"?continue="+token, ""), 410, "continue parameter is too old")
}

func TestCompactedListIsGone(t *testing.T) {
	a := start(t, apiservertest.WithConfig(func(c *apiserver.Config) { c.Store = memstore.NewHistory(2) }))
	for i := range 10 {
		a.create(configPath, configMap(fmt.Sprint("c", i), ""))
	}
	a.want(a.do("GET", configPath+"?resourceVersionMatch=Exact&resourceVersion=1", ""), 410, "too old")
}

// TestExpiredContinue pages through a list whose revision is forgotten: 410, with
// a token for the rest as it is now.
func TestExpiredContinue(t *testing.T) {
	store := memstore.NewHistory(2)
	change := apiservertest.WithConfig(func(c *apiserver.Config) { c.Store = store })
	a := start(t, change)
	for _, name := range []string{"a", "b", "c"} {
		a.create(configPath, configMap(name, ""))
	}
	token := into[corev1.ConfigMapList](t, a.do("GET", configPath+"?limit=1", "")).Continue
	for _, name := range []string{"d", "e", "f", "g", "h"} {
		a.create(configPath, configMap(name, ""))
	}
	a = start(t, change) // another server, whose cache remembers nothing
	got := a.want(a.do("GET", configPath+"?continue="+token, ""), 410, "continue parameter is too old")
	expired := into[metav1.Status](t, got)
	if expired.Reason != metav1.StatusReasonExpired || expired.Continue == "" {
		t.Fatalf("GET with an old continue token = %s, want the reason Expired and a new token", got.body)
	}
	if rest := a.names(configPath + "?limit=3&continue=" + expired.Continue); rest != "b c d" {
		t.Errorf("the rest is %q", rest)
	}
}

func TestBrokenRecordIsNamed(t *testing.T) {
	store := memstore.New()
	a := start(t, apiservertest.WithConfig(func(c *apiserver.Config) { c.Store = store }))
	a.create(configPath, configMap("good", ""))
	key := storage.Key("/registry/core/configmaps/default/bad")
	if _, err := store.Commit(t.Context(), storage.Change{Key: key, Value: []byte("k8s\x00garbage")}); err != nil {
		t.Fatal(err)
	}
	got := a.want(a.do("GET", configPath, ""), 200, `"name":"good"`)
	if w := got.header.Get("Warning"); !strings.Contains(w, string(key)) {
		t.Errorf("warning %q", w)
	}
	a.want(a.do("GET", configPath+"/bad", ""), 500, string(key))
}

// TestTimeoutOfRequest: a client may want less time than a request has.
func TestTimeoutOfRequest(t *testing.T) {
	a := start(t)
	a.create(configPath, configMap("a", ""))
	for query, code := range map[string]int{"timeout=1ns": 504, "timeout=abc": 400, "timeout=0s": 200, "timeout=1h": 200, "timeout=": 200} {
		if got := a.do("GET", configPath+"?"+query, ""); got.code != code {
			t.Errorf("GET with %s = %d %s, want %d", query, got.code, got.body, code)
		}
	}
	a.want(a.do("POST", configPath+"?timeout=abc", configMap("b", "")), 400, `invalid timeout specified in the request URL - time: invalid duration "abc"`)
	a.want(a.do("GET", configPath+"/b", ""), 404, "")
}

// TestEmptyNamespace: a list or a watch with an empty namespace in its path is one of all namespaces, and is authorized
// as such.
func TestEmptyNamespace(t *testing.T) {
	var asked []string
	s := apiservertest.Start(t, apiservertest.WithResources(resources()...),
		apiservertest.WithAuthorizer(authz.Func(func(_ context.Context, r authz.Attributes) (authz.Decision, string, error) {
			if r.User.Name == "jane" {
				asked = append(asked, r.Verb+" "+r.Resource+" in "+r.Namespace)
			}
			return authz.Allow, "", nil
		})))
	a := &api{t, s.As("jane"), "http://memory"}
	a.create(configPath, configMap("a", ""))
	a.create("/api/v1/namespaces/kube-system/configmaps", configMap("b", ""))
	asked = nil
	if got := a.names("/api/v1/namespaces//configmaps"); got != "a b" {
		t.Errorf("the list without a namespace has %q, want %q", got, "a b")
	}
	a.watch("/api/v1/namespaces//configmaps?watch=1").want("ADDED/a", "ADDED/b")
	if want := []string{"list configmaps in ", "watch configmaps in "}; !slices.Equal(asked, want) {
		t.Errorf("authorized were %q, want %q", asked, want)
	}
	for _, method := range []string{"POST", "DELETE", "PUT", "PATCH"} {
		a.want(a.do(method, "/api/v1/namespaces//configmaps", configMap("c", "")), 400, "invalid path")
	}
}
