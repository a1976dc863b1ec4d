package ruleset

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// A Family is IPv4 or IPv6.
type Family uint8

// The families.
const (
	IPv4 Family = 4
	IPv6 Family = 6
)

// FamilyOf returns the family of an address.
func FamilyOf(a netip.Addr) Family {
	if a.Is4() {
		return IPv4
	}
	return IPv6
}

// header is the word of nft for the family's header.
func (f Family) header() string {
	if f == IPv4 {
		return "ip"
	}
	return "ip6"
}

// A Protocol is a transport protocol by its number in the IP header.
type Protocol uint8

// The protocols of services and policies.
const (
	TCP  Protocol = 6
	UDP  Protocol = 17
	SCTP Protocol = 132
)

func (p Protocol) String() string {
	switch p {
	case TCP:
		return "tcp"
	case UDP:
		return "udp"
	case SCTP:
		return "sctp"
	}
	return strconv.Itoa(int(p))
}

// A Field is a part of a packet that a lookup reads.
type Field uint8

// The fields. Addresses are those of the lookup's family.
const (
	SourceAddr Field = iota + 1
	DestAddr
	ProtocolNumber
	DestPort
	// GroupID and Number are no parts of a packet: rules give them to maps, see [EndpointKey].
	GroupID
	Number
	// ServerPort is the port at which a connection is accepted, after translation, in packets of both directions and in errors
	// about it.
	ServerPort
	// InLink is the name of the interface by which a packet came in. In tables of family bridge that is a port.
	InLink
)

// A Statement is a condition or an action of a rule. Its String is its form in the language of nft.
type Statement interface {
	fmt.Stringer
	statement()
}

type (
	// OfFamily matches packets of a family. It must come before statements that read addresses.
	OfFamily struct{ Family Family }
	// From matches packets by their source.
	From struct {
		Prefix netip.Prefix
		Not    bool
	}
	// To matches packets by their destination.
	To struct {
		Prefix netip.Prefix
		Not    bool
	}
	// FromHost matches packets from an address of the host.
	FromHost struct{}
	// ToHost matches packets to an address of the host.
	ToHost struct{}
	// FromLink matches packets that came in by an interface, and ToLink packets that leave by one. Ports of a bridge count as
	// the bridge.
	FromLink struct{ Name string }
	ToLink   struct{ Name string }
	// OfEtherType matches frames by the type in their header, in tables of family bridge. A frame of a VLAN has that of VLANs.
	OfEtherType struct{ Type uint16 }
	// NeighborSolicitation matches the messages of IPv6 by which hosts of a link find each other's hardware addresses, as
	// short as they are with the options of RFC 4861 and RFC 3971's nonce.
	NeighborSolicitation struct{}
	// NewConnection matches the first packets of connections.
	NewConnection struct{}
	// NoConnection matches packets that belong to no connection: that the kernel does not follow or finds invalid.
	NoConnection struct{}
	// OfDirection matches packets that the side sends that opened the connection, or their replies.
	OfDirection struct{ Reply bool }
	// Related matches errors about connections.
	Related struct{ Family Family }
	// OfConnection matches packets by the transport protocol of their connection, and ToServerPorts by the port at which it
	// was accepted, after translation; the protocol must have been matched.
	OfConnection  struct{ Protocol Protocol }
	ToServerPorts struct{ First, Last uint16 }
	// Translated matches packets of connections whose destination was translated.
	Translated struct{}
	// Marked matches packets whose mark has a bit.
	Marked struct{ Bit uint8 }
	// SetMark sets a bit of the packet's mark.
	SetMark struct{ Bit uint8 }
	// ClearMark clears a bit of the packet's mark.
	ClearMark struct{ Bit uint8 }
	// In matches packets whose fields are an element of a set.
	In struct {
		Family Family
		Fields []Field
		Set    string
		Not    bool
	}
	// Exceeds matches packets whose source has more than Most connections, that of the packet included, by those that Set
	// counts. It must see all new connections of the source, and what it matches must be dropped.
	Exceeds struct {
		Family Family
		Set    string
		Most   int
	}
	// Dispatch follows the verdict that a map has for the packet's fields, and goes on without one.
	Dispatch struct {
		Family Family
		Fields []Field
		Map    string
	}
	// Jump goes to a chain and comes back.
	Jump struct{ Chain string }
	// Goto goes to a chain and does not come back.
	Goto struct{ Chain string }
	// Accept, Drop, Return and Reject end the evaluation. Reject tells the sender that the port is
	// unreachable.
	Accept struct{}
	Drop   struct{}
	Return struct{}
	Reject struct{}
	// Masquerade gives the connection an address of the host, and any free port.
	Masquerade struct{}
	// Balance translates the destination to one of the first Count endpoints that Map has of Group, which
	// is chosen at random, and does nothing if the map does not have it. With Affinity it remembers the
	// choice for the source in that map, for Timeout, and does nothing if the map is full.
	Balance struct {
		Family   Family
		Protocol Protocol
		Map      string
		Group    string
		Count    int
		Affinity string
		Timeout  time.Duration
	}
	// BalanceByPacket translates the destination to one of the first Count endpoints that Map has for the
	// packet's fields, which is chosen at random, and does nothing if the map does not have it.
	BalanceByPacket struct {
		Family Family
		Fields []Field
		Map    string
		Count  int
	}
	// Stick translates the destination to the endpoint that Affinity remembers for the source, and
	// extends its time. It does nothing without one, or if that is none of Endpoints.
	Stick struct {
		Family    Family
		Protocol  Protocol
		Endpoints []netip.AddrPort
		Affinity  string
		Timeout   time.Duration
	}
)

