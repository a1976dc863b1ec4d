//go:build linux

package portmap

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// part is a condition or a statement of a rule, as text and as the kernel's instructions. Conditions
// use register 1 and leave nothing in it.
type part struct {
	text string
	code []expr.Any
}

// is compares what code loads into register 1 with data.
func is(not bool, data []byte, code ...expr.Any) []expr.Any {
	op := expr.CmpOpEq
	if not {
		op = expr.CmpOpNeq
	}
	return append(code, &expr.Cmp{Op: op, Register: 1, Data: data})
}

// sign returns the operator of a comparison, with the space after it.
func sign(not bool) string {
	if not {
		return "!= "
	}
	return ""
}

// family restricts a rule to IPv4 or IPv6.
func family(v6 bool) part {
	name, number := "ipv4", byte(unix.NFPROTO_IPV4)
	if v6 {
		name, number = "ipv6", unix.NFPROTO_IPV6
	}
	return part{"meta nfproto " + name, is(false, []byte{number}, &expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1})}
}

// source and destination compare an address of a packet. The family must have been checked before.
func source(p netip.Prefix, not bool) part      { return address(p, not, "saddr", 12, 8) }
func destination(p netip.Prefix, not bool) part { return address(p, not, "daddr", 16, 24) }

// address compares the address at an offset of the header, which is one for each family.
func address(p netip.Prefix, not bool, name string, offset4, offset6 uint32) part {
	header, offset, size := "ip ", offset4, uint32(4)
	if p.Addr().Is6() {
		header, offset, size = "ip6 ", offset6, 16
	}
	text := p.String()
	code := []expr.Any{&expr.Payload{Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: size, DestRegister: 1}}
	if p.IsSingleIP() {
		text = p.Addr().String()
	} else {
		code = append(code, &expr.Bitwise{
			SourceRegister: 1, DestRegister: 1, Len: size,
			Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen()), Xor: make([]byte, size),
		})
	}
	return part{header + name + " " + sign(not) + text, is(not, p.Masked().Addr().AsSlice(), code...)}
}

// fromLink compares the interface by which a packet came in.
func fromLink(name string, not bool) part {
	data := make([]byte, unix.IFNAMSIZ)
	copy(data, name)
	return part{fmt.Sprintf("iifname %s%q", sign(not), name), is(not, data, &expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1})}
}

// toHost matches packets to an address of the host.
func toHost() part {
	return part{"fib daddr type local", is(false, binaryutil.NativeEndian.PutUint32(unix.RTN_LOCAL),
		&expr.Fib{Register: 1, FlagDADDR: true, ResultADDRTYPE: true})}
}

// toPort matches packets to a port; tcp, udp and sctp have it at the same place.
func toPort(protocol string, port uint16) part {
	code := is(false, []byte{protocols[protocol]}, &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1})
	code = append(code, &expr.Payload{Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2, DestRegister: 1})
	return part{fmt.Sprintf("%s dport %d", protocol, port), is(false, binaryutil.BigEndian.PutUint16(port), code...)}
}

// masked leaves bits of register 1, and sets others.
func masked(mask, set uint32) expr.Any {
	return &expr.Bitwise{
		SourceRegister: 1, DestRegister: 1, Len: 4,
		Mask: binaryutil.NativeEndian.PutUint32(mask), Xor: binaryutil.NativeEndian.PutUint32(set),
	}
}

// marked matches packets that have a bit of the mark.
func marked(bit int) part {
	value := uint32(1) << bit
	return part{fmt.Sprintf("meta mark & %#x == %#x", value, value), is(false, binaryutil.NativeEndian.PutUint32(value),
		&expr.Meta{Key: expr.MetaKeyMARK, Register: 1}, masked(value, 0))}
}

// unrelated matches packets that belong to no known connection.
func unrelated() part {
	return part{"ct state != established,related", is(false, binaryutil.NativeEndian.PutUint32(0),
		&expr.Ct{Key: expr.CtKeySTATE, Register: 1}, masked(expr.CtStateBitESTABLISHED|expr.CtStateBitRELATED, 0))}
}

// setMark sets a bit of the mark and goes on with the next rule.
func setMark(bit int) part {
	value := uint32(1) << bit
	return part{fmt.Sprintf("meta mark set meta mark | %#x", value), []expr.Any{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: 1},
		masked(^value, value),
		&expr.Meta{Key: expr.MetaKeyMARK, Register: 1, SourceRegister: true},
	}}
}

// dnat forwards a connection.
func dnat(to netip.AddrPort) part {
	header, number := "ip", uint32(unix.NFPROTO_IPV4)
	if to.Addr().Is6() {
		header, number = "ip6", unix.NFPROTO_IPV6
	}
	return part{fmt.Sprintf("dnat %s to %v", header, to), []expr.Any{
		&expr.Immediate{Register: 1, Data: to.Addr().AsSlice()},
		&expr.Immediate{Register: 2, Data: binaryutil.BigEndian.PutUint16(to.Port())},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: number, RegAddrMin: 1, RegProtoMin: 2},
	}}
}

// masquerade gives a connection the host's address.
func masquerade() part { return part{"masquerade", []expr.Any{&expr.Masq{}}} }

func drop() part { return part{"drop", []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}}} }

func jump(chain string) part {
	return part{"jump " + chain, []expr.Any{&expr.Verdict{Kind: expr.VerdictJump, Chain: chain}}}
}
