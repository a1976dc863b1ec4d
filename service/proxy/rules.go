package proxy

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/planekit/planekit/service/ruleset"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// A Site is what rules depend on beside services: the node, and how the network is laid out.
type Site struct {
	// Node is the name of the node and Zone its zone, which may be empty.
	Node, Zone string
	// NodeAddresses holds the addresses of the node that serve node ports, if NodePortRanges is empty.
	NodeAddresses []netip.Addr
	// NodePortRanges are ranges whose addresses on the node serve node ports.
	NodePortRanges []netip.Prefix
	// PodRanges contain all pods of the cluster. Traffic from elsewhere to a cluster address is
	// masqueraded. Empty if that is not known.
	PodRanges []netip.Prefix
	// ServiceRanges contain all cluster addresses. Traffic to one that no service has is dropped.
	ServiceRanges []netip.Prefix
	// MasqueradeAll masquerades all traffic to cluster addresses.
	MasqueradeAll bool
	// MarkBit is the bit of the packets' mark that asks for masquerading.
	MarkBit uint8
}

var (
	destination = []ruleset.Field{ruleset.DestAddr, ruleset.ProtocolNumber, ruleset.DestPort}
	portOnly    = []ruleset.Field{ruleset.ProtocolNumber, ruleset.DestPort}
	destAddr    = []ruleset.Field{ruleset.DestAddr}
	bothAddrs   = []ruleset.Field{ruleset.SourceAddr, ruleset.DestAddr}
	numbered    = []ruleset.Field{ruleset.GroupID, ruleset.Number}
	perAddress  = []ruleset.Field{ruleset.DestAddr, ruleset.ProtocolNumber, ruleset.DestPort, ruleset.Number}
	families    = []ruleset.Family{ruleset.IPv4, ruleset.IPv6}
	loopback    = map[ruleset.Family]netip.Prefix{
		ruleset.IPv4: netip.MustParsePrefix("127.0.0.0/8"), ruleset.IPv6: netip.MustParsePrefix("::1/128"),
	}
)

// The names of sets, which the family follows.
const (
	services        = "services"          // where connections to an address and port go
	nodePorts       = "node-ports"        // where connections to a port of the node go
	noEndpoints     = "no-endpoints"      // addresses and ports that are refused
	noEndpointPorts = "no-endpoint-ports" // ports of the node that are refused
	firewalled      = "firewalled"        // addresses and ports with source ranges
	clusterIPs      = "cluster-ips"       // all cluster addresses
	hairpins        = "hairpins"          // pairs of the same address of a pod of the node
	endpoints       = "endpoints"         // what chains translate to
	nodeAddresses   = "node-addresses"    // addresses that serve node ports
)

// named returns the name of a set for a family.
func named(set string, f ruleset.Family) string {
	if f == ruleset.IPv4 {
		return set + "4"
	}
	return set + "6"
}