func (OfFamily) statement()             {}
func (From) statement()                 {}
func (To) statement()                   {}
func (FromHost) statement()             {}
func (ToHost) statement()               {}
func (NewConnection) statement()        {}
func (NeighborSolicitation) statement() {}
func (FromLink) statement()             {}
func (ToLink) statement()               {}
func (OfEtherType) statement()          {}
func (NoConnection) statement()         {}
func (OfDirection) statement()          {}
func (Related) statement()              {}
func (OfConnection) statement()         {}
func (ToServerPorts) statement()        {}
func (Translated) statement()           {}
func (Marked) statement()               {}
func (SetMark) statement()              {}
func (ClearMark) statement()            {}
func (In) statement()                   {}
func (Exceeds) statement()              {}
func (Dispatch) statement()             {}
func (Jump) statement()                 {}
func (Goto) statement()                 {}
func (Accept) statement()               {}
func (Drop) statement()                 {}
func (Return) statement()               {}
func (Reject) statement()               {}
func (Masquerade) statement()           {}
func (Balance) statement()              {}
func (BalanceByPacket) statement()      {}
func (Stick) statement()                {}

func (s OfFamily) String() string {
	if s.Family == IPv4 {
		return "meta nfproto ipv4"
	}
	return "meta nfproto ipv6"
}

func (s From) String() string { return addressText("saddr", s.Prefix, s.Not) }
func (s To) String() string   { return addressText("daddr", s.Prefix, s.Not) }

func portsText(first, last uint16) string {
	if first == last {
		return strconv.Itoa(int(first))
	}
	return fmt.Sprintf("%d-%d", first, last)
}

