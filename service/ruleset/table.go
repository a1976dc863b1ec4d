package ruleset

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// A Rule is a line of a chain. Make it with [NewRule].
type Rule struct {
	statements []Statement
	// id is the comment of the rule in the kernel. It identifies the rule completely, so that the
	// kernel's rules can be compared without decoding them.
	id string
}

// NewRule returns a rule whose statements are evaluated in order until one does not match. The note
// says in the kernel's listing what the rule is for, in at most 64 bytes, and may be empty.
func NewRule(note string, statements ...Statement) Rule {
	r := Rule{statements: statements}
	sum := sha256.Sum256([]byte(r.String()))
	r.id = "#" + hex.EncodeToString(sum[:12])
	if len(note) > maxNote {
		note = note[:maxNote]
	}
	if note != "" {
		r.id = note + " " + r.id
	}
	return r
}

// maxNote leaves room for the hash: nft shows comments of up to 128 bytes.
const maxNote = 64

// String returns the rule in the language of nft. What nft has no words for is written alike.
func (r Rule) String() string {
	words := make([]string, len(r.statements))
	for i, s := range r.statements {
		words[i] = s.String()
	}
	return strings.Join(words, " ")
}

func sameRules(a, b Chain) bool {
	return slices.EqualFunc(a.Rules, b.Rules, func(r, s Rule) bool { return r.id == s.id })
}

// A Hook connects a chain to the path of packets.
type Hook struct {
	// Point is prerouting, input, forward, output or postrouting.
	Point string
	// Translates makes it a chain of type nat instead of filter.
	Translates bool
	// Priority orders the chains of a point, the lowest first.
	Priority int32
}

// A Chain is a list of rules. Its Hook is nil if only rules and maps lead to it.
type Chain struct {
	Hook  *Hook
	Rules []Rule
}

// A Kind says what the elements of a set lead to.
type Kind uint8

// The kinds of sets.
const (
	// Plain sets hold keys alone.
	Plain Kind = iota
	// Verdicts is a map to verdicts.
	Verdicts
	// Affinity is a map of source addresses to endpoints that rules fill and time removes. It has no
	// elements of a plan.
	Affinity
	// Connections is a set of sources with the connections of each. Rules fill it, and what has no connection goes. It has
	// no elements of a plan.
	Connections
	// Endpoints is a map to endpoints, whose keys end with a number: see [EndpointKey].
	Endpoints
)

// filled reports whether rules fill sets of the kind.
func (k Kind) filled() bool { return k == Affinity || k == Connections }

// A Set is the type of a set or map.
type Set struct {
	Kind   Kind
	Family Family
	Fields []Field
	// Ranges makes it a set of ranges of one field with an address or a port, whose elements are the ends of
	// the ranges: see [Bounds] and [PortBounds].
	Ranges bool
}

func (s Set) equal(t Set) bool {
	return s.Kind == t.Kind && s.Ranges == t.Ranges && s.Family == t.Family && slices.Equal(s.Fields, t.Fields)
}

// A Key is the key of an element: its fields in the order of the set, each as in a packet and padded
// to 4 bytes. Make it with [KeyOf].
type Key string

// nameLength is the length of the name of an interface, IFNAMSIZ, in bytes.
const nameLength = 16

// KeyOf returns the key of some fields: netip.Addr, Protocol, uint16 for ports, uint32 for numbers and string for the name of an
// interface, of which only as much counts as an interface can have.
func KeyOf(fields ...any) Key {
	var b []byte
	for _, field := range fields {
		switch f := field.(type) {
		case netip.Addr:
			b = append(b, f.AsSlice()...)
		case Protocol:
			b = append(b, byte(f), 0, 0, 0)
		case uint16:
			b = append(b, byte(f>>8), byte(f), 0, 0)
		case string:
			var name [nameLength]byte
			copy(name[:], f)
			b = append(b, name[:]...)
		case uint32:
			b = binary.NativeEndian.AppendUint32(b, f)
		default:
			panic(fmt.Sprintf("ruleset: a key of %T", field))
		}
	}
	return Key(b)
}

// afterRange ends the key of the first address that is no longer in a range.
const afterRange = "\x01"

// Bounds returns the keys of a range in a set of ranges. No two ranges of a set may overlap or adjoin.
func Bounds(first, last netip.Addr) []Key {
	keys := []Key{KeyOf(first)}
	if next := last.Next(); next.IsValid() {
		keys = append(keys, KeyOf(next)+afterRange)
	}
	return keys
}

