//go:build linux

package bridge

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// spoofChain is a chain of a guard. The first rules that match decide.
type spoofChain struct {
	name  string
	rules []spoofRule
}

// spoofRule is a rule with its text, which identifies it.
type spoofRule struct {
	text string
	code []expr.Any
}

// ingress is the name of the chain that sees all frames. It is the last, after those that it goes to.
const ingress = "ingress"

// chains returns what the guard lets pass, and drops the rest: with the container's hardware address,
//
//   - ARP about the container's own address;
//   - Neighbor Discovery for its own addresses, and reports of multicast listeners;
//   - IP packets from its own addresses that are neither multicast nor broadcast nor to addresses of one
//     link or machine. Behind a gateway, these get its hardware address: it routes them, also to the other
//     containers of the bridge, so that the host's rules see them.
//
// Without addresses, all frames with the hardware address pass.
func (g spoofGuard) chains() []spoofChain {
	foreign := when("drop", link("ether saddr", 6, expr.CmpOpNeq, g.mac, 6))
	if !g.byAddress {
		return []spoofChain{{ingress, []spoofRule{foreign}}}
	}
	return append(g.familyChains(), spoofChain{ingress, []spoofRule{
		foreign,
		when("goto ip", etherType(unix.ETH_P_IP), goTo("ip")),
		when("goto ip6", etherType(unix.ETH_P_IPV6), goTo("ip6")),
		when("goto arp", etherType(unix.ETH_P_ARP), goTo("arp")),
		when("drop"), // frames with a VLAN too
	}})
}

func (g spoofGuard) familyChains() []spoofChain {
	var own4, own6 []netip.Addr
	for _, a := range g.addresses {
		if a.Is4() {
			own4 = append(own4, a)
		} else {
			own6 = append(own6, a)
		}
	}
	target, discovery := discoveryChains(append(own6[:len(own6):len(own6)], linkLocal(g.mac)), linkLocal(g.mac))
	toGroup := link("ether daddr group", 0, expr.CmpOpNeq, []byte{0}, 1, 1)
	ip := []spoofRule{
		when("drop", network("ip daddr 127/8", 16, expr.CmpOpEq, []byte{127}, 1)), // the host may route it to itself: see portmap
		when("drop", toGroup),
		when("drop", protocol(unix.IPPROTO_ICMP), transport("redirect", 0, expr.CmpOpEq, []byte{5}, 1)),
		when("drop", protocol(unix.IPPROTO_UDP), transport("from a server of DHCP", 0, expr.CmpOpEq, []byte{0, 67}, 2)),
	}
	ip6 := []spoofRule{
		when("jump discovery", protocol(unix.IPPROTO_ICMPV6), part{code: []expr.Any{&expr.Verdict{Kind: expr.VerdictJump, Chain: "discovery"}}}),
		when("drop", toGroup),
		when("drop", network("ip6 daddr fe80::/10", 24, expr.CmpOpEq, []byte{0xfe, 0x80}, 2, 0xff, 0xc0)),
		when("drop", protocol(unix.IPPROTO_UDP), transport("from a server of DHCP", 0, expr.CmpOpEq, []byte{2, 35}, 2)),
	}
	for _, a := range own4 {
		ip = append(ip, when("accept", source(a), g.routed()))
	}
	for _, a := range own6 {
		ip6 = append(ip6, when("accept", source(a), g.routed()))
	}
	return []spoofChain{
		target, discovery, {"ip", append(ip, when("drop"))}, {"ip6", append(ip6, when("drop"))}, {"arp", g.arpRules(own4)},
	}
}

// arpRules lets requests and replies from own addresses pass, and probes, which have no address.
func (g spoofGuard) arpRules(own []netip.Addr) []spoofRule {
	// Ethernet and IPv4, with their sizes of addresses.
	form := network("arp of ip", 0, expr.CmpOpEq, []byte{0, 1, 8, 0, 6, 4}, 6)
	from := network("from own hardware address", 8, expr.CmpOpEq, g.mac, 6)
	var rules []spoofRule
	for _, a := range own {
		rules = append(rules, when("accept", form, from, network("from "+a.String(), 14, expr.CmpOpEq, a.AsSlice(), 4)))
	}
	return append(rules,
		when("accept", form, from, network("request", 6, expr.CmpOpEq, []byte{0, 1}, 2), network("from none", 14, expr.CmpOpEq, make([]byte, 4), 4)),
		when("drop"))
}

// Types of ICMPv6 (RFC 4443, 4861, 2710, 3810 and 4286).
const (
	listenerQuery, listenerReport, listenerDone, listenerReport2 = 130, 131, 132, 143
	neighborSolicitation, neighborAdvertisement, redirect        = 135, 136, 137
	firstRouterDiscovery, lastRouterDiscovery                    = 151, 153
)

