package openapi

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestOperations: names and descriptions are those of Kubernetes, and there is
// no path without operations.
func TestOperations(t *testing.T) {
	kind := Kind{"shop.example.com", "v1", "Order"}
	question := Kind{"shop.example.com", "v1", "Estimate"}
	data, err := BuildV2("Shop", "v1", []Resource{
		{
			Path: "/apis/shop.example.com/v1", Plural: "orders", Namespaced: true, Kind: kind,
			Verbs: []string{"create", "get", "list", "update", "patch", "delete", "deletecollection", "watch"},
			Type:  reflect.TypeFor[corev1.ConfigMap](), List: reflect.TypeFor[corev1.ConfigMapList](), Event: reflect.TypeFor[metav1.WatchEvent](),
			Subs: []Sub{{Name: "status", Verbs: []string{"get"}, Kind: kind, Type: reflect.TypeFor[corev1.ConfigMap]()}},
		},
		{Path: "/apis/shop.example.com/v1", Plural: "estimates", Kind: question, Verbs: []string{"create"}, Type: reflect.TypeFor[corev1.ConfigMap]()},
	}, reflect.TypeFor[metav1.DeleteOptions]())
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(data, []byte(`"default":`)) {
		t.Error("v2 has defaults")
	}
	var got struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	const root, one = "/apis/shop.example.com/v1", "/apis/shop.example.com/v1/namespaces/{namespace}/orders"
	want := map[[2]string][2]string{
		{root + "/orders", "get"}:       {"listShopExampleComV1OrderForAllNamespaces", "list or watch objects of kind Order"},
		{root + "/estimates", "post"}:   {"createShopExampleComV1Estimate", "create an Estimate"},
		{one, "get"}:                    {"listShopExampleComV1NamespacedOrder", "list or watch objects of kind Order"},
		{one, "post"}:                   {"createShopExampleComV1NamespacedOrder", "create an Order"},
		{one, "delete"}:                 {"deleteShopExampleComV1CollectionNamespacedOrder", "delete collection of Order"},
		{one + "/{name}", "get"}:        {"readShopExampleComV1NamespacedOrder", "read the specified Order"},
		{one + "/{name}", "put"}:        {"replaceShopExampleComV1NamespacedOrder", "replace the specified Order"},
		{one + "/{name}", "patch"}:      {"patchShopExampleComV1NamespacedOrder", "partially update the specified Order"},
		{one + "/{name}", "delete"}:     {"deleteShopExampleComV1NamespacedOrder", "delete an Order"},
		{one + "/{name}/status", "get"}: {"readShopExampleComV1NamespacedOrderStatus", "read status of the specified Order"},
		{root + "/watch/orders", "get"}: {"watchShopExampleComV1OrderListForAllNamespaces",
			"watch individual changes to a list of Order. deprecated: use the 'watch' parameter with a list operation instead."},
		{root + "/watch/namespaces/{namespace}/orders", "get"}: {"watchShopExampleComV1NamespacedOrderList",
			"watch individual changes to a list of Order. deprecated: use the 'watch' parameter with a list operation instead."},
		{root + "/watch/namespaces/{namespace}/orders/{name}", "get"}: {"watchShopExampleComV1NamespacedOrder",
			"watch changes to an object of kind Order. deprecated: use the 'watch' parameter with a list operation instead, filtered to a single item with the 'fieldSelector' parameter."},
	}
	for path, item := range got.Paths {
		for method, data := range item {
			if method == "parameters" {
				continue
			}
			var o operationV2
			if err := json.Unmarshal(data, &o); err != nil {
				t.Fatal(err)
			}
			at := [2]string{path, method}
			if said := [2]string{o.OperationID, o.Description}; said != want[at] || len(o.Tags) != 1 || o.Tags[0] != "shopExampleCom_v1" {
				t.Errorf("%v: %v %v, want %v", at, said, o.Tags, want[at])
			}
			delete(want, at)
			for _, p := range o.Parameters {
				if p.In == "body" && p.Required != (method != "delete") {
					t.Errorf("%v: body required: %t", at, p.Required)
				}
			}
		}
	}
	if len(want) > 0 || len(got.Paths) != 8 {
		t.Errorf("not there: %v; %d paths", want, len(got.Paths))
	}
}
