package apiserver_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/memstore"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/kube-openapi/pkg/spec3"
)

func TestDiscovery(t *testing.T) {
	a := start(t)
	if got := into[metav1.APIVersions](t, a.do("GET", "/api", "")); len(got.Versions) != 1 || got.Versions[0] != "v1" {
		t.Errorf("/api: %+v", got)
	}
	groups := into[metav1.APIGroupList](t, a.do("GET", "/apis", ""))
	if len(groups.Groups) != 1 || groups.Groups[0].PreferredVersion.GroupVersion != "apps/v1" {
		t.Errorf("/apis: %+v", groups)
	}
	if got := into[metav1.APIGroup](t, a.do("GET", "/apis/apps", "")); got.Kind != "APIGroup" || got.Name != "apps" {
		t.Errorf("/apis/apps: %+v", got)
	}
	core := into[metav1.APIResourceList](t, a.do("GET", "/api/v1", ""))
	var names []string
	for _, r := range core.APIResources {
		names = append(names, r.Name+"="+r.Kind)
	}
	if got := strings.Join(names, " "); core.GroupVersion != "v1" || got != "configmaps=ConfigMap namespaces=Namespace namespaces/finalize=Namespace pods=Pod pods/status=Pod pods/binding=Binding" {
		t.Errorf("/api/v1: %s %s", core.GroupVersion, got)
	}
	apps := into[metav1.APIResourceList](t, a.do("GET", "/apis/apps/v1", ""))
	if len(apps.APIResources) < 2 {
		t.Fatalf("GET /apis/apps/v1 = %+v, want two resources", apps)
	}
	if s := apps.APIResources[1]; s.Name != "deployments/scale" || s.Group != "autoscaling" || s.Kind != "Scale" {
		t.Errorf("scale: %+v", s)
	}
	for _, path := range []string{"/apis/none", "/apis/none/v1", "/api/v2", "/nothing", "/openapi/v4", "/openapi/v3/apis/none/v1", "/readyz/none"} {
		a.want(a.do("GET", path, ""), 404, "")
	}
	a.want(a.do("POST", "/api", ""), 405, "")
	a.want(a.do("GET", "/", ""), 200, `"/apis/apps/v1"`)
	if v := into[version.Info](t, a.do("GET", "/version", "")); v.GitVersion != "v1.36.3+planekit" || v.Minor != "36" || v.GoVersion == "" {
		t.Errorf("version %+v", v)
	}
}

func TestAggregatedDiscovery(t *testing.T) {
	a := start(t)
	accept := "Accept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;profile=nopeer,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
	got := a.want(a.do("GET", "/apis", "", accept), 200, "")
	if media := got.header.Get("Content-Type"); media != "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList" {
		t.Errorf("content type %q", media)
	}
	list := into[apidiscovery.APIGroupDiscoveryList](t, got)
	if len(list.Items) == 0 || len(list.Items[0].Versions) == 0 || len(list.Items[0].Versions[0].Resources) == 0 {
		t.Fatalf("GET /apis = %s, want a group with a version and a resource", got.body)
	}
	r := list.Items[0].Versions[0].Resources[0]
	if list.Items[0].Name != "apps" || r.Resource != "deployments" || r.ResponseKind == nil || r.ResponseKind.Kind != "Deployment" || r.Scope != "Namespaced" || r.SingularResource != "deployment" ||
		len(r.Subresources) == 0 || r.Subresources[0].ResponseKind == nil || r.Subresources[0].ResponseKind.Group != "autoscaling" {
		t.Errorf("GET /apis = %v, want apps first with the namespaced deployments of kind Deployment and an autoscaling subresource", list)
	}
	again := a.do("GET", "/apis", "", accept, "If-None-Match: "+got.header.Get("ETag"))
	if again.code != 304 || again.body != "" {
		t.Errorf("with its ETag: %d %s", again.code, again.body)
	}
	core := into[apidiscovery.APIGroupDiscoveryList](t, a.do("GET", "/api", "", accept))
	if len(core.Items) != 1 || core.Items[0].Name != "" || len(core.Items[0].Versions) != 1 || len(core.Items[0].Versions[0].Resources) != 3 {
		t.Errorf("core: %+v", core)
	}
}

