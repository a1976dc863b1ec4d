package ruleset

import (
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// firstRegister is the first of the kernel's registers of 4 bytes. A value of 16 bytes takes four.
const firstRegister = unix.NFT_REG32_00

// encoder makes the kernel's instructions of rules, and the anonymous sets that these need.
type encoder struct {
	batch *nftables.Conn
	table *nftables.Table
	// nextSet numbers the sets of a batch.
	nextSet uint32
}

func (e *encoder) rule(r Rule) ([]expr.Any, error) {
	var code []expr.Any
	for _, s := range r.statements {
		more, err := e.statement(s)
		if err != nil {
			return nil, fmt.Errorf("rule %q: %w", r, err)
		}
		code = append(code, more...)
	}
	return code, nil
}

func (e *encoder) statement(s Statement) ([]expr.Any, error) {
	switch s := s.(type) {
	case From:
		return address(s.Prefix, s.Not, SourceAddr), nil
	case To:
		return address(s.Prefix, s.Not, DestAddr), nil
	case In:
		code, _ := load(s.Family, s.Fields, firstRegister)
		return append(code, &expr.Lookup{SourceRegister: firstRegister, SetName: s.Set, Invert: s.Not}), nil
	case Exceeds:
		code, _ := load(s.Family, []Field{SourceAddr}, firstRegister)
		return append(code, &expr.Dynset{
			SrcRegKey: firstRegister, SetName: s.Set, Operation: unix.NFT_DYNSET_OP_ADD,
			Exprs: []expr.Any{&expr.Connlimit{Count: uint32(s.Most), Flags: expr.NFT_CONNLIMIT_F_INV}},
		}), nil
	case Dispatch:
		code, _ := load(s.Family, s.Fields, firstRegister)
		return append(code, &expr.Lookup{SourceRegister: firstRegister, DestRegister: unix.NFT_REG_VERDICT, IsDestRegSet: true, SetName: s.Map}), nil
	case Balance:
		return balance(s)
	case BalanceByPacket:
		return balanceByPacket(s)
	case Stick:
		return e.stick(s)
	}
	if code := condition(s); code != nil {
		return code, nil
	}
	if code := action(s); code != nil {
		return code, nil
	}
	return nil, fmt.Errorf("statement %T is unknown", s)
}

// condition encodes the conditions that compare one value of the packet.
func condition(s Statement) []expr.Any {
	native := binaryutil.NativeEndian
	switch s := s.(type) {
	case OfFamily:
		number := byte(unix.NFPROTO_IPV4)
		if s.Family == IPv6 {
			number = unix.NFPROTO_IPV6
		}
		return is([]byte{number}, &expr.Meta{Key: expr.MetaKeyNFPROTO, Register: firstRegister})
	case ToServerPorts:
		return inPorts(&expr.Ct{Key: expr.CtKeyPROTOSRC, Direction: reply, Register: firstRegister}, s.First, s.Last)
	case OfConnection:
		return is([]byte{byte(s.Protocol)}, &expr.Ct{Key: expr.CtKeyPROTOCOL, Register: firstRegister})
	case FromLink:
		return is(interfaceName(s.Name), &expr.Meta{Key: expr.MetaKeyIIFNAME, Register: firstRegister})
	case ToLink:
		return is(interfaceName(s.Name), &expr.Meta{Key: expr.MetaKeyOIFNAME, Register: firstRegister})
	case OfEtherType:
		return is(binaryutil.BigEndian.PutUint16(s.Type), &expr.Payload{Base: expr.PayloadBaseLLHeader, Offset: 12, Len: 2, DestRegister: firstRegister})
	case FromHost:
		return is(native.PutUint32(unix.RTN_LOCAL), &expr.Fib{Register: firstRegister, FlagSADDR: true, ResultADDRTYPE: true})
	case ToHost:
		return is(native.PutUint32(unix.RTN_LOCAL), &expr.Fib{Register: firstRegister, FlagDADDR: true, ResultADDRTYPE: true})
	case NeighborSolicitation:
		return neighborSolicitation()
	case NewConnection:
		return has(expr.CtStateBitNEW, &expr.Ct{Key: expr.CtKeySTATE, Register: firstRegister})
	case OfDirection:
		direction := byte(0)
		if s.Reply {
			direction = 1
		}
		return is([]byte{direction}, &expr.Ct{Key: expr.CtKeyDIRECTION, Register: firstRegister})
	case Related:
		protocol := byte(unix.IPPROTO_ICMP)
		if s.Family == IPv6 {
			protocol = unix.IPPROTO_ICMPV6
		}
		code := is([]byte{protocol}, &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: firstRegister})
		return append(code, has(expr.CtStateBitRELATED, &expr.Ct{Key: expr.CtKeySTATE, Register: firstRegister})...)
	case NoConnection:
		return has(expr.CtStateBitINVALID|expr.CtStateBitUNTRACKED, &expr.Ct{Key: expr.CtKeySTATE, Register: firstRegister})
	case Translated:
		const translated = 0x20 // IPS_DST_NAT
		return has(translated, &expr.Ct{Key: expr.CtKeySTATUS, Register: firstRegister})
	case Marked:
		return has(1<<s.Bit, &expr.Meta{Key: expr.MetaKeyMARK, Register: firstRegister})
	}
	return nil
}

