package discovery_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/discovery"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// served holds the discovery answers of a small server, by path.
var served = map[string]string{
	"/api": `{"kind":"APIVersions","versions":["v1"]}`,
	"/apis": `{"kind":"APIGroupList","groups":[
		{"name":"apps","versions":[{"groupVersion":"apps/v1beta1","version":"v1beta1"},{"groupVersion":"apps/v1","version":"v1"}],"preferredVersion":{"groupVersion":"apps/v1","version":"v1"}},
		{"name":"events.k8s.io","versions":[{"groupVersion":"events.k8s.io/v1","version":"v1"}],"preferredVersion":{"groupVersion":"events.k8s.io/v1","version":"v1"}},
		{"name":"down.io","versions":[{"groupVersion":"down.io/v1","version":"v1"}],"preferredVersion":{"groupVersion":"down.io/v1","version":"v1"}}]}`,
	"/api/v1": `{"resources":[
		{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","verbs":["get","list"],"shortNames":["po"]},
		{"name":"pods/status","namespaced":true,"kind":"Pod","verbs":["get"]},
		{"name":"nodes","singularName":"","namespaced":false,"kind":"Node","verbs":["get","list"],"shortNames":["no"]},
		{"name":"events","singularName":"event","namespaced":true,"kind":"Event","verbs":["list"],"shortNames":["ev"]}]}`,
	"/apis/apps/v1": `{"resources":[
		{"name":"deployments","singularName":"deployment","namespaced":true,"kind":"Deployment","verbs":["get","list"],"shortNames":["deploy","node"]}]}`,
	"/apis/apps/v1beta1": `{"resources":[
		{"name":"deployments","singularName":"deployment","namespaced":true,"kind":"Deployment","verbs":["get","list"],"shortNames":["deploy"]}]}`,
	"/apis/events.k8s.io/v1": `{"resources":[
		{"name":"events","singularName":"event","namespaced":true,"kind":"Event","verbs":["list"],"shortNames":["ev"]}]}`,
}

func serve(answers map[string]string) (*client.Client, func()) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := answers[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, text)
	}))
	c, err := client.New(client.Config{Server: server.URL})
	if err != nil {
		panic(err)
	}
	return c, func() { c.Close(); server.Close() }
}

func Example() {
	c, stop := serve(served)
	defer stop()
	catalog, err := discovery.Fetch(context.Background(), c)
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := catalog.Resolve("deploy")
	fmt.Println(m.GroupKind(), m.Path("shop"), err)
	_, err = catalog.Resolve("unicorn")
	fmt.Println(err)
	// Output:
	// deployment.apps /apis/apps/v1/namespaces/shop/deployments <nil>
	// the server doesn't have a resource type "unicorn"
}

