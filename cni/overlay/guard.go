//go:build linux

package overlay

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// A guard is the nftables table by which nothing that a pod sends counts as a packet of another member:
//
//   - The port of the overlay takes packets from the underlay's interface, from the address of a member
//     to that of this host. A packet whose destination was translated is refused, and no packet to the
//     port of a member is forwarded: it would have an address of this host after masquerading.
//   - The source of a packet within VXLAN is in a range of the member that sent it, or is that member's
//     own address. The tunnel of the UDP backend checks ranges by itself.
//   - A forwarded packet with a source in the range of another member comes from the overlay, and one
//     with a source in the local range does not.
//
// Packets between members are not tracked. So no rule that translates addresses, such as that of a
// hostPort, can lead them elsewhere, and they fill no table.
type guard struct {
	table string
	sets  []guardSet
	// chains come after the chains that their rules go to.
	chains []guardChain
}

// guardSet is a set whose elements are keys or ranges of keys, sorted.
type guardSet struct {
	name string
	// fields are the sizes of the key's addresses in bytes.
	fields []int
	// ranges says that elements have an end.
	ranges   bool
	elements []guardElement
}

// guardElement is a key, or the range from it to end, which a set of one field excludes.
type guardElement struct{ key, end string }

type guardChain struct {
	name  string
	hook  *nftables.ChainHook // nil for a chain that rules go to
	order *nftables.ChainPriority
	rules []guardRule
}

// guardRule is a rule with its text, which identifies it.
type guardRule struct {
	text string
	code []expr.Any
}

// tablePrefix is followed by the overlay's number in the routing table: two overlays of one host have two.
const tablePrefix = "planekit-overlay-"

func (c *Config) guardTable() string { return fmt.Sprintf("%s%d", tablePrefix, c.Protocol) }

// guard returns the guard for members that are not refused. It is a pure function.
func (c *Config) guard(u *underlay, members []Member) *guard {
	g := &guard{table: c.guardTable()}
	var local, remote [2][]netip.Prefix
	for _, p := range c.Local.Subnets {
		local[familyIndex(p)] = append(local[familyIndex(p)], p)
	}
	for i := range members {
		for _, p := range members[i].Subnets {
			remote[familyIndex(p)] = append(remote[familyIndex(p)], p)
		}
	}
	for i, size := range sizes {
		g.sets = append(g.sets, rangeSet(fmt.Sprintf("local%d", i), size, local[i]), rangeSet(fmt.Sprintf("remote%d", i), size, remote[i]))
	}
	if c.hasDevice() {
		c.guardPort(g, u, members)
	}
	c.guardForward(g, u)
	return g
}

// sizes holds the sizes of addresses in bytes, by the index of their family.
var sizes = [2]int{4, 16}

func familyIndex(p netip.Prefix) int { return index(p.Addr().Is6()) }

func index(v6 bool) int {
	if v6 {
		return 1
	}
	return 0
}

// guardPort adds what protects the port of a backend that encapsulates.
func (c *Config) guardPort(g *guard, u *underlay, members []Member) {
	size := sizes[index(u.v6())]
	g.sets = append(g.sets, memberSet(u, members, size))
	port := c.toPort(u.v6())
	from, to := addressOf("saddr", u.v6()), addressOf("daddr", u.v6())
	here, isMember := is(u.address.AsSlice(), u.address.String()), in("members")
	checks := []guardRule{
		rule("drop", comesBy(u.name, expr.CmpOpNeq), drop()),
		rule("drop", tracked(), drop()),
		rule("return", from, isMember, to, here, returns()),
		rule("drop", drop()),
	}
	if c.Backend == VXLAN {
		checks = append(checks[:2:2], rule("drop", to, isNot(u.address.AsSlice(), u.address.String()), drop()))
		for i, inner := range []struct{ etherType, source int }{{unix.ETH_P_IP, 12}, {unix.ETH_P_IPV6, 8}} {
			name := fmt.Sprintf("inner%d", i)
			g.sets = append(g.sets, innerSet(name, u, members, i))
			checks = append(checks, rule("return", innerType(inner.etherType), sourcePair(u.v6(), inner.source, sizes[i]), in(name), returns()))
		}
		checks = append(checks, rule("drop", drop()))
	}
	g.chains = append(g.chains,
		guardChain{name: "port", rules: checks},
		guardChain{name: "prerouting", hook: nftables.ChainHookPrerouting, order: nftables.ChainPriorityRaw, rules: []guardRule{
			rule("notrack", comesBy(u.name, expr.CmpOpEq), port, from, isMember, to, here, notrack()),
		}},
		guardChain{name: "output", hook: nftables.ChainHookOutput, order: nftables.ChainPriorityRaw, rules: []guardRule{
			rule("notrack", port, from, here, to, isMember, notrack()),
		}},
		guardChain{name: "input", hook: nftables.ChainHookInput, order: nftables.ChainPriorityMangle, rules: []guardRule{
			rule("goto port", c.anyToPort(), goesTo("port")),
		}},
	)
}