// reply is a direction of a connection, IP_CT_DIR_REPLY. The kernel reads one byte, of the four that package expr sends the
// first.
const reply = 1 << 24

// inPorts compares the port that code loads with a range.
func inPorts(code expr.Any, first, last uint16) []expr.Any {
	if first == last {
		return is(binaryutil.BigEndian.PutUint16(first), code)
	}
	return []expr.Any{code, &expr.Range{Op: expr.CmpOpEq, Register: firstRegister,
		FromData: binaryutil.BigEndian.PutUint16(first), ToData: binaryutil.BigEndian.PutUint16(last)}}
}

// interfaceName returns the name of an interface as the kernel compares it.
func interfaceName(name string) []byte { return []byte(KeyOf(name)) }

// maxSolicitation is the length of a neighbor solicitation with a hardware address and a nonce, in bytes.
const maxSolicitation = 40

// neighborSolicitation checks the lengths, so that the messages, which are always let through, carry little else.
func neighborSolicitation() []expr.Any {
	code := is([]byte{unix.IPPROTO_ICMPV6}, &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: firstRegister})
	code = append(code,
		&expr.Payload{Base: expr.PayloadBaseNetworkHeader, Offset: 4, Len: 2, DestRegister: firstRegister},
		&expr.Range{Op: expr.CmpOpEq, Register: firstRegister, FromData: []byte{0, 0}, ToData: []byte{0, maxSolicitation}})
	code = append(code, is([]byte{255}, &expr.Payload{Base: expr.PayloadBaseNetworkHeader, Offset: 7, Len: 1, DestRegister: firstRegister})...)
	return append(code,
		&expr.Payload{Base: expr.PayloadBaseTransportHeader, Offset: 0, Len: 1, DestRegister: firstRegister},
		&expr.Range{Op: expr.CmpOpEq, Register: firstRegister, FromData: []byte{135}, ToData: []byte{136}})
}

// action encodes what does something with the packet.
func action(s Statement) []expr.Any {
	switch s := s.(type) {
	case SetMark:
		return mark(^(uint32(1) << s.Bit), 1<<s.Bit)
	case ClearMark:
		return mark(^(uint32(1) << s.Bit), 0)
	case Jump:
		return []expr.Any{&expr.Verdict{Kind: expr.VerdictJump, Chain: s.Chain}}
	case Goto:
		return []expr.Any{&expr.Verdict{Kind: expr.VerdictGoto, Chain: s.Chain}}
	case Accept:
		return []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}}
	case Drop:
		return []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}}
	case Return:
		return []expr.Any{&expr.Verdict{Kind: expr.VerdictReturn}}
	case Reject:
		return []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_PORT_UNREACH}}
	case Masquerade:
		return []expr.Any{&expr.Masq{FullyRandom: true}}
	}
	return nil
}

