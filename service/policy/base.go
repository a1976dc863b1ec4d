package policy

import (
	"fmt"

	"github.com/planekit/planekit/service/ruleset"
)

// The chains that packets pass, in this order: that of their source and that of their destination.
const (
	fromPods = "from-pods"
	toPods   = "to-pods"
)

// The sets and maps that pods have elements of. A transaction writes the elements of sets in the order of their names, and an
// address is in the last one, known, only once its other elements are there.
const (
	egress   = "egress"   // chains by the address of a pod
	ingress  = "ingress"  // chains by the address of a pod
	isolated = "isolated" // addresses of pods that policies select
	self     = "self"     // pairs of one address
	known    = "known"    // addresses of all pods of the node
)

var families = []ruleset.Family{ruleset.IPv4, ruleset.IPv6}

func ofFamily(name string, f ruleset.Family) string { return fmt.Sprint(name, uint8(f)) }

// base returns what all pods share: packets between pods, and between pods and others, pass the chain of
// their source and that of their destination. The node itself is not subject to policies.
//
// Every packet is decided by the connection that it belongs to, and not by its header: what opened the connection, and where
// it leads after translation. So a policy that comes also ends what was open before, a reply passes as what it replies to, an
// error as what it is about, and a port is found behind extension headers and in fragments.
//
// By the links of pods passes only what has the address of a pod that is known: a pod that starts is closed until it is, and
// link-local addresses, multicast and broadcast lead from no pod to another.
func (w World) base() ruleset.Fragment {
	out := ruleset.Fragment{Chains: map[string]ruleset.Chain{}, Sets: map[string]ruleset.Set{}}
	from, to := w.entry(ruleset.SourceAddr), w.entry(ruleset.DestAddr)
	client, server := []ruleset.Field{ruleset.ClientAddr}, []ruleset.Field{ruleset.ServerAddr}
	both := []ruleset.Field{ruleset.SourceAddr, ruleset.DestAddr}
	for _, f := range families {
		out.Sets[ofFamily(self, f)] = ruleset.Set{Family: f, Fields: both}
		out.Sets[ofFamily(known, f)] = ruleset.Set{Family: f, Fields: []ruleset.Field{ruleset.SourceAddr}}
		out.Sets[ofFamily(isolated, f)] = ruleset.Set{Family: f, Fields: []ruleset.Field{ruleset.SourceAddr}}
		out.Sets[ofFamily(egress, f)] = ruleset.Set{Kind: ruleset.Verdicts, Family: f, Fields: client}
		out.Sets[ofFamily(ingress, f)] = ruleset.Set{Kind: ruleset.Verdicts, Family: f, Fields: server}
		of := ruleset.OfFamily{Family: f}
		for _, side := range []ruleset.Field{ruleset.SourceAddr, ruleset.DestAddr} {
			from = append(from, ruleset.NewRule("of no connection", of, ruleset.NoConnection{},
				ruleset.In{Family: f, Fields: []ruleset.Field{side}, Set: ofFamily(isolated, f)}, ruleset.Drop{}))
		}
		itself := ruleset.NewRule("pods that reach themselves", of, ruleset.In{Family: f, Fields: both, Set: ofFamily(self, f)}, ruleset.Accept{})
		from = append(from, itself, ruleset.NewRule("", of, ruleset.Dispatch{Family: f, Fields: client, Map: ofFamily(egress, f)}))
		to = append(to, itself, ruleset.NewRule("", of, ruleset.Dispatch{Family: f, Fields: server, Map: ofFamily(ingress, f)}))
		for _, side := range []ruleset.Field{ruleset.SourceAddr, ruleset.DestAddr} {
			name := ofFamily(gates[side], f)
			out.Chains[name] = ruleset.Chain{Rules: []ruleset.Rule{
				ruleset.NewRule("", of, ruleset.In{Family: f, Fields: []ruleset.Field{side}, Set: ofFamily(known, f)}, ruleset.Return{}),
				ruleset.NewRule("not the address of a pod that is known", ruleset.Drop{}),
			}}
		}
	}
	out.Chains[fromPods] = ruleset.Chain{Hook: &ruleset.Hook{Point: "forward"}, Rules: from}
	out.Chains[toPods] = ruleset.Chain{Hook: &ruleset.Hook{Point: "forward", Priority: 1}, Rules: to}
	return out
}

// gates are the chains that let only known addresses pass.
var gates = map[ruleset.Field]string{ruleset.SourceAddr: "known-source", ruleset.DestAddr: "known-destination"}

// entry returns the first rules of a chain: a side of a packet at a link of pods must be a pod that is known.
func (w World) entry(side ruleset.Field) []ruleset.Rule {
	v6 := ruleset.OfFamily{Family: ruleset.IPv6}
	rules := []ruleset.Rule{ruleset.NewRule("pods on one bridge find each other", v6, ruleset.NeighborSolicitation{}, ruleset.Accept{})}
	for _, link := range w.Links {
		at := ruleset.Statement(ruleset.FromLink{Name: link})
		if side == ruleset.DestAddr {
			at = ruleset.ToLink{Name: link}
		}
		for _, f := range families {
			rules = append(rules, ruleset.NewRule("", ruleset.OfFamily{Family: f}, at, ruleset.Jump{Chain: ofFamily(gates[side], f)}))
		}
	}
	return rules
}

// The types of frames that pods of one bridge exchange.
const (
	etherIPv4 = 0x0800
	etherARP  = 0x0806
	etherIPv6 = 0x86dd
)

// frames returns the table of family bridge: between the ports of the bridges pass frames that the other rules see, and ARP.
// Frames of VLANs and of other protocols are of no address.
func frames(ports []string) ruleset.Fragment {
	set := ruleset.Set{Fields: []ruleset.Field{ruleset.InLink}}
	on := ruleset.In{Fields: set.Fields, Set: "ports"}
	var rules []ruleset.Rule
	for _, kind := range []uint16{etherIPv4, etherARP, etherIPv6} {
		rules = append(rules, ruleset.NewRule("", on, ruleset.OfEtherType{Type: kind}, ruleset.Accept{}))
	}
	out := ruleset.Fragment{
		Chains:   map[string]ruleset.Chain{"between-ports": {Hook: &ruleset.Hook{Point: "forward"}, Rules: append(rules, ruleset.NewRule("not IP", on, ruleset.Drop{}))}},
		Sets:     map[string]ruleset.Set{on.Set: set},
		Elements: map[ruleset.Place]ruleset.Verdict{},
	}
	for _, name := range ports {
		out.Elements[ruleset.Place{Set: on.Set, Key: ruleset.KeyOf(name)}] = ""
	}
	return out
}