// Base returns the chains and sets that all services share.
func (s Site) Base() ruleset.Fragment {
	f := ruleset.Fragment{Chains: map[string]ruleset.Chain{}, Sets: map[string]ruleset.Set{}, Elements: map[ruleset.Place]ruleset.Verdict{}}
	for _, family := range families {
		for set, fields := range map[string][]ruleset.Field{services: destination, nodePorts: portOnly, noEndpoints: destination, noEndpointPorts: portOnly, firewalled: destination} {
			f.Sets[named(set, family)] = ruleset.Set{Kind: ruleset.Verdicts, Family: family, Fields: fields}
		}
		for set, fields := range map[string][]ruleset.Field{clusterIPs: destAddr, hairpins: bothAddrs, nodeAddresses: destAddr} {
			f.Sets[named(set, family)] = ruleset.Set{Family: family, Fields: fields}
		}
		for i := range parts {
			f.Sets[partName(byte(i), family)] = ruleset.Set{Kind: ruleset.Endpoints, Family: family, Fields: numbered}
		}
		addChoices(f, family)
	}
	for _, a := range s.NodeAddresses {
		if !a.IsLoopback() {
			f.Elements[ruleset.Place{Set: named(nodeAddresses, ruleset.FamilyOf(a)), Key: ruleset.KeyOf(a)}] = ""
		}
	}
	chain := func(name, point string, translates bool, priority int32, rules ...ruleset.Rule) {
		f.Chains[name] = ruleset.Chain{Hook: &ruleset.Hook{Point: point, Translates: translates, Priority: priority}, Rules: rules}
	}
	jump := func(to string, when ...ruleset.Statement) ruleset.Rule {
		return ruleset.NewRule("", append(when, ruleset.Jump{Chain: to})...)
	}
	// Sources are checked before the translation, and what is refused is what was not translated.
	for _, point := range []string{"prerouting", "output"} {
		chain("firewall-"+point, point, false, -110, jump("firewall", ruleset.NewConnection{}))
		chain("translate-"+point, point, true, -100, jump("translate"))
		chain("refuse-"+point, point, false, -90, jump("refuse", ruleset.NewConnection{}))
	}
	chain("masquerade-postrouting", "postrouting", true, 100, s.masqueradeRules()...)
	f.Chains["firewall"], f.Chains["translate"], f.Chains["refuse"] = ruleset.Chain{}, ruleset.Chain{}, ruleset.Chain{}
	for _, family := range families {
		of := ruleset.OfFamily{Family: family}
		s.addShared(f, "firewall", ruleset.NewRule("", of, ruleset.Dispatch{Family: family, Fields: destination, Map: named(firewalled, family)}))
		s.addShared(f, "translate", s.translateRules(family)...)
		s.addShared(f, "refuse", s.refuseRules(family)...)
	}
	f.Chains["reject"] = ruleset.Chain{Rules: []ruleset.Rule{ruleset.NewRule("", ruleset.Reject{})}}
	return f
}

// mostShared is the largest number of endpoints for which ports share a chain. The 150,000 pods of a
// large cluster are at most 30 for each of 5,000 services.
const mostShared = 32

// addChoices adds the chains that ports share: one for each number of endpoints. The elements of two
// maps lead an address and port to its chain, and the chain to its endpoints, so that another endpoint
// is no new rule. The kernel checks the rules of all chains for that, and checks few if chains are shared.
func addChoices(f ruleset.Fragment, family ruleset.Family) {
	f.Sets[named(endpoints, family)] = ruleset.Set{Kind: ruleset.Endpoints, Family: family, Fields: perAddress}
	of := ruleset.OfFamily{Family: family}
	choose := ruleset.BalanceByPacket{Family: family, Fields: destination, Map: named(endpoints, family), Count: 1}
	// While a transaction ends, a packet may find the old chain, and not the endpoint that is gone.
	first := ruleset.NewRule("while endpoints change", of, choose)
	for n := 1; n <= mostShared; n++ {
		choose.Count = n
		f.Chains[choice(family, n)] = ruleset.Chain{Rules: []ruleset.Rule{ruleset.NewRule("", of, choose), first}}
	}
}

// choice returns the chain that chooses one of n endpoints.
func choice(family ruleset.Family, n int) string {
	return fmt.Sprintf("%s-%d", named("choose", family), n)
}

func (s Site) addShared(f ruleset.Fragment, name string, rules ...ruleset.Rule) {
	c := f.Chains[name]
	c.Rules = append(c.Rules, rules...)
	f.Chains[name] = c
}

func (s Site) translateRules(family ruleset.Family) []ruleset.Rule {
	of := ruleset.OfFamily{Family: family}
	toCluster := ruleset.In{Family: family, Fields: destAddr, Set: named(clusterIPs, family)}
	var rules []ruleset.Rule
	if s.MasqueradeAll {
		rules = append(rules, ruleset.NewRule("all to cluster addresses", of, toCluster, ruleset.SetMark{Bit: s.MarkBit}))
	} else if pods := inFamily(family, s.PodRanges); len(pods) > 0 {
		parts := []ruleset.Statement{of, toCluster}
		for _, p := range pods {
			parts = append(parts, ruleset.From{Prefix: p, Not: true})
		}
		rules = append(rules, ruleset.NewRule("from outside the cluster", append(parts, ruleset.SetMark{Bit: s.MarkBit})...))
	}
	toService := ruleset.Dispatch{Family: family, Fields: destination, Map: named(services, family)}
	// While a transaction ends, a packet may find neither the old element nor the new one, and then finds the new one.
	rules = append(rules, ruleset.NewRule("", of, toService), ruleset.NewRule("while endpoints change", of, toService))
	return append(rules, s.onNodePorts(family, ruleset.Dispatch{Family: family, Fields: portOnly, Map: named(nodePorts, family)})...)
}

