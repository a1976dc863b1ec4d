package policy

import (
	"fmt"

	"github.com/planekit/planekit/service/ruleset"
)

// The chains that packets pass, in this order: that of their source and that of their destination.
const (
	fromPods = "from-pods"
	toPods   = "to-pods"
	// newConnections comes before both, after the kernel has found the connection of a packet.
	newConnections = "new-connections"
)

// afterTracking is the priority of chains that come after the kernel's search for connections, and before translation.
const afterTracking = -150

// The sets and maps that pods have elements of. A transaction writes the elements of sets in the order of their names, and an
// address is in the last one, known, only once its other elements are there.
const (
	egress   = "egress"   // chains by the address of a pod
	ingress  = "ingress"  // chains by the address of a pod
	isolated = "isolated" // addresses of pods that policies select
	self     = "self"     // pairs of one address
	known    = "known"    // addresses of all pods of the node
	open     = "open"     // connections by the address of a pod
)

var families = []ruleset.Family{ruleset.IPv4, ruleset.IPv6}

// base returns the chains by which packets of all families come.
func base() ruleset.Fragment {
	out := ruleset.Fragment{Chains: map[string]ruleset.Chain{}}
	for priority, name := range []string{fromPods, toPods} {
		chain := ruleset.Chain{Hook: &ruleset.Hook{Point: "forward", Priority: int32(priority)}}
		for _, f := range families {
			chain.Rules = append(chain.Rules, ruleset.NewRule("", ruleset.OfFamily{Family: f}, ruleset.Jump{Chain: ofFamily(name, f)}))
		}
		out.Chains[name] = chain
	}
	chain := ruleset.Chain{Hook: &ruleset.Hook{Point: "prerouting", Priority: afterTracking}}
	for _, f := range families {
		chain.Rules = append(chain.Rules, ruleset.NewRule("", ruleset.OfFamily{Family: f}, ruleset.NewConnection{}, ruleset.Jump{Chain: ofFamily(newConnections, f)}))
	}
	out.Chains[newConnections] = chain
	return out
}

func ofFamily(name string, f ruleset.Family) string { return fmt.Sprintf("%s/ipv%d", name, uint8(f)) }

// named returns the name that a chain or a set of the index's family has.
func (x *index) named(name string) string { return ofFamily(name, x.family) }

// way is one of the directions of the packets of a connection.
type way struct {
	name string
	ruleset.OfDirection
	// client and server are where the addresses of the two ends are.
	client, server ruleset.Field
}

var ways = []way{
	{"", ruleset.OfDirection{}, ruleset.SourceAddr, ruleset.DestAddr},
	{"-replies", ruleset.OfDirection{Reply: true}, ruleset.DestAddr, ruleset.SourceAddr},
}

// base returns what all pods share: packets between pods, and between pods and others, pass the chain of
// their source and that of their destination. The node itself is not subject to policies.
//
// Every packet is decided as the first one of its connection is: a reply by what it replies to, an error by what it is about. So a
// policy that comes also ends what was open before. The protocol and the port are those by which the kernel follows the
// connection, wherever they are in the packet.
//
// By the links of pods passes only what has the address of a pod that is known: a pod that starts is closed until it is, and
// link-local addresses, multicast and broadcast lead from no pod to another.
func (x *index) base() ruleset.Fragment {
	source, destination := []ruleset.Field{ruleset.SourceAddr}, []ruleset.Field{ruleset.DestAddr}
	both := []ruleset.Field{ruleset.SourceAddr, ruleset.DestAddr}
	f := x.family
	out := ruleset.Fragment{Sets: map[string]ruleset.Set{
		x.named(self): {Family: f, Fields: both}, x.named(known): {Family: f, Fields: source}, x.named(isolated): {Family: f, Fields: source},
	}}
	from, to := x.discovery(), x.discovery()
	for _, link := range x.Links {
		from = append(from, ruleset.NewRule("no pod that is known", ruleset.FromLink{Name: link}, ruleset.In{Family: f, Fields: source, Set: x.named(known), Not: true}, ruleset.Drop{}))
		to = append(to, ruleset.NewRule("no pod that is known", ruleset.ToLink{Name: link}, ruleset.In{Family: f, Fields: destination, Set: x.named(known), Not: true}, ruleset.Drop{}))
	}
	for _, side := range [][]ruleset.Field{source, destination} {
		from = append(from, ruleset.NewRule("of no connection", ruleset.NoConnection{}, ruleset.In{Family: f, Fields: side, Set: x.named(isolated)}, ruleset.Drop{}))
	}
	always := []ruleset.Rule{
		ruleset.NewRule("pods that reach themselves", ruleset.In{Family: f, Fields: both, Set: x.named(self)}, ruleset.Accept{}),
		ruleset.NewRule("errors of routers", ruleset.Related{Family: f}, ruleset.In{Family: f, Fields: source, Set: x.named(known), Not: true}, ruleset.Accept{}),
	}
	from, to = append(from, always...), append(to, always...)
	for _, w := range ways {
		clients, servers := []ruleset.Field{w.client}, []ruleset.Field{w.server}
		out.Sets[x.named(egress+w.name)] = ruleset.Set{Kind: ruleset.Verdicts, Family: f, Fields: clients}
		out.Sets[x.named(ingress+w.name)] = ruleset.Set{Kind: ruleset.Verdicts, Family: f, Fields: servers}
		from = append(from, ruleset.NewRule("", w.OfDirection, ruleset.Dispatch{Family: f, Fields: clients, Map: x.named(egress + w.name)}))
		to = append(to, ruleset.NewRule("", w.OfDirection, ruleset.Dispatch{Family: f, Fields: servers, Map: x.named(ingress + w.name)}))
	}
	out.Chains = map[string]ruleset.Chain{x.named(fromPods): {Rules: from}, x.named(toPods): {Rules: to}, x.named(newConnections): {Rules: x.limits()}}
	out.Sets[x.named(open)] = ruleset.Set{Kind: ruleset.Connections, Family: f, Fields: source}
	return out
}

// limits returns the rules by which a pod opens as many connections as it may. The kernel forgets what is dropped here.
func (x *index) limits() (all []ruleset.Rule) {
	if x.Connections <= 0 {
		return nil
	}
	for _, link := range x.Links {
		all = append(all, ruleset.NewRule("the pod has too many connections", ruleset.FromLink{Name: link},
			ruleset.Exceeds{Family: x.family, Set: x.named(open), Most: x.Connections}, ruleset.Drop{}))
	}
	return all
}

// discovery returns the rule by which pods on one bridge find each other with IPv6. IPv4 does without.
func (x *index) discovery() []ruleset.Rule {
	if x.family == ruleset.IPv4 {
		return nil
	}
	return []ruleset.Rule{ruleset.NewRule("pods on one bridge find each other", ruleset.NeighborSolicitation{}, ruleset.Accept{})}
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
