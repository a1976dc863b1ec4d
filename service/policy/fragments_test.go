package policy_test

import (
	"fmt"
	"testing"

	"github.com/planekit/planekit/service/policy"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BenchmarkFragments computes the rules of a node of 110 pods of a cluster with 10,000 pods in 100 namespaces.
func BenchmarkFragments(b *testing.B) {
	for _, policies := range []int{100, 2000} {
		b.Run(fmt.Sprintf("policies=%d", policies), func(b *testing.B) {
			w := large(policies)
			b.ReportAllocs()
			for b.Loop() {
				w.Fragments()
			}
		})
	}
}

// large returns a cluster of 10,000 pods in 100 namespaces, 110 of them on the node, with policies that let pods of one
// app of the namespace and of a namespace of one team in.
func large(policies int) policy.World {
	w := policy.World{Node: "node", Namespaces: map[string]*corev1.Namespace{}}
	for i := range 100 {
		name := fmt.Sprint("ns", i)
		w.Namespaces[name] = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": name}}}
	}
	for i := range 10_000 {
		node := "other"
		if i < 110 {
			node = "node"
		}
		w.Pods = append(w.Pods, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint("ns", i%100), Name: fmt.Sprint("pod", i), Labels: map[string]string{"app": fmt.Sprint("app", i/100%10)}},
			Spec:       corev1.PodSpec{NodeName: node},
			Status:     corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: fmt.Sprintf("10.244.%d.%d", i/250, i%250+1)}}},
		})
	}
	for i := range policies {
		selector := func(key, value string) *metav1.LabelSelector {
			return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
		}
		w.Policies = append(w.Policies, &networkingv1.NetworkPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint("ns", i%100), Name: fmt.Sprint("policy", i)},
			Spec: networkingv1.NetworkPolicySpec{
				PodSelector: *selector("app", fmt.Sprint("app", i/100%10)),
				PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
				Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{
					{PodSelector: selector("app", fmt.Sprint("app", (i+1)%10))}, {NamespaceSelector: selector("team", fmt.Sprint("ns", (i+1)%100))},
				}}},
			},
		})
	}
	return w
}