// PortBounds is Bounds for ports.
func PortBounds(first, last uint16) []Key {
	keys := []Key{Key([]byte{byte(first >> 8), byte(first)})}
	if next := last + 1; next != 0 {
		keys = append(keys, Key([]byte{byte(next >> 8), byte(next)})+afterRange)
	}
	return keys
}

// bound returns the address or port in a key, and whether it is the first after a range.
func (k Key) bound() (value []byte, after bool) {
	if after = len(k)%2 == len(afterRange); after {
		k = k[:len(k)-len(afterRange)]
	}
	return []byte(k), after
}

// EndpointKey returns the key of an endpoint in a map with the fields GroupID and Number: its number,
// from 0, in a group with a name.
func EndpointKey(group string, number int) Key {
	return Key(binary.NativeEndian.AppendUint32(groupID(group), uint32(number)))
}

// groupID returns the hash of a name in 8 bytes. A million groups have the same one twice with a
// probability of 3 in a hundred million.
func groupID(name string) []byte {
	sum := sha256.Sum256([]byte(name))
	return sum[:8]
}

// Format returns the fields of a key of the set as text.
func (s Set) Format(k Key) string {
	var words []string
	for _, field := range s.Fields {
		size := s.sizeOf(field)
		if len(k) < size {
			return fmt.Sprintf("%x", string(k))
		}
		part := []byte(k[:size])
		k = k[size:]
		switch field {
		case SourceAddr, DestAddr:
			a, _ := netip.AddrFromSlice(part)
			words = append(words, a.String())
		case ProtocolNumber:
			words = append(words, Protocol(part[0]).String())
		case DestPort, ServerPort:
			words = append(words, fmt.Sprint(int(part[0])<<8|int(part[1])))
		case InLink:
			words = append(words, string(bytes.TrimRight(part, "\x00")))
		case GroupID:
			words = append(words, hex.EncodeToString(part))
		case Number:
			words = append(words, fmt.Sprint(binary.NativeEndian.Uint32(part)))
		}
	}
	if s.Ranges && k == afterRange {
		words[0] = "before " + words[0]
	}
	return strings.Join(words, " . ")
}

// sizeOf returns the length of a field in a key, in bytes. A port that is the only field is not padded.
func (s Set) sizeOf(field Field) int {
	switch field {
	case SourceAddr, DestAddr:
		if s.Family == IPv6 {
			return 16
		}
	case GroupID:
		return 8
	case InLink:
		return nameLength
	case ServerPort:
		if len(s.Fields) == 1 {
			return 2
		}
	}
	return 4
}

// A Place is a key in a set.
type Place struct {
	Set string
	Key Key
}

// A Verdict is the value of an element: "goto CHAIN", "jump CHAIN", "drop", the address and port of an
// endpoint, or empty in sets without values.
type Verdict string

// VerdictGoto returns the verdict that continues in a chain.
func VerdictGoto(chain string) Verdict { return Verdict("goto " + chain) }

// VerdictJump returns the verdict that evaluates a chain and comes back.
func VerdictJump(chain string) Verdict { return Verdict("jump " + chain) }

// VerdictEndpoint returns the value of an element of a map of kind Endpoints.
func VerdictEndpoint(a netip.AddrPort) Verdict { return Verdict(a.String()) }

// endpoint returns the endpoint of an element, and false if the verdict is of another kind.
func (v Verdict) endpoint() (netip.AddrPort, bool) {
	a, err := netip.ParseAddrPort(string(v))
	return a, err == nil
}

// VerdictDrop drops the packet.
const VerdictDrop Verdict = "drop"

// A Fragment is the part of a table that has one owner, such as a service. Owners must not share
// chains and sets; several may have the same element.
type Fragment struct {
	Chains   map[string]Chain
	Sets     map[string]Set
	Elements map[Place]Verdict
}

// A Table is what a table of the kernel should contain.
type Table struct {
	Chains   map[string]Chain
	Sets     map[string]Set
	Elements map[Place]Verdict
}

// String returns the table as text, in a fixed order.
func (t Table) String() string {
	var lines []string
	for name, s := range t.Sets {
		line := fmt.Sprintf("set %s {%v %v %v}", name, s.Kind, s.Family, s.Fields)
		if s.Ranges {
			line += " of ranges"
		}
		lines = append(lines, line)
	}
	for name, c := range t.Chains {
		line := "chain " + name + ":"
		if c.Hook != nil {
			line += fmt.Sprintf(" %+v", *c.Hook)
		}
		for _, r := range c.Rules {
			line += "\n\t" + r.String()
		}
		lines = append(lines, line)
	}
	for place, v := range t.Elements {
		line := fmt.Sprintf("element %s: %s", place.Set, t.Sets[place.Set].Format(place.Key))
		if v != "" {
			line += " -> " + string(v)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