func (s Site) refuseRules(family ruleset.Family) []ruleset.Rule {
	of := ruleset.OfFamily{Family: family}
	rules := []ruleset.Rule{ruleset.NewRule("", of, ruleset.Dispatch{Family: family, Fields: destination, Map: named(noEndpoints, family)})}
	rules = append(rules, s.onNodePorts(family, ruleset.Dispatch{Family: family, Fields: portOnly, Map: named(noEndpointPorts, family)})...)
	rules = append(rules, ruleset.NewRule("ports that no service has", of,
		ruleset.In{Family: family, Fields: destAddr, Set: named(clusterIPs, family)}, ruleset.Reject{}))
	for _, r := range inFamily(family, s.ServiceRanges) {
		rules = append(rules, ruleset.NewRule("addresses that no service has", of, ruleset.To{Prefix: r}, ruleset.Drop{}))
	}
	return rules
}

// onNodePorts returns rules that act on connections to the node's own addresses, but loopback.
func (s Site) onNodePorts(family ruleset.Family, act ruleset.Statement) []ruleset.Rule {
	of := ruleset.OfFamily{Family: family}
	if len(s.NodePortRanges) == 0 {
		return []ruleset.Rule{ruleset.NewRule("", of, ruleset.In{Family: family, Fields: destAddr, Set: named(nodeAddresses, family)}, act)}
	}
	var rules []ruleset.Rule
	for _, r := range inFamily(family, s.NodePortRanges) {
		parts := []ruleset.Statement{of, ruleset.ToHost{}, ruleset.To{Prefix: loopback[family], Not: true}}
		if r.Bits() > 0 {
			parts = append(parts, ruleset.To{Prefix: r})
		}
		rules = append(rules, ruleset.NewRule("", append(parts, act)...))
	}
	return rules
}

func (s Site) masqueradeRules() []ruleset.Rule {
	rules := []ruleset.Rule{ruleset.NewRule("", ruleset.Marked{Bit: s.MarkBit}, ruleset.ClearMark{Bit: s.MarkBit}, ruleset.Masquerade{})}
	for _, family := range families {
		rules = append(rules, ruleset.NewRule("pods that reach themselves", ruleset.OfFamily{Family: family}, ruleset.Translated{},
			ruleset.In{Family: family, Fields: bothAddrs, Set: named(hairpins, family)}, ruleset.Masquerade{}))
	}
	return rules
}

func inFamily(f ruleset.Family, all []netip.Prefix) []netip.Prefix {
	var found []netip.Prefix
	for _, p := range all {
		if ruleset.FamilyOf(p.Addr()) == f {
			found = append(found, p)
		}
	}
	return found
}

// Fragment returns the chains and elements of one service. It depends on nothing else, so that the
// change of a service changes only these.
func (s Site) Fragment(service *corev1.Service, all []*discoveryv1.EndpointSlice) ruleset.Fragment {
	f, _ := s.fragment(Ports(service), endpointsOf(all, s.Node))
	return f
}

// fragment also says which policies Local leave the node without an endpoint.
func (s Site) fragment(ports []Port, endpoints map[portName][]Endpoint) (ruleset.Fragment, noLocal) {
	w := &writer{Site: s, out: ruleset.Fragment{Chains: map[string]ruleset.Chain{}, Sets: map[string]ruleset.Set{}, Elements: map[ruleset.Place]ruleset.Verdict{}}}
	for _, p := range ports {
		w.port(p, Choose(p, endpoints[portName{p.Name, p.Protocol, p.Family}], s.Node, s.Zone))
	}
	return w.out, w.noLocal
}

// noLocal counts ports with a policy Local and no endpoint on the node, but on others.
type noLocal struct{ internal, external int }

