package policy_test

import (
	"fmt"
	"net/netip"

	"github.com/planekit/planekit/service/policy"
	"github.com/planekit/planekit/service/ruleset"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Only clients may reach the web server, and only at its port.
func Example() {
	only := &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{
				From:  []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "client"}}}},
				Ports: []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromInt32(80))}},
			}},
		},
	}
	pod := func(app, ip string) policy.Peer {
		return policy.Peer{Addr: netip.MustParseAddr(ip), Namespace: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}},
			Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: app, Labels: map[string]string{"app": app}}}}
	}
	web, client, other := pod("web", "10.244.1.2"), pod("client", "10.244.1.3"), pod("other", "10.244.1.4")
	all := []*networkingv1.NetworkPolicy{only}
	fmt.Println(policy.Allowed(all, client, web, ruleset.TCP, 80))
	fmt.Println(policy.Allowed(all, client, web, ruleset.TCP, 81))
	fmt.Println(policy.Allowed(all, other, web, ruleset.TCP, 80))
	fmt.Println(policy.Allowed(all, web, other, ruleset.TCP, 80))
	// Output:
	// true
	// false
	// false
	// true
}
