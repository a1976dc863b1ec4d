package proxy

import (
	"net/netip"

	"github.com/planekit/planekit/service/ruleset"
)

// A flowTarget is where UDP packets were sent to, before the translation, and where they went. The
// address of a node port is not valid.
type flowTarget struct {
	to       netip.AddrPort
	endpoint netip.AddrPort
}

// flowTargets returns all pairs that packets of a service may belong to. Endpoints that serve count,
// whatever the policy of the service says: a changed policy must not end flows.
func flowTargets(ports []Port, endpoints map[portName][]Endpoint) map[flowTarget]bool {
	targets := map[flowTarget]bool{}
	for _, p := range ports {
		if p.Protocol != ruleset.UDP {
			continue
		}
		for _, to := range p.udpTargets() {
			targets[flowTarget{to: to}] = true
			for _, e := range endpoints[portName{p.Name, p.Protocol, p.Family}] {
				if e.Serving {
					targets[flowTarget{to, e.Addr}] = true
				}
			}
		}
	}
	return targets
}

// udpTargets returns the addresses and ports at which clients reach the port.
func (p Port) udpTargets() []netip.AddrPort {
	all := []netip.AddrPort{netip.AddrPortFrom(p.ClusterIP, p.Port)}
	for _, addrs := range [][]netip.Addr{p.ExternalIPs, p.LoadBalancerIPs} {
		for _, a := range addrs {
			all = append(all, netip.AddrPortFrom(a, p.Port))
		}
	}
	if p.NodePort != 0 {
		all = append(all, netip.AddrPortFrom(netip.Addr{}, p.NodePort))
	}
	return all
}

// flows are targets whose endpoints changed: flows to them that go elsewhere have ended.
type flows map[netip.AddrPort]map[netip.AddrPort]bool

// add compares the targets of a service before and now. With all, flows of a former process are
// looked at, too.
func (f *flows) add(before, now map[flowTarget]bool, all bool) {
	had := map[netip.AddrPort]bool{}
	changed := map[netip.AddrPort]bool{}
	for t := range before {
		if t.endpoint.IsValid() {
			had[t.to] = true
		}
		if !now[t] {
			changed[t.to] = true
		}
	}
	for t := range now {
		// New endpoints matter if there was none: packets went nowhere, or to the address itself.
		if all || !before[t] && !had[t.to] {
			changed[t.to] = true
		}
	}
	if len(changed) == 0 {
		return
	}
	if *f == nil {
		*f = flows{}
	}
	for to := range changed {
		(*f)[to] = map[netip.AddrPort]bool{}
	}
	for t := range now {
		if endpoints, ok := (*f)[t.to]; ok && t.endpoint.IsValid() {
			endpoints[t.endpoint] = true
		}
	}
}

// ended reports whether a flow to an address has ended because its endpoint has. A flow to a port of
// the node counts if it was translated: others are of a program on the node.
func (f flows) ended(to, endpoint netip.AddrPort) bool {
	if endpoints, ok := f[to]; ok && !endpoints[endpoint] {
		return true
	}
	endpoints, ok := f[netip.AddrPortFrom(netip.Addr{}, to.Port())]
	return ok && to != endpoint && !endpoints[endpoint]
}