// is compares what code loads with data.
func is(data []byte, code ...expr.Any) []expr.Any {
	return append(code, &expr.Cmp{Op: expr.CmpOpEq, Register: firstRegister, Data: data})
}

// has matches if what code loads has one of some bits.
func has(bits uint32, code ...expr.Any) []expr.Any {
	return append(code, masked(bits, 0), &expr.Cmp{Op: expr.CmpOpNeq, Register: firstRegister, Data: make([]byte, 4)})
}

func masked(mask, set uint32) expr.Any {
	return &expr.Bitwise{
		SourceRegister: firstRegister, DestRegister: firstRegister, Len: 4,
		Mask: binaryutil.NativeEndian.PutUint32(mask), Xor: binaryutil.NativeEndian.PutUint32(set),
	}
}

// mark keeps some bits of the packet's mark and sets others.
func mark(keep, set uint32) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: firstRegister},
		masked(keep, set),
		&expr.Meta{Key: expr.MetaKeyMARK, Register: firstRegister, SourceRegister: true},
	}
}

func address(p netip.Prefix, negated bool, field Field) []expr.Any {
	code, _ := load(FamilyOf(p.Addr()), []Field{field}, firstRegister)
	if !p.IsSingleIP() {
		size := p.Addr().BitLen() / 8
		code = append(code, &expr.Bitwise{
			SourceRegister: firstRegister, DestRegister: firstRegister, Len: uint32(size),
			Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen()), Xor: make([]byte, size),
		})
	}
	op := expr.CmpOpEq
	if negated {
		op = expr.CmpOpNeq
	}
	return append(code, &expr.Cmp{Op: op, Register: firstRegister, Data: p.Masked().Addr().AsSlice()})
}

// load reads fields of the packet into registers and returns the first register after them.
func load(f Family, fields []Field, register uint32) ([]expr.Any, uint32) {
	var code []expr.Any
	for _, field := range fields {
		switch field {
		case SourceAddr, DestAddr:
			offset, size := uint32(12), uint32(4)
			if f == IPv6 {
				offset, size = 8, 16
			}
			if field == DestAddr {
				offset += size
			}
			code = append(code, &expr.Payload{Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: size, DestRegister: register})
			register += size / 4
		case ProtocolNumber:
			code = append(code, &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register})
			register++
		case DestPort:
			code = append(code, &expr.Payload{Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2, DestRegister: register})
			register++
		case InLink:
			code = append(code, &expr.Meta{Key: expr.MetaKeyIIFNAME, Register: register})
			register += nameLength / 4
		case ServerPort:
			code = append(code, &expr.Ct{Key: expr.CtKeyPROTOSRC, Direction: reply, Register: register})
			register++
		}
	}
	return code, register
}

// size returns how many registers an address takes.
func (f Family) size() uint32 {
	if f == IPv4 {
		return 1
	}
	return 4
}

func (f Family) number() uint32 {
	if f == IPv4 {
		return unix.NFPROTO_IPV4
	}
	return unix.NFPROTO_IPV6
}

func (f Family) addressType() nftables.SetDatatype {
	if f == IPv4 {
		return nftables.TypeIPAddr
	}
	return nftables.TypeIP6Addr
}

func (f Family) endpointType() nftables.SetDatatype {
	return nftables.MustConcatSetType(f.addressType(), nftables.TypeInetService)
}

// balance leaves the chosen endpoint in the register after that of the source and translates to it.
func balance(s Balance) ([]expr.Any, error) {
	if s.Count < 1 {
		return nil, fmt.Errorf("%d endpoints", s.Count)
	}
	code := is([]byte{byte(s.Protocol)}, &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: firstRegister})
	source, chosen := uint32(firstRegister), uint32(firstRegister)
	if s.Affinity != "" {
		load, next := load(s.Family, []Field{SourceAddr}, source)
		code, chosen = append(code, load...), next
	}
	// A group takes two registers, and the number of the endpoint is in the next.
	code = append(code,
		&expr.Immediate{Register: chosen, Data: groupID(s.Group)},
		&expr.Numgen{Register: chosen + 2, Modulus: uint32(s.Count), Type: unix.NFT_NG_RANDOM},
		&expr.Lookup{SourceRegister: chosen, DestRegister: chosen, IsDestRegSet: true, SetName: s.Map})
	if s.Affinity != "" {
		// The kernel's update does not change the value of an element that exists. That of what is deleted
		// does not matter, but must be given.
		code = append(code,
			&expr.Dynset{SrcRegKey: source, SrcRegData: chosen, SetName: s.Affinity, Operation: dynsetDelete},
			remember(s.Affinity, source, chosen, s.Timeout))
	}
	return append(code, translate(s.Family, chosen)), nil
}