// guardForward adds what is checked of forwarded packets.
func (c *Config) guardForward(g *guard, u *underlay) {
	var rules []guardRule
	if c.hasDevice() {
		rules = append(rules, rule("drop", c.toPort(u.v6()), addressOf("daddr", u.v6()), in("members"), drop()))
	}
	var local, remote []guardRule
	overlays := []string{u.name}
	if c.hasDevice() {
		overlays = append(overlays, c.Device)
	}
	for _, name := range overlays {
		local = append(local, rule("drop", comesBy(name, expr.CmpOpEq), drop()))
		if name == c.Device || !c.hasDevice() || c.DirectRouting {
			remote = append(remote, rule("return", comesBy(name, expr.CmpOpEq), returns()))
		}
	}
	remote = append(remote, rule("drop", drop()))
	g.chains = append(g.chains, guardChain{name: "local", rules: local}, guardChain{name: "remote", rules: remote})
	for i, v6 := range []bool{false, true} {
		source := addressOf("saddr", v6)
		rules = append(rules,
			rule("goto local", source, in(fmt.Sprintf("local%d", i)), goesTo("local")),
			rule("goto remote", source, in(fmt.Sprintf("remote%d", i)), goesTo("remote")))
	}
	g.chains = append(g.chains, guardChain{name: "forward", hook: nftables.ChainHookForward, order: nftables.ChainPriorityMangle, rules: rules})
}

// rangeSet returns a set of the addresses of ranges. Those that adjoin are one element.
func rangeSet(name string, size int, ranges []netip.Prefix) guardSet {
	s := guardSet{name: name, fields: []int{size}, ranges: true}
	ranges = slices.Clone(ranges)
	slices.SortFunc(ranges, comparePrefixes)
	for _, p := range ranges {
		first, after := string(p.Addr().AsSlice()), string(last(p).Next().AsSlice())
		if n := len(s.elements); n > 0 && s.elements[n-1].end == first {
			s.elements[n-1].end = after
			continue
		}
		s.elements = append(s.elements, guardElement{first, after})
	}
	return s
}

// last returns the last address of a range.
func last(p netip.Prefix) netip.Addr {
	bytes := p.Addr().AsSlice()
	for bit := p.Bits(); bit < p.Addr().BitLen(); bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	a, _ := netip.AddrFromSlice(bytes)
	return a
}

// memberSet returns the set of the members' addresses in the underlay.
func memberSet(u *underlay, members []Member, size int) guardSet {
	s := guardSet{name: "members", fields: []int{size}}
	for i := range members {
		s.elements = append(s.elements, guardElement{key: string(members[i].underlay(u.v6()).AsSlice())})
	}
	return s.sorted()
}

// innerSet returns the set of pairs of a member's address in the underlay and a source, of the family
// with an index, that its packets may have.
func innerSet(name string, u *underlay, members []Member, family int) guardSet {
	s := guardSet{name: name, fields: []int{sizes[index(u.v6())], sizes[family]}, ranges: true}
	for i := range members {
		m := &members[i]
		outer := string(m.underlay(u.v6()).AsSlice())
		may := slices.Clone(m.Subnets)
		for _, own := range []netip.Addr{m.Address, m.Address6} {
			if own.IsValid() {
				may = append(may, netip.PrefixFrom(own, own.BitLen()))
			}
		}
		for _, p := range may {
			if familyIndex(p) == family {
				s.elements = append(s.elements, guardElement{outer + string(p.Addr().AsSlice()), outer + string(last(p).AsSlice())})
			}
		}
	}
	return s.sorted()
}

// sorted sorts the elements and drops those that are there twice: members may share an address.
func (s guardSet) sorted() guardSet {
	slices.SortFunc(s.elements, compareElements)
	s.elements = slices.Compact(s.elements)
	return s
}

// part is a part of a rule.
type part struct {
	text string
	code []expr.Any
}

// rule joins parts. The verdict is in the text of the last part.
func rule(verdict string, parts ...part) guardRule {
	var r guardRule
	for _, p := range parts {
		if p.text != "" {
			r.text += p.text + " "
		}
		r.code = append(r.code, p.code...)
	}
	r.text += verdict
	return r
}

// firstRegister is the first of the kernel's registers of 4 bytes.
const firstRegister = unix.NFT_REG32_00

func load(base expr.PayloadBase, offset, size int) *expr.Payload {
	return &expr.Payload{Base: base, Offset: uint32(offset), Len: uint32(size), DestRegister: firstRegister}
}