// discoveryChains returns the chain that accepts messages about an own address, and that of all messages
// by which the hosts of a link find each other, their routers and listeners of multicasts. From other
// messages the latter returns.
func discoveryChains(own []netip.Addr, linkLocal netip.Addr) (target, discovery spoofChain) {
	kind := func(first, last byte) part {
		p := transport(fmt.Sprintf("icmpv6 type >= %d", first), 0, expr.CmpOpGte, []byte{first}, 1)
		return joined(p, transport(fmt.Sprintf("<= %d", last), 0, expr.CmpOpLte, []byte{last}, 1))
	}
	target.name, discovery.name = "target", "discovery"
	none := netip.IPv6Unspecified()
	for _, a := range own {
		target.rules = append(target.rules, when("accept", transport("target "+a.String(), 8, expr.CmpOpEq, a.AsSlice(), 16)))
		discovery.rules = append(discovery.rules,
			when("goto target", kind(neighborAdvertisement, neighborAdvertisement), source(a), goTo("target")),
			when("accept", kind(neighborSolicitation, neighborSolicitation), source(a)))
	}
	target.rules = append(target.rules, when("drop"))
	// Detection of duplicate addresses.
	discovery.rules = append(discovery.rules, when("goto target", kind(neighborSolicitation, neighborSolicitation), source(none), goTo("target")))
	for _, a := range []netip.Addr{linkLocal, none} {
		discovery.rules = append(discovery.rules,
			when("accept", kind(listenerReport, listenerDone), source(a)),
			when("accept", kind(listenerReport2, listenerReport2), source(a)))
	}
	discovery.rules = append(discovery.rules,
		when("drop", kind(listenerQuery, redirect)),
		when("drop", kind(listenerReport2, listenerReport2)),
		when("drop", kind(firstRouterDiscovery, lastRouterDiscovery)))
	return target, discovery
}

// linkLocal returns the link-local address that the kernel gives an interface (RFC 4291, appendix A).
func linkLocal(m net.HardwareAddr) netip.Addr {
	return netip.AddrFrom16([16]byte{0xfe, 0x80, 8: m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]})
}

// part is a part of a rule.
type part struct {
	text string
	code []expr.Any
}

func joined(a, b part) part { return part{a.text + " " + b.text, append(a.code, b.code...)} }

// when joins parts to a rule and ends with a verdict, unless the last part is one.
func when(verdict string, parts ...part) spoofRule {
	var r spoofRule
	for _, p := range parts {
		if p.text != "" {
			r.text += p.text + " "
		}
		r.code = append(r.code, p.code...)
	}
	r.text += verdict
	switch verdict {
	case "drop":
		r.code = append(r.code, &expr.Verdict{Kind: expr.VerdictDrop})
	case "accept":
		r.code = append(r.code, &expr.Verdict{Kind: expr.VerdictAccept})
	}
	return r
}

func goTo(chain string) part {
	return part{code: []expr.Any{&expr.Verdict{Kind: expr.VerdictGoto, Chain: chain}}}
}

// compared compares size bytes of a frame, of which only those bits count that are in mask.
func compared(base expr.PayloadBase, text string, offset int, op expr.CmpOp, data []byte, size int, mask []byte) part {
	code := []expr.Any{&expr.Payload{Base: base, Offset: uint32(offset), Len: uint32(size), DestRegister: 1}}
	if len(mask) > 0 {
		code = append(code, &expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: uint32(size), Mask: mask, Xor: make([]byte, size)})
	}
	return part{text, append(code, &expr.Cmp{Op: op, Register: 1, Data: data})}
}

func link(text string, offset int, op expr.CmpOp, data []byte, size int, mask ...byte) part {
	return compared(expr.PayloadBaseLLHeader, text, offset, op, data, size, mask)
}

func network(text string, offset int, op expr.CmpOp, data []byte, size int, mask ...byte) part {
	return compared(expr.PayloadBaseNetworkHeader, text, offset, op, data, size, mask)
}

func transport(text string, offset int, op expr.CmpOp, data []byte, size int) part {
	return compared(expr.PayloadBaseTransportHeader, text, offset, op, data, size, nil)
}

// etherType matches frames without a VLAN: the kernel shows the type of a VLAN first.
func etherType(kind uint16) part {
	return link(fmt.Sprintf("ether type %#04x", kind), 12, expr.CmpOpEq, []byte{byte(kind >> 8), byte(kind)}, 2)
}

func protocol(number byte) part {
	return part{fmt.Sprintf("l4proto %d", number), []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{number}},
	}}
}

// source matches the source of IP packets; their family must have been matched.
func source(a netip.Addr) part {
	if a.Is4() {
		return network("ip saddr "+a.String(), 12, expr.CmpOpEq, a.AsSlice(), 4)
	}
	return network("ip6 saddr "+a.String(), 8, expr.CmpOpEq, a.AsSlice(), 16)
}

// routed sends a frame to the gateway, if there is one.
func (g spoofGuard) routed() part {
	if g.gateway == nil {
		return part{}
	}
	return part{"ether daddr set " + g.gateway.String(), []expr.Any{
		&expr.Immediate{Register: 1, Data: g.gateway},
		&expr.Payload{OperationType: expr.PayloadWrite, SourceRegister: 1, Base: expr.PayloadBaseLLHeader, Offset: 0, Len: 6},
	}}
}
