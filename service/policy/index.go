package policy

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/planekit/planekit/internal/selector"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/planekit/planekit/service/ruleset"
)

// index has the world in the order in which rules ask for it, so that each selector is parsed once and looks only at
// the pods that it can select.
type index struct {
	World
	// family is the address family of the rules.
	family ruleset.Family
	pods   map[string][]*corev1.Pod // by namespace
	// local are the pods of the node that have addresses, in no order.
	local []*corev1.Pod
	// policies holds those of each namespace that select a pod of the node, by name.
	policies map[string][]selecting
	// sums are the hashes of the blocks of rules.
	sums map[ruleOf]string
	// holders are the keys of the pods that the node has admitted with an address.
	holders map[netip.Addr]string
	// all are the fragments by their owners.
	all map[string]ruleset.Fragment
	// spent counts what the policies of each namespace cost, and over has the reasons why some allow less than they say.
	spent map[string]*account
	over  map[string]string
	// ports counts the named ports of all pods, and localPorts those of the pods of the node by namespace.
	ports      int
	localPorts map[string]int
}

// ruleOf is a rule of a policy by its index.
type ruleOf struct {
	policy *networkingv1.NetworkPolicy
	kind   networkingv1.PolicyType
	rule   int
}

// selecting is a policy with the parsed selector of its pods.
type selecting struct {
	*networkingv1.NetworkPolicy
	selector   labels.Selector
	directions []direction
}

func newIndex(w World, f ruleset.Family) *index {
	x := &index{World: w, family: f, pods: map[string][]*corev1.Pod{}, policies: map[string][]selecting{}, sums: map[ruleOf]string{}, holders: map[netip.Addr]string{}, all: map[string]ruleset.Fragment{}, spent: map[string]*account{}, over: map[string]string{}, localPorts: map[string]int{}}
	for key, all := range w.Admitted {
		for _, a := range all {
			x.holders[a] = key
		}
	}
	local := map[string][]*corev1.Pod{}
	for _, pod := range w.Pods {
		x.pods[pod.Namespace] = append(x.pods[pod.Namespace], pod)
		x.ports += portsIn(pod)
		if pod.Spec.NodeName == w.Node && len(x.addresses(pod)) > 0 {
			x.local = append(x.local, pod)
			x.localPorts[pod.Namespace] += portsIn(pod)
			local[pod.Namespace] = append(local[pod.Namespace], pod)
		}
	}
	for _, p := range w.Policies {
		s := selecting{NetworkPolicy: p, selector: selector.OrNothing(&p.Spec.PodSelector)}
		if slices.ContainsFunc(local[p.Namespace], func(pod *corev1.Pod) bool { return s.selector.Matches(labels.Set(pod.Labels)) }) {
			x.policies[p.Namespace] = append(x.policies[p.Namespace], s)
		}
	}
	for _, all := range x.policies {
		slices.SortFunc(all, func(a, b selecting) int {
			return strings.Compare(keyOf(a.NetworkPolicy), keyOf(b.NetworkPolicy))
		})
		for i, p := range all {
			all[i].directions = x.directions(p.NetworkPolicy)
		}
	}
	return x
}

// addresses returns the addresses of a pod: those that the node has admitted it with, or else those in its status that the
// node has not given to another pod since.
func (x *index) addresses(pod *corev1.Pod) []netip.Addr {
	all := addresses(pod)
	if pod.Spec.NodeName == x.Node && hasNetwork(pod) {
		if admitted, ok := x.Admitted[keyOf(pod)]; ok {
			all = slices.Clone(admitted)
		}
	}
	return slices.DeleteFunc(all, func(a netip.Addr) bool {
		holder, held := x.holders[a]
		return ruleset.FamilyOf(a) != x.family || held && holder != keyOf(pod)
	})
}

// selected returns the pods that peers of a policy select. Blocks select none.
func (x *index) selected(p *networkingv1.NetworkPolicy, peers []networkingv1.NetworkPolicyPeer) map[*corev1.Pod]bool {
	all := map[*corev1.Pod]bool{}
	seen := map[string]bool{}
	for _, peer := range peers {
		if peer.IPBlock != nil {
			continue
		}
		if text, err := peer.Marshal(); err == nil && len(peers) > 1 {
			if seen[string(text)] {
				continue
			}
			seen[string(text)] = true
		}
		if !x.addSelected(p, peer, all) {
			break
		}
	}
	return all
}

// addSelected adds the pods that a peer of a policy selects. It returns false if there are too many to look at.
func (x *index) addSelected(p *networkingv1.NetworkPolicy, peer networkingv1.NetworkPolicyPeer, all map[*corev1.Pod]bool) bool {
	pods := labels.Everything()
	if peer.PodSelector != nil {
		pods = selector.OrNothing(peer.PodSelector)
	}
	if peer.NamespaceSelector != nil && !x.spend(p, len(x.pods), 0) {
		return false
	}
	for _, n := range x.namespaces(p.Namespace, peer.NamespaceSelector) {
		if !x.spend(p, len(x.pods[n]), 0) {
			return false
		}
		for _, pod := range x.pods[n] {
			if pods.Matches(labels.Set(pod.Labels)) {
				all[pod] = true
			}
		}
	}
	return true
}

// namespaces returns the namespaces that a peer of a policy selects.
func (x *index) namespaces(own string, wanted *metav1.LabelSelector) []string {
	if wanted == nil {
		return []string{own}
	}
	parsed := selector.OrNothing(wanted)
	var all []string
	for name := range maps.Keys(x.pods) {
		if n := x.Namespaces[name]; n != nil && parsed.Matches(labels.Set(n.Labels)) {
			all = append(all, name)
		}
	}
	return all
}
