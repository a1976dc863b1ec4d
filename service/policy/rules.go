package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/service/ruleset"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// World is all that the rules of a node depend on.
type World struct {
	// Node is the node whose pods are protected.
	Node     string
	Policies []*networkingv1.NetworkPolicy
	// Pods holds the pods of the whole cluster, and Namespaces all namespaces by name.
	Pods       []*corev1.Pod
	Namespaces map[string]*corev1.Namespace
	// Links are the bridges that connect the pods of the node with it. By them passes only what has the address of a pod that
	// is known, so that link-local addresses and multicast lead nowhere.
	Links []string
	// Connections limits the connections that a pod may have open with others in each family, if it is at a link; 0 means any
	// number.
	Connections int
	// Admitted has addresses of pods of the node that may not be in their statuses yet, by the keys of the pods. These replace
	// those in the statuses, also of other pods.
	Admitted map[string][]netip.Addr
}

func keyOf(object localcache.Object) string { return localcache.KeyOf(object) }

// Fragments returns the parts of the table by their owners: each policy that selects a pod of the node has its chains and the
// sets of its peers, pods that the same policies select have a chain together, and each pod of the node has its addresses.
func (w World) Fragments() map[string]ruleset.Fragment {
	all, _ := w.fragments()
	return all
}

// fragments also returns the policies that allow less than they say because their namespace is over its bounds, with the reasons.
func (w World) fragments() (all map[string]ruleset.Fragment, over map[string]string) {
	all, over = map[string]ruleset.Fragment{"": base()}, map[string]string{}
	for _, f := range families {
		x := newIndex(w, f)
		for owner, fragment := range x.fragments() {
			all[ofFamily(owner, f)] = fragment
		}
		maps.Copy(over, x.over)
	}
	return all, over
}

func (x *index) fragments() map[string]ruleset.Fragment {
	x.all["base"] = x.base()
	for _, policies := range x.policies {
		for _, p := range policies {
			x.all[policyOwner(p.NetworkPolicy)] = x.peerSets(p)
		}
	}
	for _, pod := range x.local {
		x.all["pod "+keyOf(pod)] = x.pod(pod)
	}
	return x.all
}

func policyOwner(p *networkingv1.NetworkPolicy) string { return "policy " + keyOf(p) }