// writer collects the fragment of a service.
type writer struct {
	Site
	out     ruleset.Fragment
	noLocal noLocal
}

func (w *writer) element(set string, f ruleset.Family, v ruleset.Verdict, key ...any) {
	w.out.Elements[ruleset.Place{Set: named(set, f), Key: ruleset.KeyOf(key...)}] = v
}

func (w *writer) port(p Port, c Choice) {
	for _, e := range slices.Concat(c.Cluster, c.Local) {
		if a := e.Addr.Addr(); e.Local {
			w.element(hairpins, p.Family, "", a, a)
		}
	}
	w.element(clusterIPs, p.Family, "", p.ClusterIP)
	inside, chain := c.Cluster, chainName("cluster", p)
	if p.InternalLocal {
		inside, chain = c.Local, chainName("local", p)
		if c.Any && len(inside) == 0 {
			w.noLocal.internal++
		}
	}
	plain := !p.external() && p.Affinity == 0 && len(inside) <= mostShared
	if !plain {
		w.balance(chainName("cluster", p), p, c.Cluster)
		w.balance(chainName("local", p), p, c.Local)
	}
	switch {
	case len(inside) == 0:
		w.element(noEndpoints, p.Family, refusal(c), p.ClusterIP, p.Protocol, p.Port)
	case plain:
		w.element(services, p.Family, ruleset.VerdictGoto(choice(p.Family, len(inside))), p.ClusterIP, p.Protocol, p.Port)
		for i, e := range inside {
			w.element(endpoints, p.Family, ruleset.VerdictEndpoint(e.Addr), p.ClusterIP, p.Protocol, p.Port, uint32(i))
		}
	default:
		w.element(services, p.Family, ruleset.VerdictGoto(chain), p.ClusterIP, p.Protocol, p.Port)
	}
	if p.external() {
		w.external(p, c)
	}
	w.firewall(p)
}

// refusal is how connections are refused: with an error if there are no endpoints, silently if another
// node may have them.
func refusal(c Choice) ruleset.Verdict {
	if c.Any {
		return ruleset.VerdictDrop
	}
	return ruleset.VerdictGoto("reject")
}

// external writes the addresses and the node port that are reached from outside.
func (w *writer) external(p Port, c Choice) {
	outside, usable := chainName("cluster", p), c.Any
	if p.ExternalLocal {
		outside, usable = chainName("local", p), len(c.Local) > 0
		if c.Any && !usable {
			w.noLocal.external++
		}
	}
	entry := chainName("external", p)
	if c.Any {
		w.out.Chains[entry] = ruleset.Chain{Rules: w.externalRules(p, c, outside, usable)}
	}
	addresses := slices.Concat(p.ExternalIPs, p.LoadBalancerIPs)
	for _, a := range addresses {
		if c.Any {
			w.element(services, p.Family, ruleset.VerdictGoto(entry), a, p.Protocol, p.Port)
		}
		if !usable {
			w.element(noEndpoints, p.Family, refusal(c), a, p.Protocol, p.Port)
		}
	}
	if p.NodePort == 0 {
		return
	}
	if c.Any {
		w.element(nodePorts, p.Family, ruleset.VerdictGoto(entry), p.Protocol, p.NodePort)
	}
	if !usable {
		w.element(noEndpointPorts, p.Family, refusal(c), p.Protocol, p.NodePort)
	}
}

func (w *writer) externalRules(p Port, c Choice, outside string, usable bool) []ruleset.Rule {
	mark := ruleset.SetMark{Bit: w.MarkBit}
	if !p.ExternalLocal {
		// The endpoint may be on another node and must reply through this one.
		return []ruleset.Rule{ruleset.NewRule("", mark), ruleset.NewRule("", ruleset.Goto{Chain: outside})}
	}
	var rules []ruleset.Rule
	if len(c.Cluster) > 0 {
		cluster := ruleset.Goto{Chain: chainName("cluster", p)}
		for _, pods := range inFamily(p.Family, w.PodRanges) {
			rules = append(rules, ruleset.NewRule("pods reach all endpoints", ruleset.From{Prefix: pods}, cluster))
		}
		rules = append(rules, ruleset.NewRule("", ruleset.FromHost{}, mark),
			ruleset.NewRule("the node reaches all endpoints", ruleset.FromHost{}, cluster))
	}
	if usable {
		rules = append(rules, ruleset.NewRule("", ruleset.Goto{Chain: outside}))
	}
	return rules
}

