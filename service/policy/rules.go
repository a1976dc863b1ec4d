package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/service/ruleset"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// World is all that the rules of a node depend on.
type World struct {
	// Node is the node whose pods are protected.
	Node     string
	Policies []*networkingv1.NetworkPolicy
	// Pods holds the pods of the whole cluster, and Namespaces all namespaces by name.
	Pods       []*corev1.Pod
	Namespaces map[string]*corev1.Namespace
}

var families = []ruleset.Family{ruleset.IPv4, ruleset.IPv6}

func ofFamily(name string, f ruleset.Family) string { return fmt.Sprint(name, uint8(f)) }

// Base returns what all pods share: packets between pods, and between pods and others, pass the chain of
// their source and that of their destination. The node itself is not subject to policies.
func Base() ruleset.Fragment {
	out := ruleset.Fragment{Chains: map[string]ruleset.Chain{}, Sets: map[string]ruleset.Set{}}
	rules := []ruleset.Rule{
		ruleset.NewRule("", ruleset.KnownConnection{}, ruleset.Accept{}),
		ruleset.NewRule("pods on one bridge find each other", ruleset.NeighborDiscovery{}, ruleset.Accept{}),
	}
	for _, f := range families {
		source, destination := []ruleset.Field{ruleset.SourceAddr}, []ruleset.Field{ruleset.DestAddr}
		both := []ruleset.Field{ruleset.SourceAddr, ruleset.DestAddr}
		out.Sets[ofFamily("self", f)] = ruleset.Set{Family: f, Fields: both}
		out.Sets[ofFamily("egress", f)] = ruleset.Set{Kind: ruleset.Verdicts, Family: f, Fields: source}
		out.Sets[ofFamily("ingress", f)] = ruleset.Set{Kind: ruleset.Verdicts, Family: f, Fields: destination}
		of := ruleset.OfFamily{Family: f}
		rules = append(rules,
			ruleset.NewRule("pods that reach themselves", of, ruleset.In{Family: f, Fields: both, Set: ofFamily("self", f)}, ruleset.Accept{}),
			ruleset.NewRule("", of, ruleset.Dispatch{Family: f, Fields: source, Map: ofFamily("egress", f)}),
			ruleset.NewRule("", of, ruleset.Dispatch{Family: f, Fields: destination, Map: ofFamily("ingress", f)}))
	}
	out.Chains["policies"] = ruleset.Chain{Hook: &ruleset.Hook{Point: "forward"}, Rules: rules}
	return out
}

// Fragments returns the parts of the table by their owners: each policy that selects a pod of the node has the sets of
// its peers, and each pod of the node has its chains if a policy selects it.
func (w World) Fragments() map[string]ruleset.Fragment {
	x := newIndex(w)
	all := map[string]ruleset.Fragment{"": Base()}
	for _, policies := range x.policies {
		for _, p := range policies {
			all["policy "+localcache.KeyOf(p.NetworkPolicy)] = x.peerSets(p.NetworkPolicy)
		}
	}
	for _, pod := range x.local {
		all["pod "+localcache.KeyOf(pod)] = x.pod(pod)
	}
	return all
}

// addresses returns the addresses of a pod that has a network of its own.
func addresses(pod *corev1.Pod) []netip.Addr {
	if pod.Spec.HostNetwork || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil
	}
	var all []netip.Addr
	for _, ip := range pod.Status.PodIPs {
		if a, err := netip.ParseAddr(ip.IP); err == nil {
			all = append(all, a.Unmap())
		}
	}
	return all
}

// direction is a side of a policy in a form that both have.
type direction struct {
	kind  networkingv1.PolicyType
	name  string
	field ruleset.Field // of the peer
	rules []networkingv1.NetworkPolicyIngressRule
}

func directions(p *networkingv1.NetworkPolicy) []direction {
	var all []direction
	for _, kind := range types(p) {
		switch kind {
		case networkingv1.PolicyTypeIngress:
			all = append(all, direction{kind, "ingress", ruleset.SourceAddr, p.Spec.Ingress})
		case networkingv1.PolicyTypeEgress:
			d := direction{kind: kind, name: "egress", field: ruleset.DestAddr}
			for _, r := range p.Spec.Egress {
				d.rules = append(d.rules, networkingv1.NetworkPolicyIngressRule{From: r.To, Ports: r.Ports})
			}
			all = append(all, d)
		}
	}
	return all
}

// setName returns the name of the set of peers of a rule, or of their ports with a name.
func setName(p *networkingv1.NetworkPolicy, d direction, rule int, f ruleset.Family, port ...int) string {
	end := fmt.Sprintf("/%d", rule)
	for _, n := range port {
		end += fmt.Sprintf("/port-%d", n)
	}
	return nameOf(d.name, localcache.KeyOf(p), fmt.Sprintf("%s/ipv%d", end, uint8(f)))
}