func compare(op expr.CmpOp, data []byte) *expr.Cmp {
	return &expr.Cmp{Op: op, Register: firstRegister, Data: data}
}

func comesBy(name string, op expr.CmpOp) part {
	padded := make([]byte, unix.IFNAMSIZ)
	copy(padded, name)
	sign := ""
	if op == expr.CmpOpNeq {
		sign = "!= "
	}
	return part{fmt.Sprintf("iifname %s%s", sign, name), []expr.Any{&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: firstRegister}, compare(op, padded)}}
}

func ofFamily(v6 bool) []expr.Any {
	family := byte(unix.NFPROTO_IPV4)
	if v6 {
		family = unix.NFPROTO_IPV6
	}
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: firstRegister}, compare(expr.CmpOpEq, []byte{family})}
}

// toPort matches packets of a family to the overlay's port.
func (c *Config) toPort(v6 bool) part {
	port := c.anyToPort()
	return part{fmt.Sprintf("ipv6 %v %s", v6, port.text), append(ofFamily(v6), port.code...)}
}

// Offsets from the UDP header of a VXLAN packet: of the VXLAN identifier, and of the frame in it.
const (
	vniOffset   = 8 + 4
	frameOffset = 8 + 8
	etherHeader = 14
)

// anyToPort matches packets to the overlay's port. With VXLAN, other overlays may use the port for
// other identifiers.
func (c *Config) anyToPort() part {
	p := part{fmt.Sprintf("udp dport %d", c.Port), []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: firstRegister}, compare(expr.CmpOpEq, []byte{unix.IPPROTO_UDP}),
		load(expr.PayloadBaseTransportHeader, 2, 2), compare(expr.CmpOpEq, binaryutil.BigEndian.PutUint16(uint16(c.Port))),
	}}
	if c.Backend == VXLAN {
		p.text += fmt.Sprintf(" vni %d", c.VNI)
		p.code = append(p.code, load(expr.PayloadBaseTransportHeader, vniOffset, 3),
			compare(expr.CmpOpEq, binaryutil.BigEndian.PutUint32(uint32(c.VNI))[1:]))
	}
	return p
}

// addressOf loads an address of packets of a family.
func addressOf(side string, v6 bool) part {
	word, offset, size := "ip ", 12, 4
	if v6 {
		word, offset, size = "ip6 ", 8, 16
	}
	if side == "daddr" {
		offset += size
	}
	return part{word + side, append(ofFamily(v6), load(expr.PayloadBaseNetworkHeader, offset, size))}
}

// is and isNot compare what the part before has loaded.
func is(data []byte, text string) part { return part{text, []expr.Any{compare(expr.CmpOpEq, data)}} }
func isNot(data []byte, text string) part {
	return part{"!= " + text, []expr.Any{compare(expr.CmpOpNeq, data)}}
}

// in looks up what the part before has loaded.
func in(set string) part {
	return part{"@" + set, []expr.Any{&expr.Lookup{SourceRegister: firstRegister, SetName: set}}}
}

func tracked() part {
	return part{"ct state != untracked", []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: firstRegister},
		&expr.Bitwise{
			SourceRegister: firstRegister, DestRegister: firstRegister, Len: 4,
			Mask: binaryutil.NativeEndian.PutUint32(expr.CtStateBitUNTRACKED), Xor: make([]byte, 4),
		},
		compare(expr.CmpOpEq, make([]byte, 4)),
	}}
}

// innerType matches VXLAN packets by the type of the frame in them.
func innerType(etherType int) part {
	return part{fmt.Sprintf("inner type %#04x", etherType), []expr.Any{
		load(expr.PayloadBaseTransportHeader, frameOffset+etherHeader-2, 2), compare(expr.CmpOpEq, binaryutil.BigEndian.PutUint16(uint16(etherType))),
	}}
}

// sourcePair loads the source of a packet and that of the packet within.
func sourcePair(v6 bool, offset, size int) part {
	source := addressOf("saddr", v6)
	inner := load(expr.PayloadBaseTransportHeader, frameOffset+etherHeader+offset, size)
	inner.DestRegister += uint32(sizes[index(v6)] / 4)
	return part{source.text + fmt.Sprintf(" . inner saddr of %d bytes", size), append(source.code, inner)}
}

func notrack() part { return part{"", []expr.Any{&expr.Notrack{}}} }
func drop() part    { return part{"", []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}}} }
func returns() part { return part{"", []expr.Any{&expr.Verdict{Kind: expr.VerdictReturn}}} }
func goesTo(chain string) part {
	return part{"", []expr.Any{&expr.Verdict{Kind: expr.VerdictGoto, Chain: chain}}}
}
