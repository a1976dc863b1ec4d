package policy

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/planekit/planekit/service/ruleset"
)

// TestBlocks: an address is in the spans of random blocks if it is in one of the blocks, and the spans are in order and
// apart from each other.
func TestBlocks(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 7))
		v6 := r.IntN(2) == 0
		// Small ranges at the ends of all addresses, where there is nothing before or after.
		address := func() netip.Addr {
			a := make([]byte, 4)
			if v6 {
				a = make([]byte, 16)
			}
			if r.IntN(2) == 0 {
				for i := range a {
					a[i] = 0xff
				}
			}
			a[len(a)-1] = byte(r.IntN(256))
			found, _ := netip.AddrFromSlice(a)
			return found
		}
		prefix := func() string {
			a := address()
			return netip.PrefixFrom(a, a.BitLen()-r.IntN(9)).String()
		}
		var peers []networkingv1.NetworkPolicyPeer
		for range r.IntN(6) {
			b := &networkingv1.IPBlock{CIDR: prefix()}
			for range r.IntN(4) {
				b.Except = append(b.Except, prefix())
			}
			peers = append(peers, networkingv1.NetworkPolicyPeer{IPBlock: b})
		}
		f := ruleset.IPv4
		if v6 {
			f = ruleset.IPv6
		}
		all := blocksOf(peers, f)
		for range 300 {
			a, want := address(), false
			for _, p := range peers {
				want = want || inBlock(p.IPBlock, a)
			}
			if got := all.contain(a); got != want {
				t.Fatalf("seed %d: %v is in %v: %v, want %v", seed, a, peers, got, want)
			}
		}
		for i := 1; i < len(all); i++ {
			if !all[i-1].last.Next().Less(all[i].first) || all[i].last.Less(all[i].first) {
				t.Fatalf("seed %d: spans %v", seed, all)
			}
		}
	}
}

// BenchmarkBlocks computes the rules of 110 pods that a policy with 10,000 blocks selects.
func BenchmarkBlocks(b *testing.B) {
	w := World{Node: "node", Policies: []*networkingv1.NetworkPolicy{manyBlocks(10_000)}}
	for i := range 110 {
		w.Pods = append(w.Pods, localPod(fmt.Sprint("pod", i), fmt.Sprintf("10.244.0.%d", i+1)))
	}
	b.ReportAllocs()
	for b.Loop() {
		w.Fragments()
	}
}

// manyBlocks returns a policy of all pods that lets n blocks of 2 addresses in.
func manyBlocks(n int) *networkingv1.NetworkPolicy {
	p := &networkingv1.NetworkPolicy{}
	p.Namespace, p.Name = "default", "many"
	var rule networkingv1.NetworkPolicyIngressRule
	for i := range n {
		a := binary.BigEndian.AppendUint32(nil, 10<<24|uint32(i)*4)
		rule.From = append(rule.From, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: netip.PrefixFrom(netip.AddrFrom4([4]byte(a)), 31).String()}})
	}
	p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{rule}
	return p
}

func localPod(name, address string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.PodSpec{NodeName: "node"}, Status: corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: address}}},
	}
}