func TestResolve(t *testing.T) {
	c, stop := serve(served)
	defer stop()
	catalog, err := discovery.Fetch(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	if len(catalog.Failed) != 1 || catalog.Failed[schema.GroupVersion{Group: "down.io", Version: "v1"}] == nil {
		t.Errorf("failed: %v", catalog.Failed)
	}
	for word, want := range map[string]string{
		"po": "/api/v1/namespaces/x/pods", "pod": "/api/v1/namespaces/x/pods", "PODS": "/api/v1/namespaces/x/pods", "Pod": "/api/v1/namespaces/x/pods",
		"deployment":               "/apis/apps/v1/namespaces/x/deployments",
		"deployments.apps":         "/apis/apps/v1/namespaces/x/deployments",
		"deploy.apps":              "/apis/apps/v1/namespaces/x/deployments",
		"deployments.v1beta1.apps": "/apis/apps/v1beta1/namespaces/x/deployments",
		"events":                   "/api/v1/namespaces/x/events",
		"ev":                       "/api/v1/namespaces/x/events",
		"events.events.k8s.io":     "/apis/events.k8s.io/v1/namespaces/x/events",
		"node":                     "/api/v1/nodes", // a singular has precedence over another's short name
		"unicorns":                 "", "pods.apps": "", "": "", ".apps": "", "pods/status": "",
	} {
		m, err := catalog.Resolve(word)
		got := ""
		if err == nil {
			got = m.Path("x")
		}
		var unknown *discovery.UnknownError
		if got != want || err != nil && !errors.As(err, &unknown) {
			t.Errorf("Resolve(%q) has the path %q, error %v, want %q, with an UnknownError if that is empty", word, got, err, want)
		}
	}
	if m, _ := catalog.Resolve("pods"); m.Path("") != "/api/v1/pods" || m.GroupKind() != "pod" {
		t.Errorf("Resolve(\"pods\") = %+v, want the path /api/v1/pods and the GroupKind pod", m)
	}
}

// TestForKind: a kind is found in its version only, with its subresources.
func TestForKind(t *testing.T) {
	c, stop := serve(served)
	defer stop()
	catalog, err := discovery.Fetch(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	m, err := catalog.ForKind(schema.GroupVersionKind{Version: "v1", Kind: "Pod"})
	if err != nil || m.Plural != "pods" || !slices.Equal(m.Subresources, []string{"status"}) {
		t.Errorf("ForKind(v1, Pod) = %+v, %v, want the plural pods and the subresource status alone", m, err)
	}
	m, err = catalog.ForKind(schema.GroupVersionKind{Group: "apps", Version: "v1beta1", Kind: "Deployment"})
	if err != nil || m.Path("x") != "/apis/apps/v1beta1/namespaces/x/deployments" || m.Subresources != nil {
		t.Errorf("ForKind(apps/v1beta1, Deployment) = %+v, %v, want the path /apis/apps/v1beta1/namespaces/x/deployments, no subresources",
			m, err)
	}
	for want, kind := range map[string]schema.GroupVersionKind{
		`no matches for kind "Deployment" in version "apps/v2"`: {Group: "apps", Version: "v2", Kind: "Deployment"},
		`no matches for kind "pod" in version "v1"`:             {Version: "v1", Kind: "pod"},
	} {
		var unknown *discovery.UnknownKindError
		if _, err := catalog.ForKind(kind); !errors.As(err, &unknown) || err.Error() != want {
			t.Errorf("ForKind(%v): %v, want the UnknownKindError %s", kind, err, want)
		}
	}
}

func TestFetchFails(t *testing.T) {
	for _, answers := range []map[string]string{nil, {"/api": "{}"}, {"/api": "{}", "/apis": "nonsense"}} {
		c, stop := serve(answers)
		if _, err := discovery.Fetch(context.Background(), c); err == nil {
			t.Errorf("%v: no error", answers)
		}
		stop()
	}
	c, stop := serve(served)
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := discovery.Fetch(ctx, c); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestParseArgs(t *testing.T) {
	for args, want := range map[string][]discovery.Ref{
		"pods":                {{Type: "pods"}},
		"pods,nodes":          {{Type: "pods"}, {Type: "nodes"}},
		"pods a b":            {{"pods", "a"}, {"pods", "b"}},
		"pods,nodes a":        {{"pods", "a"}, {"nodes", "a"}},
		"deploy/nginx pod/a":  {{"deploy", "nginx"}, {"pod", "a"}},
		"deployments.apps/ng": {{"deployments.apps", "ng"}},
		"":                    nil, "pods/a b": nil, "pods a/b": nil, "pods/": nil, "/a": nil, "a/b/c": nil, ",": nil,
	} {
		got, err := discovery.ParseArgs(strings.Fields(args))
		if !reflect.DeepEqual(got, want) || (err != nil) != (want == nil) {
			t.Errorf("ParseArgs(%q) = %v, %v, want %v, an error: %v", args, got, err, want, want == nil)
		}
	}
}

// FuzzParseArgs shows that no arguments produce an empty type, and that both forms are equivalent.
func FuzzParseArgs(f *testing.F) {
	f.Add("pods", "a")
	f.Add("a/b", "c/d")
	f.Fuzz(func(t *testing.T, first, second string) {
		refs, err := discovery.ParseArgs([]string{first, second})
		if err != nil {
			return
		}
		if len(refs) == 0 {
			t.Fatal("neither an error nor a ref")
		}
		for _, r := range refs {
			if r.Type == "" || r.Name == "" || strings.Contains(r.Name, "/") {
				t.Fatalf("ParseArgs(%q, %q) = %+v, want refs that have a type and a name without a slash", first, second, refs)
			}
			again, err := discovery.ParseArgs([]string{r.Type + "/" + r.Name})
			if err != nil || len(again) != 1 || again[0] != r {
				t.Fatalf("%+v became %+v: %v", r, again, err)
			}
		}
	})
}
