package documents_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/apiserver/internal/documents"
	"github.com/planekit/planekit/apiserver/internal/reply"
	"github.com/planekit/planekit/apiserver/internal/wire"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// shop serves pods, with a status and a proxy. Another server has example.com/v1 with lamps.
type shop struct{}

func (shop) OwnGroups() []*documents.Group {
	return []*documents.Group{{Name: "", Versions: []string{"v1"}}}
}

func (s shop) Groups() []*documents.Group {
	return append(s.OwnGroups(), &documents.Group{Name: "example.com", Versions: []string{"v1"}})
}

func (shop) Resources(group, version string) []documents.Resource {
	if group != "" || version != "v1" {
		return nil
	}
	pod := func() runtime.Object { return &corev1.Pod{} }
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	return []documents.Resource{{
		Kind: kind, Plural: "pods", Singular: "pod", Namespaced: true, Verbs: []string{"get", "list"}, ShortNames: []string{"po"},
		New: pod, NewList: func() runtime.Object { return &corev1.PodList{} },
		Subresources: []documents.Subresource{
			{Name: "status", Kind: kind, Verbs: []string{"get"}, New: pod},
			{Name: "proxy", Kind: corev1.SchemeGroupVersion.WithKind("PodProxyOptions"), Verbs: []string{"get"}},
		},
	}}
}

func (shop) Others() map[schema.GroupVersion]documents.Other {
	return map[schema.GroupVersion]documents.Other{{Group: "example.com", Version: "v1"}: {
		Resources:   []metav1.APIResource{{Name: "lamps", Kind: "Lamp", Verbs: []string{"list"}}, {Name: "lamps/status", Kind: "Lamp", Verbs: []string{"get"}}},
		Stale:       true,
		OpenAPIHash: "A&B",
	}}
}

// get asks for path and returns the answer and the error of the documents.
func get(d *documents.Documents, path string, headers ...string) (*httptest.ResponseRecorder, error) {
	r := httptest.NewRequest("GET", path, nil)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	segments := strings.Split(r.URL.Path[1:], "/")
	if segments[0] == "openapi" {
		return w, d.ServeOpenAPI(w, r, segments[1:])
	}
	return w, d.ServeDiscovery(w, r, segments)
}

func newDocuments() *documents.Documents {
	return documents.New(shop{}, &reply.Writer{Codec: wire.NewCodec(), Log: logr.Discard()}, "v1")
}

func Example() {
	w, err := get(newDocuments(), "/api/v1")
	var list metav1.APIResourceList
	if err == nil {
		err = json.Unmarshal(w.Body.Bytes(), &list)
	}
	for _, r := range list.APIResources {
		fmt.Println(r.Name, r.Kind, r.Verbs)
	}
	fmt.Println(err)
	// Output:
	// pods Pod [get list]
	// pods/status Pod [get]
	// pods/proxy PodProxyOptions [get]
	// <nil>
}

// TestAggregated checks the one document for all groups, with a version of another server.
func TestAggregated(t *testing.T) {
	w, err := get(newDocuments(), "/apis", "Accept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
	if err != nil {
		t.Fatal(err)
	}
	var list apidiscovery.APIGroupDiscoveryList
	if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 || list.Items[0].Name != "example.com" || len(list.Items[0].Versions) != 1 {
		t.Fatalf("the aggregated GET of /apis = %s, want example.com alone, with one version", w.Body)
	}
	v := list.Items[0].Versions[0]
	if v.Version != "v1" || v.Freshness != apidiscovery.DiscoveryFreshnessStale || len(v.Resources) != 1 {
		t.Fatalf("the version of example.com = %+v, want v1, stale, with one resource", v)
	}
	lamps := v.Resources[0]
	if lamps.ResponseKind.Group != "example.com" || lamps.ResponseKind.Version != "v1" || len(lamps.Subresources) != 1 {
		t.Errorf("the resource of example.com/v1 = %+v, want a kind of example.com/v1 and one subresource", lamps)
	}
}

// TestOpenAPI checks the index, a document and its hash, and version 2 in both forms.
func TestOpenAPI(t *testing.T) {
	d := newDocuments()
	w, err := get(d, "/openapi/v3")
	if err != nil {
		t.Fatal(err)
	}
	var index struct {
		Paths map[string]struct {
			URL string `json:"serverRelativeURL"`
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &index); err != nil {
		t.Fatal(err)
	}
	if other := index.Paths["apis/example.com/v1"].URL; other != "/openapi/v3/apis/example.com/v1?hash=A%26B" {
		t.Errorf("the other server's document is at %q", other)
	}
	w, err = get(d, index.Paths["api/v1"].URL)
	if err != nil || !strings.Contains(w.Body.String(), "/api/v1/namespaces/{namespace}/pods/{name}/status") {
		t.Errorf("GET of the document of api/v1 = %s, %v, want the path of a pod's status", w.Body, err)
	}
	if !strings.Contains(w.Body.String(), `pods/{name}/proxy":{"get":{`) || !strings.Contains(w.Body.String(), `"operationId":"connectCoreV1GetNamespacedPodProxy"`) {
		t.Errorf("GET of the document = %s, want the subresource proxy, which no type describes", w.Body)
	}
	if cache := w.Header().Get("Cache-Control"); cache != "public, immutable" {
		t.Errorf("a document of a hash has the Cache-Control %q", cache)
	}
	if w, err = get(d, "/openapi/v3/api/v1", "If-None-Match: "+w.Header().Get("ETag")); err != nil || w.Code != 304 || w.Body.Len() > 0 {
		t.Errorf("a client that has the document gets %d and %d bytes: %v", w.Code, w.Body.Len(), err)
	}
	const proto = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
	for _, accept := range []string{"application/json", proto} {
		if w, err = get(d, "/openapi/v2", "Accept: "+accept); err != nil || w.Body.Len() == 0 || (accept == proto) == json.Valid(w.Body.Bytes()) {
			t.Errorf("%s: %d bytes: %v", accept, w.Body.Len(), err)
		}
	}
}

// TestNotServed checks that paths without a document are NotFound, and that nothing is written.
func TestNotServed(t *testing.T) {
	d := newDocuments()
	for _, path := range []string{
		"/api/v2", "/api/v1/pods", "/apis/other.com", "/apis/other.com/v1", "/apis/example.com/v1/lamps/a",
		"/openapi", "/openapi/v1", "/openapi/v3/api/v2", "/openapi/v3/apis/example.com/v1", "/openapi/v2/more",
	} {
		if w, err := get(d, path); !apierrors.IsNotFound(err) || w.Body.Len() > 0 {
			t.Errorf("get(%q) = %s, %v, want no body and a NotFound error", path, w.Body, err)
		}
	}
	for path, want := range map[string]string{"/api": "v1", "/apis": "example.com", "/apis/example.com": "example.com/v1"} {
		if w, err := get(d, path); err != nil || !strings.Contains(w.Body.String(), want) || !slices.Contains([]string{"", "Accept"}, w.Header().Get("Vary")) {
			t.Errorf("get(%q) = %s with Vary %q, %v, want %q in it and Vary empty or Accept", path, w.Body, w.Header().Get("Vary"), err, want)
		}
	}
}
