package policy_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/planekit/planekit/service/policy"
	"github.com/planekit/planekit/service/ruleset"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The fragments of random policies and pods make a table in which every rule refers only to chains and
// sets that there are, and a change of one pod elsewhere changes elements alone.
func TestFragments(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 6))
		w := policy.World{Node: "node", Policies: random(r), Namespaces: map[string]*corev1.Namespace{}}
		for _, n := range []string{"a", "b"} {
			w.Namespaces[n] = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n, Labels: map[string]string{"team": n}}}
		}
		for i := range 6 {
			w.Pods = append(w.Pods, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: []string{"a", "b"}[i%2], Name: fmt.Sprint("pod", i), Labels: map[string]string{"app": fmt.Sprint("app", i/2)}},
				Spec:       corev1.PodSpec{NodeName: []string{"node", "other"}[i/4]},
				Status:     corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: fmt.Sprint("10.65.1.", i+2)}}},
			})
		}
		model := ruleset.NewModel()
		put := func(w policy.World) *ruleset.Change {
			c := &ruleset.Change{}
			for owner, f := range w.Fragments() {
				if conflicts := model.Put(owner, "", f, c); len(conflicts) > 0 {
					t.Fatalf("seed %d: conflicts %v", seed, conflicts)
				}
			}
			return c
		}
		put(w)
		before := len(model.Table().Chains)
		for place := range model.Table().Elements {
			if _, ok := model.Table().Sets[place.Set]; !ok {
				t.Fatalf("seed %d: an element of %q, which there is not", seed, place.Set)
			}
		}
		if again := put(w); !again.Empty() {
			t.Fatalf("seed %d: the same world changes %d parts", seed, again.Size())
		}
		moved := w.Pods[5].DeepCopy()
		moved.Status.PodIPs = []corev1.PodIP{{IP: "10.65.7.7"}}
		w.Pods[5] = moved
		put(w)
		if len(model.Table().Chains) != before {
			t.Fatalf("seed %d: the change of a pod elsewhere changed chains", seed)
		}
	}
}

func TestConfig(t *testing.T) {
	if _, err := policy.New(policy.Config{Node: "node"}); err == nil {
		t.Error("no error about a configuration without caches")
	}
}

// random returns policies that select pods of the node: another node keeps the rules of its own pods.
func random(r *rand.Rand) []*networkingv1.NetworkPolicy {
	var all []*networkingv1.NetworkPolicy
	for i := range 1 + r.IntN(4) {
		p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: []string{"a", "b"}[r.IntN(2)], Name: fmt.Sprint("p", i)}}
		p.Spec.PodSelector = *randomSelector(r)
		p.Spec.PodSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "remote", Operator: metav1.LabelSelectorOpDoesNotExist}}
		p.Spec.PolicyTypes = [][]networkingv1.PolicyType{nil, {networkingv1.PolicyTypeIngress}, {networkingv1.PolicyTypeEgress},
			{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}}[r.IntN(4)]
		for range r.IntN(3) {
			p.Spec.Ingress = append(p.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{From: randomPeers(r), Ports: randomPorts(r)})
		}
		for range r.IntN(3) {
			p.Spec.Egress = append(p.Spec.Egress, networkingv1.NetworkPolicyEgressRule{To: randomPeers(r), Ports: randomPorts(r)})
		}
		all = append(all, p)
	}
	return all
}

func randomSelector(r *rand.Rand) *metav1.LabelSelector {
	return []*metav1.LabelSelector{{}, {MatchLabels: map[string]string{"app": fmt.Sprint("app", r.IntN(3))}},
		{MatchLabels: map[string]string{"pod": fmt.Sprint("pod", r.IntN(6))}}}[r.IntN(3)]
}

func randomPeers(r *rand.Rand) []networkingv1.NetworkPolicyPeer {
	var all []networkingv1.NetworkPolicyPeer
	for range r.IntN(3) {
		var p networkingv1.NetworkPolicyPeer
		switch r.IntN(5) {
		case 0:
			p.PodSelector = randomSelector(r)
		case 1:
			p.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": []string{"a", "b"}[r.IntN(2)]}}
		case 2:
			p.NamespaceSelector, p.PodSelector = &metav1.LabelSelector{}, randomSelector(r)
		case 3:
			p.IPBlock = &networkingv1.IPBlock{CIDR: []string{"10.65.1.0/24", "10.65.0.0/16", "0.0.0.0/0"}[r.IntN(3)], Except: []string{fmt.Sprintf("10.65.1.%d/32", 2+r.IntN(5))}}
		case 4:
			p.IPBlock = &networkingv1.IPBlock{CIDR: []string{"fd65:1::/64", "::/0"}[r.IntN(2)], Except: []string{"fd65:1::4/127"}}
		}
		all = append(all, p)
	}
	return all
}

// somePorts are ports of all kinds.
func somePorts() []networkingv1.NetworkPolicyPort {
	all := []networkingv1.NetworkPolicyPort{
		{}, {Protocol: new(corev1.ProtocolUDP)}, {Port: new(intstr.FromInt32(8080))}, {Port: new(intstr.FromInt32(8081)), Protocol: new(corev1.ProtocolTCP)},
		{Port: new(intstr.FromString("http"))}, {Port: new(intstr.FromString("nothing"))}, {Port: new(intstr.FromInt32(8000)), EndPort: new(int32(8080))},
	}
	return all
}

// manyPorts are so many that they are a set.
func manyPorts() []networkingv1.NetworkPolicyPort {
	var all []networkingv1.NetworkPolicyPort
	for i := range int32(10) {
		all = append(all, networkingv1.NetworkPolicyPort{Port: new(intstr.FromInt32(8061 + 10*i)), EndPort: new(8063 + 10*i)})
	}
	return append(all, networkingv1.NetworkPolicyPort{Port: new(intstr.FromInt32(65535))})
}

func randomPorts(r *rand.Rand) []networkingv1.NetworkPolicyPort {
	if r.IntN(6) == 0 {
		return manyPorts()
	}
	var all []networkingv1.NetworkPolicyPort
	for range r.IntN(3) {
		some := somePorts()
		all = append(all, some[r.IntN(len(some))])
	}
	return all
}