// blockSet returns the name of the set of the addresses in the blocks of a rule. Other blocks are another set: a set of
// ranges is written as a whole.
func (x *index) blockSet(p *networkingv1.NetworkPolicy, d direction, rule int, f ruleset.Family) string {
	of := ruleOf{p, d.kind, rule}
	sum, ok := x.sums[of]
	if !ok {
		hash := sha256.New()
		for _, peer := range d.rules[rule].From {
			if peer.IPBlock != nil {
				fmt.Fprintf(hash, "%q %q ", peer.IPBlock.CIDR, peer.IPBlock.Except)
			}
		}
		sum = hex.EncodeToString(hash.Sum(nil)[:8])
		x.sums[of] = sum
	}
	return nameOf(d.name, localcache.KeyOf(p), fmt.Sprintf("/%d/blocks-%s/ipv%d", rule, sum, uint8(f)))
}

// maxKey bounds the key of an object in a name, in bytes: names of the kernel have at most 255.
const maxKey = 160

// nameOf returns the name of a chain or set of an object. A long key is replaced by its beginning and its hash.
func nameOf(kind, key, end string) string {
	if len(key) > maxKey {
		sum := sha256.Sum256([]byte(key))
		key = fmt.Sprintf("%s-%x", key[:maxKey], sum[:16])
	}
	return kind + "/" + key + end
}

// byName reports whether a port of an egress rule is looked up in the pods that it leads to.
func byName(d direction, port networkingv1.NetworkPolicyPort) bool {
	return d.kind == networkingv1.PolicyTypeEgress && port.Port != nil && port.Port.Type == intstr.String
}

// peerSets returns the sets of pods that the rules of a policy select.
func (x *index) peerSets(p *networkingv1.NetworkPolicy) ruleset.Fragment {
	out := ruleset.Fragment{Sets: map[string]ruleset.Set{}, Elements: map[ruleset.Place]ruleset.Verdict{}}
	for _, d := range directions(p) {
		for i, rule := range d.rules {
			selected := x.selected(p.Namespace, rule.From)
			if hasPods(rule) {
				names := map[ruleset.Family]string{}
				for _, f := range families {
					names[f] = setName(p, d, i, f)
					out.Sets[names[f]] = ruleset.Set{Family: f, Fields: []ruleset.Field{d.field}}
				}
				for pod := range selected {
					for _, a := range addresses(pod) {
						out.Elements[ruleset.Place{Set: names[ruleset.FamilyOf(a)], Key: ruleset.KeyOf(a)}] = ""
					}
				}
			}
			if hasBlocks(rule) {
				x.addBlocks(out, p, d, i)
			}
			for n, port := range rule.Ports {
				if byName(d, port) {
					x.addNamedPort(out, p, d, i, n, selected)
				}
			}
		}
	}
	return out
}

// addBlocks adds the sets of the addresses in the blocks of a rule.
func (x *index) addBlocks(out ruleset.Fragment, p *networkingv1.NetworkPolicy, d direction, i int) {
	for _, f := range families {
		name := x.blockSet(p, d, i, f)
		out.Sets[name] = ruleset.Set{Family: f, Fields: []ruleset.Field{d.field}, Ranges: true}
		for _, s := range blocksOf(d.rules[i].From, f) {
			for _, key := range ruleset.Bounds(s.first, s.last) {
				out.Elements[ruleset.Place{Set: name, Key: key}] = ""
			}
		}
	}
}

// addNamedPort adds the set of a port with a name: the addresses of the rule's peers with the number that the name has
// in each. An address of a pod can also be in a block.
func (x *index) addNamedPort(out ruleset.Fragment, p *networkingv1.NetworkPolicy, d direction, i, n int, selected map[*corev1.Pod]bool) {
	rule := d.rules[i]
	for _, f := range families {
		out.Sets[setName(p, d, i, f, n)] = ruleset.Set{Family: f, Fields: []ruleset.Field{ruleset.DestAddr, ruleset.ProtocolNumber, ruleset.DestPort}}
	}
	port, blocks := rule.Ports[n], map[ruleset.Family]blocks{}
	for _, f := range families {
		blocks[f] = blocksOf(rule.From, f)
	}
	protocol := protocolOf(port.Protocol)
	for _, pod := range x.Pods {
		in := len(rule.From) == 0 || selected[pod]
		for _, a := range addresses(pod) {
			if !in && !blocks[ruleset.FamilyOf(a)].contain(a) {
				continue
			}
			for _, number := range named(pod, port.Port.StrVal, protocol) {
				out.Elements[ruleset.Place{Set: setName(p, d, i, ruleset.FamilyOf(a), n), Key: ruleset.KeyOf(a, protocol, number)}] = ""
			}
		}
	}
}

func hasPods(rule networkingv1.NetworkPolicyIngressRule) bool {
	return slices.ContainsFunc(rule.From, func(p networkingv1.NetworkPolicyPeer) bool { return p.IPBlock == nil })
}

