package proxy_test

import (
	"fmt"

	"github.com/planekit/planekit/service/proxy"
	"github.com/planekit/planekit/service/ruleset"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The rules of one service, as data.
func Example() {
	web := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       corev1.ServiceSpec{ClusterIP: "10.96.0.10", Ports: []corev1.ServicePort{{Port: 80}}},
	}
	slice := &discoveryv1.EndpointSlice{
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new(""), Port: new(int32(8080))}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.244.1.2"}}, {Addresses: []string{"10.244.2.2"}}},
	}
	site := proxy.Site{Node: "node-1", MarkBit: 14}
	model := ruleset.NewModel()
	model.Put("", "", site.Base(), &ruleset.Change{})
	var change ruleset.Change
	model.Put("default/web", "", site.Fragment(web, []*discoveryv1.EndpointSlice{slice}), &change)
	fmt.Println(change.Size(), "parts change")
	fmt.Println(model.Table().Chains["choose4-2"].Rules[0])
	// Output:
	// 4 parts change
	// meta nfproto ipv4 dnat ip to ip daddr . meta l4proto . th dport . numgen random mod 2 map @endpoints4
}