func balanceByPacket(s BalanceByPacket) ([]expr.Any, error) {
	if s.Count < 1 {
		return nil, fmt.Errorf("%d endpoints", s.Count)
	}
	code, next := load(s.Family, s.Fields, firstRegister)
	return append(code,
		&expr.Numgen{Register: next, Modulus: uint32(s.Count), Type: unix.NFT_NG_RANDOM},
		&expr.Lookup{SourceRegister: firstRegister, DestRegister: firstRegister, IsDestRegSet: true, SetName: s.Map},
		translate(s.Family, firstRegister)), nil
}

func (e *encoder) stick(s Stick) ([]expr.Any, error) {
	code := is([]byte{byte(s.Protocol)}, &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: firstRegister})
	source := uint32(firstRegister)
	load, chosen := load(s.Family, []Field{SourceAddr}, source)
	endpoints := make([]nftables.SetElement, len(s.Endpoints))
	for i, endpoint := range s.Endpoints {
		endpoints[i] = nftables.SetElement{Key: endpointData(endpoint)}
	}
	set, err := e.anonymous(&nftables.Set{KeyType: s.Family.endpointType()}, endpoints)
	if err != nil {
		return nil, err
	}
	return append(append(code, load...),
		&expr.Lookup{SourceRegister: source, DestRegister: chosen, IsDestRegSet: true, SetName: s.Affinity},
		&expr.Lookup{SourceRegister: chosen, SetID: set.ID, SetName: set.Name},
		remember(s.Affinity, source, chosen, s.Timeout),
		translate(s.Family, chosen)), nil
}

// dynsetDelete is NFT_DYNSET_OP_DELETE of linux/netfilter/nf_tables.h.
const dynsetDelete = 2

func remember(set string, source, chosen uint32, timeout time.Duration) expr.Any {
	return &expr.Dynset{SrcRegKey: source, SrcRegData: chosen, SetName: set, Operation: unix.NFT_DYNSET_OP_UPDATE, Timeout: timeout}
}

func translate(f Family, register uint32) expr.Any {
	return &expr.NAT{Type: expr.NATTypeDestNAT, Family: f.number(), RegAddrMin: register, RegProtoMin: register + f.size()}
}

// anonymous adds a set that belongs to the next rule.
func (e *encoder) anonymous(s *nftables.Set, elements []nftables.SetElement) (*nftables.Set, error) {
	e.nextSet++
	s.Table, s.ID, s.Anonymous, s.Constant, s.Name = e.table, e.nextSet, true, true, "__set%d"
	s.Size = uint32(len(elements))
	if err := e.batch.AddSet(s, nil); err != nil {
		return nil, err
	}
	// AddSet would put all elements into one attribute, which holds 64 KiB.
	for len(elements) > 0 {
		n := min(len(elements), elementsPerMessage)
		plain := *s
		plain.Anonymous = false // which SetAddElements would refuse
		if err := e.batch.SetAddElements(&plain, elements[:n]); err != nil {
			return nil, err
		}
		elements = elements[n:]
	}
	return s, nil
}

// elementsPerMessage bounds a message: 64 KiB of elements with at most 120 bytes and the name of a chain.
const elementsPerMessage = 200

func port(e netip.AddrPort) []byte { return binaryutil.BigEndian.PutUint16(e.Port()) }

func endpointData(e netip.AddrPort) []byte {
	return append(append(e.Addr().AsSlice(), port(e)...), 0, 0)
}
