package caches

import (
	"fmt"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/client"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func open(t testing.TB) *client.Client {
	t.Helper()
	api, err := client.New(client.Config{Server: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Close)
	return api
}

func Example() {
	api, err := client.New(client.Config{Server: "http://127.0.0.1:1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer api.Close()
	all, err := New(api, logr.Discard())
	if err != nil {
		fmt.Println(err)
		return
	}
	_, ok := all.Pods.Get("default/web") // no cache has been started
	fmt.Println(ok)
	// Output: false
}

// TestKinds requires that garbage collection and quota have each kind that is served, once, with the
// names under which it is served.
func TestKinds(t *testing.T) {
	widgets := apiserver.Resource{Group: "example.com", Version: "v1", Kind: "Widget", Plural: "widgets", Namespaced: true}
	all, err := New(open(t), logr.Discard(), widgets)
	if err != nil {
		t.Fatal(err)
	}
	rest := slices.Clone(all.Kinds)
	for _, r := range append(kube.Resources(), widgets) {
		gvk := schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
		at := slices.IndexFunc(rest, func(k Kind) bool {
			return k.GroupVersionKind == gvk && k.Plural == r.Plural && k.Namespaced == r.Namespaced
		})
		resource := schema.GroupResource{Group: r.Group, Resource: r.Plural}
		switch {
		case at < 0 && !slices.Contains(uncollected, resource):
			t.Errorf("%s is not collected", resource)
		case at >= 0 && slices.Contains(uncollected, resource):
			t.Errorf("%s is collected", resource)
		case at >= 0:
			rest = slices.Delete(rest, at, at+1)
		}
	}
	for _, k := range rest {
		t.Errorf("%s is collected and not served", k.GroupVersionKind)
	}
}