// hasNetwork reports whether a pod has a network of its own, and has not ended.
func hasNetwork(pod *corev1.Pod) bool {
	return !pod.Spec.HostNetwork && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// addresses returns the addresses in the status of a pod that has a network of its own.
func addresses(pod *corev1.Pod) []netip.Addr {
	if !hasNetwork(pod) {
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
	rules []networkingv1.NetworkPolicyIngressRule
}

// peer returns where the address of the other end is in the packets of a way.
func (d direction) peer(w way) []ruleset.Field {
	if d.kind == networkingv1.PolicyTypeEgress {
		return []ruleset.Field{w.server}
	}
	return []ruleset.Field{w.client}
}

// address is the field of sets of addresses, with which sources and destinations are compared.
var address = []ruleset.Field{ruleset.SourceAddr}

// directions returns the directions of a policy, with rules that are merged. Rules that the namespace cannot pay for are left out.
func (x *index) directions(p *networkingv1.NetworkPolicy) []direction {
	var all []direction
	for _, kind := range types(p) {
		switch kind {
		case networkingv1.PolicyTypeIngress:
			all = append(all, direction{kind, ingress, p.Spec.Ingress})
		case networkingv1.PolicyTypeEgress:
			d := direction{kind: kind, name: egress}
			for _, r := range p.Spec.Egress {
				d.rules = append(d.rules, networkingv1.NetworkPolicyIngressRule{From: r.To, Ports: r.Ports})
			}
			all = append(all, d)
		}
	}
	for i := range all {
		all[i].rules = x.affordable(p, all[i], mergeRules(all[i].rules))
	}
	return all
}

// setName returns the name of the set of peers of a rule, or of their ports with a name.
func (x *index) setName(p *networkingv1.NetworkPolicy, d direction, rule int, port ...int) string {
	end := fmt.Sprintf("/%d", rule)
	for _, n := range port {
		end += fmt.Sprintf("/port-%d", n)
	}
	return x.named(nameOf(d.name, keyOf(p), end))
}

// blockSet returns the name of the set of the addresses in the blocks of a rule. Other blocks are another set: a set of
// ranges is written as a whole.
func (x *index) blockSet(p *networkingv1.NetworkPolicy, d direction, rule int) string {
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
	return x.named(nameOf(d.name, keyOf(p), fmt.Sprintf("/%d/blocks-%s", rule, sum)))
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

// peerSets returns the sets of pods that the rules of a policy select.
func (x *index) peerSets(p selecting) ruleset.Fragment {
	out := ruleset.Fragment{Chains: map[string]ruleset.Chain{}, Sets: map[string]ruleset.Set{}, Elements: map[ruleset.Place]ruleset.Verdict{}}
	for _, d := range p.directions {
		for i, rule := range d.rules {
			selected := x.selected(p.NetworkPolicy, rule.From)
			if hasPods(rule) {
				name := x.setName(p.NetworkPolicy, d, i)
				out.Sets[name] = ruleset.Set{Family: x.family, Fields: address}
				for pod := range selected {
					for _, a := range x.addresses(pod) {
						out.Elements[ruleset.Place{Set: name, Key: ruleset.KeyOf(a)}] = ""
					}
				}
			}
			if hasBlocks(rule) {
				x.addBlocks(out, p.NetworkPolicy, d, i)
			}
			for n, port := range rule.Ports {
				if byName(d, port) {
					x.addNamedPort(out, p.NetworkPolicy, d, i, n, selected)
				}
			}
		}
	}
	return out
}

// addBlocks adds the sets of the addresses in the blocks of a rule.
func (x *index) addBlocks(out ruleset.Fragment, p *networkingv1.NetworkPolicy, d direction, i int) {
	name := x.blockSet(p, d, i)
	out.Sets[name] = ruleset.Set{Family: x.family, Fields: address, Ranges: true}
	for _, s := range blocksOf(d.rules[i].From, x.family) {
		for _, key := range ruleset.Bounds(s.first, s.last) {
			out.Elements[ruleset.Place{Set: name, Key: key}] = ""
		}
	}
}

// addNamedPort adds the map of a port with a name: it leads from the addresses of the rule's peers to a chain that accepts the
// numbers that the name has in each. An address of a pod can also be in a block.
func (x *index) addNamedPort(out ruleset.Fragment, p *networkingv1.NetworkPolicy, d direction, i, n int, selected map[*corev1.Pod]bool) {
	rule := d.rules[i]
	port, blocks, name := rule.Ports[n], blocksOf(rule.From, x.family), x.setName(p, d, i, n)
	out.Sets[name] = ruleset.Set{Kind: ruleset.Verdicts, Family: x.family, Fields: address}
	protocol := protocolOf(port.Protocol)
	for _, pod := range x.Pods {
		in := len(rule.From) == 0 || selected[pod]
		if !in && !hasBlocks(rule) {
			continue
		}
		numbers := named(pod, port.Port.StrVal, protocol)
		for _, a := range x.addresses(pod) {
			if len(numbers) > 0 && (in || blocks.contain(a)) {
				out.Elements[ruleset.Place{Set: name, Key: ruleset.KeyOf(a)}] = ruleset.VerdictJump(x.accepting(protocol, numbers))
			}
		}
	}
}

// accepting adds the chain that accepts some ports, and returns its name.
func (x *index) accepting(protocol ruleset.Protocol, numbers []uint16) string {
	var rules []ruleset.Rule
	hash := sha256.New()
	for _, n := range numbers {
		rules = append(rules, ruleset.NewRule("", ruleset.OfConnection{Protocol: protocol}, ruleset.ToServerPorts{First: n, Last: n}, ruleset.Accept{}))
		fmt.Fprint(hash, n, " ")
	}
	name := x.named(fmt.Sprintf("ports/%v/%x", protocol, hash.Sum(nil)[:8]))
	x.all[name] = ruleset.Fragment{Chains: map[string]ruleset.Chain{name: {Rules: rules}}}
	return name
}

func hasPods(rule networkingv1.NetworkPolicyIngressRule) bool {
	return slices.ContainsFunc(rule.From, func(p networkingv1.NetworkPolicyPeer) bool { return p.IPBlock == nil })
}

func hasBlocks(rule networkingv1.NetworkPolicyIngressRule) bool {
	return slices.ContainsFunc(rule.From, func(p networkingv1.NetworkPolicyPeer) bool { return p.IPBlock != nil })
}

// pod returns the elements of a pod, and adds the chains that they lead to to the fragments of their owners.
func (x *index) pod(pod *corev1.Pod) ruleset.Fragment {
	out := ruleset.Fragment{Elements: map[ruleset.Place]ruleset.Verdict{}}
	for _, a := range x.addresses(pod) {
		put := func(set string, v ruleset.Verdict, key ...any) {
			out.Elements[ruleset.Place{Set: x.named(set), Key: ruleset.KeyOf(key...)}] = v
		}
		put(known, "", a)
		chains := map[string][]string{} // of policies, by direction and way
		for _, p := range x.policies[pod.Namespace] {
			if !p.selector.Matches(labels.Set(pod.Labels)) {
				continue
			}
			for _, d := range p.directions {
				for _, w := range ways {
					chains[d.name+w.name] = append(chains[d.name+w.name], x.chain(x.all[policyOwner(p.NetworkPolicy)], p.NetworkPolicy, d, w, pod))
				}
			}
		}
		for name, of := range chains {
			put(isolated, "", a)
			put(self, "", a, a)
			put(name, ruleset.VerdictGoto(x.together(name, of)), a)
		}
	}
	return out
}

// together adds the chain of pods that some policies select and returns its name: what none of them accepts is dropped.
func (x *index) together(direction string, chains []string) string {
	sum := sha256.Sum256([]byte(strings.Join(chains, "\x00")))
	name := x.named(direction + "-pods/" + hex.EncodeToString(sum[:16]))
	if _, ok := x.all[name]; ok {
		return name
	}
	var rules []ruleset.Rule
	for _, chain := range chains {
		rules = append(rules, ruleset.NewRule("", ruleset.Jump{Chain: chain}))
	}
	rules = append(rules, ruleset.NewRule("no policy allows it", ruleset.Drop{}))
	x.all[name] = ruleset.Fragment{Chains: map[string]ruleset.Chain{name: {Rules: rules}}}
	return name
}

// chain adds the chain of a policy to its fragment and returns its name. Pods share it, unless the names of ports stand for
// different numbers in them.
func (x *index) chain(out ruleset.Fragment, p *networkingv1.NetworkPolicy, d direction, w way, pod *corev1.Pod) string {
	name := x.named(nameOf(d.name+w.name+"-policy", keyOf(p), variant(d, pod)))
	if _, ok := out.Chains[name]; ok {
		return name
	}
	var chain ruleset.Chain
	seen := map[string]bool{}
	for i := range d.rules {
		for _, r := range x.rules(out, p, d, w, i, pod) {
			if text := r.String(); !seen[text] {
				seen[text] = true
				chain.Rules = append(chain.Rules, r)
			}
		}
	}
	out.Chains[name] = chain
	return name
}

// rules returns the rules of one rule of a policy: one for each peer and port.
func (x *index) rules(out ruleset.Fragment, p *networkingv1.NetworkPolicy, d direction, w way, i int, pod *corev1.Pod) []ruleset.Rule {
	rule := d.rules[i]
	var all []ruleset.Rule
	for _, peer := range x.peerMatches(p, d, w, i) {
		for _, port := range x.portMatches(out, p, d, i, pod) {
			all = append(all, ruleset.NewRule(keyOf(p), slices.Concat(peer, port, []ruleset.Statement{ruleset.Accept{}})...))
		}
	}
	for n, port := range rule.Ports {
		if byName(d, port) {
			all = append(all, ruleset.NewRule(keyOf(p), ruleset.Dispatch{Family: x.family, Fields: d.peer(w), Map: x.setName(p, d, i, n)}))
		}
	}
	return all
}

// peerMatches returns the conditions of which a peer must fulfil one list.
func (x *index) peerMatches(p *networkingv1.NetworkPolicy, d direction, w way, i int) [][]ruleset.Statement {
	rule := d.rules[i]
	if len(rule.From) == 0 {
		return [][]ruleset.Statement{nil}
	}
	var all [][]ruleset.Statement
	if hasPods(rule) {
		all = append(all, []ruleset.Statement{ruleset.In{Family: x.family, Fields: d.peer(w), Set: x.setName(p, d, i)}})
	}
	if hasBlocks(rule) {
		all = append(all, []ruleset.Statement{ruleset.In{Family: x.family, Fields: d.peer(w), Set: x.blockSet(p, d, i)}})
	}
	return all
}
