package compat

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/openapi3"
	"k8s.io/client-go/restmapper"
)

// TestDiscovery: the server's discovery, and the mapper made from it.
func TestDiscovery(t *testing.T) {
	shows(t, "client-go", "discovery (aggregated and of each group), the RESTMapper over it, OpenAPI v3, server version")
	client, err := discovery.NewDiscoveryClientForConfig(serve(t))
	if err != nil {
		t.Fatal(err)
	}
	if version, err := client.ServerVersion(); err != nil || version.Major != "1" || version.Minor != "36" {
		t.Errorf("version %+v %v", version, err)
	}
	groups, lists, err := client.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(groups, func(g *metav1.APIGroup) bool { return g.Name == "apps" && g.PreferredVersion.GroupVersion == "apps/v1" }) {
		t.Errorf("groups %v", groups)
	}
	subresources := discovery.FilteredBy(discovery.ResourcePredicateFunc(func(_ string, r *metav1.APIResource) bool {
		return r.Name == "deployments/scale" && r.Group == "autoscaling" && r.Kind == "Scale"
	}), lists)
	if len(subresources) != 1 {
		t.Errorf("deployments/scale is not in %v", lists)
	}
	unaggregated, err := client.ServerResourcesForGroupVersion("v1")
	if err != nil || !slices.ContainsFunc(unaggregated.APIResources, func(r metav1.APIResource) bool {
		return r.Name == "pods" && r.Namespaced && slices.Contains(r.ShortNames, "po") && slices.Contains(r.Verbs, "watch")
	}) {
		t.Errorf("core: %+v %v", unaggregated, err)
	}

	mapper := restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client)), client, nil)
	resource, err := mapper.ResourceFor(schema.GroupVersionResource{Resource: "deploy"})
	if want := (schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}); err != nil || resource != want {
		t.Errorf("deploy is %v, %v", resource, err)
	}
	mapping, err := mapper.RESTMapping(schema.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"})
	if err != nil || mapping.Scope.Name() != "root" || mapping.Resource.Resource != "clusterroles" {
		t.Errorf("ClusterRole: %+v %v", mapping, err)
	}

	document, err := openapi3.NewRoot(client.OpenAPIV3()).GVSpec(schema.GroupVersion{Group: "apps", Version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(document.Components.Schemas["io.k8s.api.apps.v1.DeploymentSpec"].Required, func(field string) bool { return field == "template" }) {
		t.Error("the schema of DeploymentSpec does not require a template")
	}
	if document.Paths.Paths["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"] == nil {
		t.Error("no path of deployments")
	}
}

// TestDynamic: objects without Go types, in JSON and CBOR.
func TestDynamic(t *testing.T) {
	shows(t, "client-go", "dynamic client, in JSON and CBOR: create, get, list, watch, apply, patch by a subresource, delete")
	for _, cbor := range []bool{false, true} {
		media := map[bool]string{false: "application/json", true: "application/cbor"}[cbor]
		t.Run(media, func(t *testing.T) {
			featurestesting.SetFeatureDuringTest(t, features.ClientsAllowCBOR, cbor)
			featurestesting.SetFeatureDuringTest(t, features.ClientsPreferCBOR, cbor)
			testDynamic(t, media)
		})
	}
}

func testDynamic(t *testing.T, media string) {
	ctx := bounded(t)
	config := serve(t)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return only{next, t, media} })
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	leases := client.Resource(schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}).Namespace("default")
	made, err := leases.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
		"metadata": map[string]any{"generateName": "held-"},
		"spec":     map[string]any{"holderIdentity": "me", "leaseDurationSeconds": int64(15)},
	}}, metav1.CreateOptions{})
	if err != nil || !strings.HasPrefix(made.GetName(), "held-") || len(made.GetName()) <= len("held-") {
		t.Fatalf("Create of a lease = %v, %v, want a name that begins with held- and goes on", made, err)
	}
	got, err := leases.Get(ctx, made.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if seconds, _, err := unstructured.NestedInt64(got.Object, "spec", "leaseDurationSeconds"); err != nil || seconds != 15 {
		t.Errorf("%d seconds, %v", seconds, err)
	}
	list, err := leases.List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.GetKind() != "LeaseList" || list.Items[0].GetKind() != "Lease" {
		t.Errorf("List of the leases = %+v, %v, want a LeaseList of one Lease", list, err)
	}

	watched, err := leases.Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	defer watched.Stop()
	applied := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": map[string]any{"name": made.GetName()},
		"spec": map[string]any{"leaseTransitions": int64(3)},
	}}
	if _, err := leases.Apply(ctx, made.GetName(), applied, metav1.ApplyOptions{FieldManager: "test"}); err != nil {
		t.Fatal(err)
	}
	event := receive(t, watched.ResultChan())
	if changed, ok := event.Object.(*unstructured.Unstructured); !ok || event.Type != watch.Modified {
		t.Errorf("watched %+v", event)
	} else if n, _, err := unstructured.NestedInt64(changed.Object, "spec", "leaseTransitions"); err != nil || n != 3 {
		t.Errorf("%d transitions, %v", n, err)
	}

	deployments := client.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}).Namespace("default")
	web := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "web"},
		"spec": map[string]any{
			"selector": map[string]any{"matchLabels": map[string]any{"app": "web"}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "web", "image": "nginx"}}},
			},
		},
	}}
	if _, err := deployments.Create(ctx, web, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	scale, err := deployments.Patch(ctx, "web", "application/merge-patch+json", []byte(`{"spec":{"replicas":4}}`), metav1.PatchOptions{}, "scale")
	if err != nil || scale.GetKind() != "Scale" {
		t.Fatalf("Patch of the scale of web = %v, %v, want a Scale", scale, err)
	}
	if err := leases.Delete(ctx, made.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// only fails the test if a response has another media type.
type only struct {
	http.RoundTripper
	t     *testing.T
	media string
}

func (o only) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := o.RoundTripper.RoundTrip(r)
	if err == nil && !strings.HasPrefix(response.Header.Get("Content-Type"), o.media) {
		o.t.Errorf("%s %s is answered in %s", r.Method, r.URL, response.Header.Get("Content-Type"))
	}
	return response, err
}