// parts is the number of maps of each family that hold the endpoints of chains that are not shared. For each
// new rule the kernel walks the map that it uses, and for each message it goes through the names of all maps: one map
// would make the first slow, and one for each service the second.
const parts = 64

// partName returns the map of the groups whose hash begins with a byte.
func partName(hash byte, f ruleset.Family) string {
	return fmt.Sprintf("%s-%02d", named(endpoints, f), hash%parts)
}

// balance writes a chain that translates to one of some endpoints. These are elements of a map, so that
// the replacement of one changes no rule.
func (w *writer) balance(name string, p Port, all []Endpoint) {
	if len(all) == 0 {
		return
	}
	part := partName(ruleset.EndpointKey(name, 0)[0], p.Family)
	addrs := make([]netip.AddrPort, len(all))
	for i, e := range all {
		addrs[i] = e.Addr
		w.out.Elements[ruleset.Place{Set: part, Key: ruleset.EndpointKey(name, i)}] = ruleset.VerdictEndpoint(e.Addr)
	}
	choose := ruleset.Balance{Family: p.Family, Protocol: p.Protocol, Map: part, Group: name, Count: len(addrs)}
	plain := []ruleset.Rule{ruleset.NewRule("", choose)}
	if choose.Count > 1 {
		// While a transaction ends, a packet may find a new rule and the old map, or an element that is gone.
		choose.Count = 1
		plain = append(plain, ruleset.NewRule("while endpoints change", choose))
		choose.Count = len(addrs)
	}
	if p.Affinity == 0 {
		w.out.Chains[name] = ruleset.Chain{Rules: plain}
		return
	}
	affinity := chainName("affinity", p)
	w.out.Sets[affinity] = ruleset.Set{Kind: ruleset.Affinity, Family: p.Family, Fields: []ruleset.Field{ruleset.SourceAddr}}
	timeout := max(p.Affinity, time.Second)
	choose.Affinity, choose.Timeout = affinity, timeout
	w.out.Chains[name] = ruleset.Chain{Rules: append([]ruleset.Rule{
		ruleset.NewRule("", ruleset.Stick{Family: p.Family, Protocol: p.Protocol, Endpoints: addrs, Affinity: affinity, Timeout: timeout}),
		ruleset.NewRule("", choose),
	}, plain...)}
}

// firewall writes which sources may use the addresses of load balancers.
func (w *writer) firewall(p Port) {
	if len(p.SourceRanges) == 0 || len(p.LoadBalancerIPs) == 0 {
		return
	}
	name := chainName("firewall", p)
	var rules []ruleset.Rule
	fromNode := false
	for _, r := range p.SourceRanges {
		rules = append(rules, ruleset.NewRule("", ruleset.From{Prefix: r}, ruleset.Return{}))
		fromNode = fromNode || slices.ContainsFunc(w.NodeAddresses, r.Contains)
	}
	for _, a := range p.LoadBalancerIPs {
		w.element(firewalled, p.Family, ruleset.VerdictGoto(name), a, p.Protocol, p.Port)
		if fromNode {
			// A node that has the address of the load balancer uses it as its source.
			rules = append(rules, ruleset.NewRule("", ruleset.From{Prefix: netip.PrefixFrom(a, a.BitLen())}, ruleset.Return{}))
		}
	}
	w.out.Chains[name] = ruleset.Chain{Rules: append(rules, ruleset.NewRule("", ruleset.Drop{}))}
}

// chainName returns a name that no other port of a service has: the parts contain no slash, and a
// port without a name is the only one of its service.
func chainName(kind string, p Port) string {
	name := kind + "/" + p.Namespace + "/" + p.Service + "/"
	if p.Name != "" {
		name += p.Name + "/"
	}
	return name + named(p.Protocol.String()+"-", p.Family)
}
