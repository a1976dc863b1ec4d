package policy

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/planekit/planekit/internal/used"
	"github.com/planekit/planekit/service/ruleset"
)

func selectorOf(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

func onPort(n int) []networkingv1.NetworkPolicyPort {
	return []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromInt32(int32(n)))}}
}

// costly returns a cluster of 5,000 pods and two namespaces. The policy of "greedy" has the given rules, that of "modest" lets one pod in.
func costly(rules []networkingv1.NetworkPolicyIngressRule) World {
	w := World{Node: "node", Namespaces: map[string]*corev1.Namespace{}}
	for _, n := range []string{"greedy", "modest"} {
		w.Namespaces[n] = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n}}
		pod := localPod(n, map[string]string{"greedy": "10.0.0.1", "modest": "10.0.0.2"}[n])
		pod.Namespace = n
		w.Pods = append(w.Pods, pod)
		p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: n, Name: "p"}}
		p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{PodSelector: selectorOf("app", "friend")}}, Ports: onPort(80)}}
		if n == "greedy" {
			p.Spec.Ingress = rules
		}
		w.Policies = append(w.Policies, p)
	}
	for i := range 5000 {
		pod := localPod(fmt.Sprint("pod", i), netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}).String())
		pod.Namespace, pod.Spec.NodeName, pod.Labels = "modest", "other", map[string]string{"app": map[bool]string{true: "friend"}[i == 7]}
		w.Pods = append(w.Pods, pod)
	}
	return w
}

// TestNamespacePays: policies with thousands of peers and rules cost a bounded number of comparisons and rules; what is over it
// allows nothing and is reported, and policies of other namespaces hold as they are.
func TestNamespacePays(t *testing.T) {
	var peers, both []networkingv1.NetworkPolicyIngressRule
	var names []networkingv1.NetworkPolicyEgressRule
	one := networkingv1.NetworkPolicyIngressRule{}
	for i := range 5000 {
		peer := networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{}, PodSelector: selectorOf("app", fmt.Sprint("app", i))}
		one.From = append(one.From, peer)
		both = append(both, networkingv1.NetworkPolicyIngressRule{From: []networkingv1.NetworkPolicyPeer{peer}, Ports: onPort(1 + i)})
		names = append(names, networkingv1.NetworkPolicyEgressRule{Ports: []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromString(fmt.Sprint("port", i)))}}})
	}
	peers = append(peers, one)
	for what, w := range map[string]World{"peers": costly(peers), "peers with ports": costly(both), "names of ports": func() World {
		w := costly(nil)
		w.Policies[0].Spec.Egress = names
		return w
	}()} {
		x := newIndex(w, ruleset.IPv4)
		x.fragments()
		rules := 0
		for owner, f := range x.all {
			if strings.HasPrefix(owner, "policy greedy/") {
				for _, c := range f.Chains {
					rules += len(c.Rules)
				}
			}
		}
		// Each rule is one for either direction of packets.
		if rules > 2*maxRules {
			t.Errorf("%s: %d rules, want at most %d", what, rules, 2*maxRules)
		}
		if most := 2*maxRules + 100; len(x.all["policy greedy/p"].Sets) > most {
			t.Errorf("%s: %d sets, want at most %d", what, len(x.all["policy greedy/p"].Sets), most)
		}
		if x.over["greedy/p"] == "" || x.over["modest/p"] != "" {
			t.Errorf("%s: reported as over their bounds: %v, want greedy/p alone", what, x.over)
		}
		friend := x.named("ingress/modest/p/0")
		if _, ok := x.all["policy modest/p"].Elements[ruleset.Place{Set: friend, Key: ruleset.KeyOf(netip.MustParseAddr("10.1.0.7"))}]; !ok {
			t.Errorf("%s: the policy of the other namespace does not let its friend in", what)
		}
	}
}

// TestMergedRules: merged rules allow what the rules allow, for random rules, and many with equal peers or ports are one.
func TestMergedRules(t *testing.T) {
	pods := []Peer{}
	for i := range 4 {
		pod := localPod(fmt.Sprint("pod", i), fmt.Sprintf("10.0.0.%d", i+1))
		pod.Labels = map[string]string{"app": fmt.Sprint(i)}
		pods = append(pods, Peer{Addr: netip.MustParseAddr(pod.Status.PodIPs[0].IP), Pod: pod})
	}
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 11))
		p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}}
		for range r.IntN(6) {
			var rule networkingv1.NetworkPolicyIngressRule
			for range r.IntN(3) {
				rule.From = append(rule.From, networkingv1.NetworkPolicyPeer{PodSelector: selectorOf("app", fmt.Sprint(r.IntN(4)))})
			}
			for range r.IntN(3) {
				rule.Ports = append(rule.Ports, onPort(80+r.IntN(3))...)
			}
			p.Spec.Ingress = append(p.Spec.Ingress, rule)
		}
		merged := p.DeepCopy()
		merged.Spec.Ingress = mergeRules(merged.Spec.Ingress)
		if len(merged.Spec.Ingress) > len(p.Spec.Ingress) {
			t.Fatalf("seed %d: %d rules of %d", seed, len(merged.Spec.Ingress), len(p.Spec.Ingress))
		}
		for _, from := range pods {
			for port := range uint16(4) {
				want := Allowed([]*networkingv1.NetworkPolicy{p}, from, pods[0], ruleset.TCP, 80+port)
				if got := Allowed([]*networkingv1.NetworkPolicy{merged}, from, pods[0], ruleset.TCP, 80+port); got != want {
					t.Fatalf("seed %d: from %v to port %d: merged rules allow %v, want %v\n%v\n%v", seed, from.Addr, 80+port, got, want, p.Spec.Ingress, merged.Spec.Ingress)
				}
			}
		}
	}
	var many []networkingv1.NetworkPolicyIngressRule
	for i := range 10_000 {
		many = append(many, networkingv1.NetworkPolicyIngressRule{From: []networkingv1.NetworkPolicyPeer{{PodSelector: selectorOf("app", "a")}}, Ports: onPort(1 + i)})
	}
	if got := mergeRules(many); len(got) != 1 || len(got[0].Ports) != len(many) {
		t.Errorf("%d rules with the peers of one are %d rules", len(many), len(got))
	}
}

// TestCostOfLongSelectors: a policy with a selector of 20,000 requirements costs little each time that rules are made.
func TestCostOfLongSelectors(t *testing.T) {
	w := costly(nil)
	long := &metav1.LabelSelector{}
	for i := range 20_000 {
		long.MatchExpressions = append(long.MatchExpressions, metav1.LabelSelectorRequirement{Key: fmt.Sprint("key", i), Operator: metav1.LabelSelectorOpDoesNotExist})
	}
	w.Policies[0].Spec.PodSelector = *long
	w.Policies[0].Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{NamespaceSelector: long, PodSelector: long}}}}
	before := used.Processor()
	for range 20 {
		x := newIndex(w, ruleset.IPv4)
		x.fragments()
		if len(x.policies["greedy"]) != 1 || len(x.over) > 0 {
			t.Fatalf("%d policies select pods, and %v cost too much, want 1 and none", len(x.policies["greedy"]), x.over)
		}
	}
	took := used.Processor() - before
	t.Logf("20 times take %v", took)
	if took > 10*time.Second {
		t.Errorf("fragments() 20 times takes %v, want less than 10s", took)
	}
}