func hasBlocks(rule networkingv1.NetworkPolicyIngressRule) bool {
	return slices.ContainsFunc(rule.From, func(p networkingv1.NetworkPolicyPeer) bool { return p.IPBlock != nil })
}

// pod returns the chains of a pod: they return what a policy allows and drop the rest.
func (x *index) pod(pod *corev1.Pod) ruleset.Fragment {
	out := ruleset.Fragment{Chains: map[string]ruleset.Chain{}, Elements: map[ruleset.Place]ruleset.Verdict{}}
	for _, p := range x.policies[pod.Namespace] {
		if !p.selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		for _, d := range directions(p.NetworkPolicy) {
			for _, a := range addresses(pod) {
				f := ruleset.FamilyOf(a)
				name := nameOf(d.name+"-pod", localcache.KeyOf(pod), fmt.Sprintf("/ipv%d", uint8(f)))
				chain := out.Chains[name]
				for i := range d.rules {
					chain.Rules = append(chain.Rules, x.rules(p.NetworkPolicy, d, i, f, pod)...)
				}
				out.Chains[name] = chain
				out.Elements[ruleset.Place{Set: ofFamily(d.name, f), Key: ruleset.KeyOf(a)}] = ruleset.VerdictJump(name)
				out.Elements[ruleset.Place{Set: ofFamily("self", f), Key: ruleset.KeyOf(a, a)}] = ""
			}
		}
	}
	for name, chain := range out.Chains {
		chain.Rules = append(chain.Rules, ruleset.NewRule("no policy allows it", ruleset.Drop{}))
		out.Chains[name] = chain
	}
	return out
}

// rules returns the rules of one rule of a policy: one for each peer and port.
func (x *index) rules(p *networkingv1.NetworkPolicy, d direction, i int, f ruleset.Family, pod *corev1.Pod) []ruleset.Rule {
	rule := d.rules[i]
	var all []ruleset.Rule
	for _, peer := range x.peerMatches(p, d, i, f) {
		for _, port := range portMatches(p, d, i, f, pod) {
			parts := slices.Concat([]ruleset.Statement{ruleset.OfFamily{Family: f}}, peer, port, []ruleset.Statement{ruleset.Return{}})
			all = append(all, ruleset.NewRule(localcache.KeyOf(p), parts...))
		}
	}
	for n, port := range rule.Ports {
		if byName(d, port) {
			all = append(all, ruleset.NewRule(localcache.KeyOf(p), ruleset.OfFamily{Family: f}, ruleset.In{Family: f,
				Fields: []ruleset.Field{ruleset.DestAddr, ruleset.ProtocolNumber, ruleset.DestPort}, Set: setName(p, d, i, f, n)}, ruleset.Return{}))
		}
	}
	return all
}

// peerMatches returns the conditions of which a peer must fulfil one list.
func (x *index) peerMatches(p *networkingv1.NetworkPolicy, d direction, i int, f ruleset.Family) [][]ruleset.Statement {
	rule := d.rules[i]
	if len(rule.From) == 0 {
		return [][]ruleset.Statement{nil}
	}
	var all [][]ruleset.Statement
	if hasPods(rule) {
		all = append(all, []ruleset.Statement{ruleset.In{Family: f, Fields: []ruleset.Field{d.field}, Set: setName(p, d, i, f)}})
	}
	if hasBlocks(rule) {
		all = append(all, []ruleset.Statement{ruleset.In{Family: f, Fields: []ruleset.Field{d.field}, Set: x.blockSet(p, d, i, f)}})
	}
	return all
}

// portMatches returns the conditions of which the port must fulfil one list. Ports of egress rules that
// are named are left out: they are in sets.
func portMatches(p *networkingv1.NetworkPolicy, d direction, i int, f ruleset.Family, pod *corev1.Pod) [][]ruleset.Statement {
	rule := d.rules[i]
	if len(rule.Ports) == 0 {
		return [][]ruleset.Statement{nil}
	}
	var all [][]ruleset.Statement
	for _, port := range rule.Ports {
		protocol := protocolOf(port.Protocol)
		of := ruleset.OfProtocol{Protocol: protocol}
		switch {
		case port.Port == nil:
			all = append(all, []ruleset.Statement{of})
		case byName(d, port):
		case port.Port.Type == intstr.String:
			for _, n := range named(pod, port.Port.StrVal, protocol) {
				all = append(all, []ruleset.Statement{of, ruleset.ToPorts{First: n, Last: n}})
			}
		default:
			last := port.Port.IntVal
			if port.EndPort != nil {
				last = *port.EndPort
			}
			all = append(all, []ruleset.Statement{of, ruleset.ToPorts{First: uint16(port.Port.IntVal), Last: uint16(last)}})
		}
	}
	return all
}
