package proxy

import (
	"net/netip"
	"slices"

	"github.com/planekit/planekit/service/ruleset"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// An Endpoint is one address and port behind a [Port].
type Endpoint struct {
	Addr netip.AddrPort
	// Local means that it is on the node of the proxy.
	Local bool
	// Ready, Serving and Terminating are the conditions of the endpoint.
	Ready, Serving, Terminating bool
	// Zones and Nodes are the hints for which zones and nodes the endpoint is meant; empty for none.
	Zones, Nodes []string
}

// portName identifies the port of a service that an endpoint belongs to.
type portName struct {
	name     string
	protocol ruleset.Protocol
	family   ruleset.Family
}

// endpointsOf returns the endpoints in slices of one service by port, each list sorted by address. An
// address that is in several slices counts once, and as the pod that does not terminate.
func endpointsOf(all []*discoveryv1.EndpointSlice, node string) map[portName][]Endpoint {
	found := map[portName]map[netip.AddrPort]Endpoint{}
	for _, slice := range all {
		var family ruleset.Family
		switch slice.AddressType {
		case discoveryv1.AddressTypeIPv4:
			family = ruleset.IPv4
		case discoveryv1.AddressTypeIPv6:
			family = ruleset.IPv6
		default:
			continue
		}
		for _, p := range slice.Ports {
			if p.Name == nil || p.Port == nil || *p.Port == 0 {
				continue
			}
			name := portName{*p.Name, ruleset.TCP, family}
			if p.Protocol != nil {
				name.protocol = protocol(*p.Protocol)
			}
			if found[name] == nil {
				found[name] = map[netip.AddrPort]Endpoint{}
			}
			for i := range slice.Endpoints {
				addEndpoint(found[name], &slice.Endpoints[i], uint16(*p.Port), family, node)
			}
		}
	}
	sorted := map[portName][]Endpoint{}
	for name, endpoints := range found {
		var list []Endpoint
		for _, e := range endpoints {
			list = append(list, e)
		}
		slices.SortFunc(list, func(a, b Endpoint) int { return a.Addr.Compare(b.Addr) })
		sorted[name] = list
	}
	return sorted
}

func addEndpoint(to map[netip.AddrPort]Endpoint, e *discoveryv1.Endpoint, port uint16, family ruleset.Family, node string) {
	if len(e.Addresses) == 0 {
		return
	}
	a, err := netip.ParseAddr(e.Addresses[0])
	if err != nil || ruleset.FamilyOf(a) != family {
		return
	}
	endpoint := Endpoint{
		Addr: netip.AddrPortFrom(a, port), Local: e.NodeName != nil && node != "" && *e.NodeName == node,
		Ready: isTrue(e.Conditions.Ready, true), Serving: isTrue(e.Conditions.Serving, true), Terminating: isTrue(e.Conditions.Terminating, false),
	}
	if e.Hints != nil {
		for _, z := range e.Hints.ForZones {
			endpoint.Zones = append(endpoint.Zones, z.Name)
		}
		for _, n := range e.Hints.ForNodes {
			endpoint.Nodes = append(endpoint.Nodes, n.Name)
		}
	}
	if _, exists := to[endpoint.Addr]; !exists || !endpoint.Terminating {
		to[endpoint.Addr] = endpoint
	}
}

func isTrue(condition *bool, otherwise bool) bool {
	if condition == nil {
		return otherwise
	}
	return *condition
}

// A Choice is which endpoints of a port a node uses.
type Choice struct {
	// Cluster are the endpoints for traffic of policy Cluster, Local those for policy Local. They are
	// empty if the port has no such traffic.
	Cluster, Local []Endpoint
	// Any means that some node of the cluster has an endpoint.
	Any bool
}

// Choose returns the endpoints that a node uses: the ready ones, near ones if all of them have hints,
// and otherwise those that terminate and still serve.
func Choose(p Port, all []Endpoint, node, zone string) Choice {
	var c Choice
	if p.usesCluster() {
		near := nearby(all, node, zone)
		c.Cluster = filter(all, func(e Endpoint) bool { return e.Ready && near(e) })
		if len(c.Cluster) == 0 {
			c.Cluster = filter(all, func(e Endpoint) bool { return e.Serving && e.Terminating })
		}
		c.Any = len(c.Cluster) > 0
	}
	if p.usesLocal() {
		for _, e := range all {
			c.Any = c.Any || e.Ready || e.Serving && e.Terminating
		}
		c.Local = filter(all, func(e Endpoint) bool { return e.Local && e.Ready })
		if len(c.Local) == 0 {
			c.Local = filter(all, func(e Endpoint) bool { return e.Local && e.Serving && e.Terminating })
		}
	}
	return c
}

// nearby returns a function that reports whether an endpoint is meant for the node or its zone. Hints
// are followed if every ready endpoint has them and one names the node or the zone.
func nearby(all []Endpoint, node, zone string) func(Endpoint) bool {
	hintedNodes, hintedZones, forNode, forZone := true, true, false, false
	for _, e := range all {
		if !e.Ready {
			continue
		}
		hintedNodes, forNode = hintedNodes && len(e.Nodes) > 0, forNode || slices.Contains(e.Nodes, node)
		hintedZones, forZone = hintedZones && len(e.Zones) > 0, forZone || slices.Contains(e.Zones, zone)
	}
	switch {
	case hintedNodes && forNode:
		return func(e Endpoint) bool { return slices.Contains(e.Nodes, node) }
	case hintedZones && forZone:
		return func(e Endpoint) bool { return slices.Contains(e.Zones, zone) }
	}
	return func(Endpoint) bool { return true }
}

func filter(all []Endpoint, keep func(Endpoint) bool) []Endpoint {
	var kept []Endpoint
	for _, e := range all {
		if keep(e) {
			kept = append(kept, e)
		}
	}
	return kept
}

// localReady counts the addresses on the node that are ready on some port, for load balancers. A pod with
// an address of each family counts once.
func localReady(endpoints map[portName][]Endpoint) int {
	addrs := map[ruleset.Family]map[netip.Addr]bool{ruleset.IPv4: {}, ruleset.IPv6: {}}
	for name, list := range endpoints {
		for _, e := range list {
			if e.Local && e.Ready {
				addrs[name.family][e.Addr.Addr()] = true
			}
		}
	}
	return max(len(addrs[ruleset.IPv4]), len(addrs[ruleset.IPv6]))
}

// zoneOf returns the zone of a node.
func zoneOf(n *corev1.Node) string { return n.Labels[corev1.LabelTopologyZone] }