func TestOpenAPI(t *testing.T) {
	a := start(t)
	index := into[struct {
		Paths map[string]struct{ ServerRelativeURL string }
	}](t, a.want(a.do("GET", "/openapi/v3", ""), 200, ""))
	url := index.Paths["apis/apps/v1"].ServerRelativeURL
	if len(index.Paths) != 2 || !strings.HasPrefix(url, "/openapi/v3/apis/apps/v1?hash=") {
		t.Fatalf("index: %+v", index)
	}
	doc := into[spec3.OpenAPI](t, a.want(a.do("GET", url, ""), 200, ""))
	patch := doc.Paths.Paths["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"].Patch
	var query []string
	for _, p := range patch.Parameters {
		query = append(query, p.Name)
	}
	if !strings.Contains(strings.Join(query, " "), "fieldValidation") || patch.RequestBody.Content["application/strategic-merge-patch+json"] == nil {
		t.Errorf("patch operation: %v %+v", query, patch.RequestBody)
	}
	schema := doc.Components.Schemas["io.k8s.api.apps.v1.Deployment"]
	if schema == nil || schema.Description == "" || schema.Properties["spec"].Description == "" || schema.Extensions["x-kubernetes-group-version-kind"] == nil {
		t.Fatalf("schema: %+v", schema)
	}
	podSpec := doc.Components.Schemas["io.k8s.api.core.v1.PodSpec"]
	if c := podSpec.Properties["containers"]; c.Extensions["x-kubernetes-patch-merge-key"] != "name" || c.Extensions["x-kubernetes-patch-strategy"] != "merge" {
		t.Errorf("containers: %+v", c.Extensions)
	}
	// What kubectl apply does with it.
	meta := strategicpatch.PatchMetaFromOpenAPIV3{Schema: schema, SchemaList: doc.Components.Schemas}
	was, is := []byte(deployment("d", 1)), []byte(strings.Replace(deployment("d", 1), "nginx", "nginx:2", 1))
	merged, err := strategicpatch.CreateThreeWayMergePatch(was, is, was, meta, true)
	if err != nil || string(merged) != `{"spec":{"template":{"spec":{"$setElementOrder/containers":[{"name":"c"}],"containers":[{"image":"nginx:2","name":"c"}]}}}}` {
		t.Errorf("CreateThreeWayMergePatch = %s, %v, want only nginx:2 for the container c and the order of containers", merged, err)
	}
}

func TestHealth(t *testing.T) {
	broken := false
	store := &failing{Store: memstore.New()}
	a := start(t, apiservertest.WithConfig(func(c *apiserver.Config) {
		c.Store = store
		c.Checks = []apiserver.Check{{Name: "mine", Check: func(context.Context) error {
			if broken {
				return errors.New("secret")
			}
			return nil
		}}}
	}))
	a.want(a.do("GET", "/healthz", ""), 200, "ok")
	a.want(a.do("GET", "/readyz?verbose", ""), 200, "[+]ping ok\n[+]storage ok\n[+]shutdown ok\n[+]mine ok\nreadyz check passed")
	a.want(a.do("GET", "/readyz/storage", ""), 200, "ok")
	broken = true
	got := a.want(a.do("GET", "/readyz", ""), 500, "[-]mine failed: reason withheld")
	if strings.Contains(got.body, "secret") {
		t.Error("the reason leaks")
	}
	a.want(a.do("GET", "/readyz?exclude=mine", ""), 200, "ok")
	store.err = errors.New("no leader")
	a.want(a.do("GET", "/readyz/storage", ""), 500, "[-]storage failed")
	a.want(a.do("GET", "/livez", ""), 200, "ok")
	a.want(a.do("GET", configPath+"/a", ""), 500, "no leader")
}

// failing is a store whose reads fail while err is set.
type failing struct {
	storage.Store
	err error
}

func (f *failing) Get(ctx context.Context, key storage.Key, at storage.Revision) (storage.Record, error) {
	if f.err != nil {
		return storage.Record{}, f.err
	}
	return f.Store.Get(ctx, key, at)
}

func (f *failing) List(ctx context.Context, prefix storage.Key, o storage.ListOptions) (storage.Page, error) {
	if f.err != nil {
		return storage.Page{}, f.err
	}
	return f.Store.List(ctx, prefix, o)
}