func (FromHost) String() string      { return "fib saddr type local" }
func (ToHost) String() string        { return "fib daddr type local" }
func (NewConnection) String() string { return "ct state new" }
func (NeighborSolicitation) String() string {
	return "meta l4proto ipv6-icmp ip6 length 0-40 ip6 hoplimit 255 icmpv6 type 135-136"
}
func (s FromLink) String() string    { return fmt.Sprintf("meta iifname %q", s.Name) }
func (s ToLink) String() string      { return fmt.Sprintf("meta oifname %q", s.Name) }
func (s OfEtherType) String() string { return fmt.Sprintf("ether type %#04x", s.Type) }
func (s OfDirection) String() string {
	if s.Reply {
		return "ct direction reply"
	}
	return "ct direction original"
}
func (s Related) String() string {
	if s.Family == IPv4 {
		return "meta l4proto icmp ct state related"
	}
	return "meta l4proto ipv6-icmp ct state related"
}
func (NoConnection) String() string    { return "ct state invalid,untracked" }
func (s OfConnection) String() string  { return "ct protocol " + s.Protocol.String() }
func (s ToServerPorts) String() string { return "ct reply proto-src " + portsText(s.First, s.Last) }
func (Translated) String() string      { return "ct status dnat" }
func (s Marked) String() string        { return fmt.Sprintf("meta mark & %#x != 0", uint32(1)<<s.Bit) }
func (s SetMark) String() string {
	return fmt.Sprintf("meta mark set meta mark | %#x", uint32(1)<<s.Bit)
}
func (s ClearMark) String() string {
	return fmt.Sprintf("meta mark set meta mark & %#x", ^(uint32(1) << s.Bit))
}
func (s In) String() string { return fieldsText(s.Family, s.Fields) + not(s.Not) + " @" + s.Set }
func (s Exceeds) String() string {
	return fmt.Sprintf("add @%s { %s saddr ct count over %d }", s.Set, s.Family.header(), s.Most)
}
func (s Dispatch) String() string { return fieldsText(s.Family, s.Fields) + " vmap @" + s.Map }
func (s Jump) String() string     { return "jump " + s.Chain }
func (s Goto) String() string     { return "goto " + s.Chain }
func (Accept) String() string     { return "accept" }
func (Drop) String() string       { return "drop" }
func (Return) String() string     { return "return" }
func (Reject) String() string     { return "reject" }
func (Masquerade) String() string { return "masquerade fully-random" }

func (s Balance) String() string {
	choice := fmt.Sprintf("%s . numgen random mod %d map @%s", s.Group, s.Count, s.Map)
	text := fmt.Sprintf("meta l4proto %s dnat %s to %s", s.Protocol, s.Family.header(), choice)
	if s.Affinity != "" {
		text += fmt.Sprintf(" update @%s { %s saddr timeout %v }", s.Affinity, s.Family.header(), s.Timeout)
	}
	return text
}

func (s BalanceByPacket) String() string {
	return fmt.Sprintf("dnat %s to %s . numgen random mod %d map @%s", s.Family.header(), fieldsText(s.Family, s.Fields), s.Count, s.Map)
}

func (s Stick) String() string {
	return fmt.Sprintf("meta l4proto %s dnat %s to %s saddr map @%s { %s } timeout %v",
		s.Protocol, s.Family.header(), s.Family.header(), s.Affinity, endpointsText(s.Endpoints), s.Timeout)
}

func endpointsText(endpoints []netip.AddrPort) string {
	var b strings.Builder
	for i, e := range endpoints {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(e.Addr().String())
		b.WriteString(" . ")
		b.WriteString(strconv.Itoa(int(e.Port())))
	}
	return b.String()
}

func not(yes bool) string {
	if yes {
		return " !="
	}
	return ""
}

func addressText(side string, p netip.Prefix, negated bool) string {
	text := p.String()
	if p.IsSingleIP() {
		text = p.Addr().String()
	}
	return FamilyOf(p.Addr()).header() + " " + side + not(negated) + " " + text
}

func fieldsText(f Family, fields []Field) string {
	words := make([]string, len(fields))
	for i, field := range fields {
		switch field {
		case SourceAddr:
			words[i] = f.header() + " saddr"
		case DestAddr:
			words[i] = f.header() + " daddr"
		case ProtocolNumber:
			words[i] = "meta l4proto"
		case DestPort:
			words[i] = "th dport"
		case ServerPort:
			words[i] = "ct reply proto-src"
		case InLink:
			words[i] = "meta iifname"
		}
	}
	return strings.Join(words, " . ")
}
