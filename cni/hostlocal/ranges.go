package hostlocal

import (
	"errors"
	"fmt"
	"net/netip"
)

// Range is a part of a subnet.
type Range struct {
	Subnet netip.Prefix `json:"subnet,omitzero"`
	// Start and End are the first and last address to allocate. By default, all addresses except
	// the network's and, for IPv4, the broadcast address.
	Start netip.Addr `json:"rangeStart,omitzero"`
	End   netip.Addr `json:"rangeEnd,omitzero"`
	// Gateway is never allocated. The default is the subnet's first address.
	Gateway netip.Addr `json:"gateway,omitzero"`
}

func (r Range) String() string { return fmt.Sprintf("%v-%v", r.Start, r.End) }

// set is a list of ranges of one family with all fields set and without overlap.
type set []Range

// newSets completes and checks ranges.
func newSets(ranges [][]Range) ([]set, error) {
	var sets []set
	var all []Range
	for _, ranges := range ranges {
		if len(ranges) == 0 {
			return nil, errors.New("empty set of ranges")
		}
		var s set
		for _, r := range ranges {
			r, err := r.complete()
			if err != nil {
				return nil, err
			}
			if len(s) > 0 && s[0].Start.Is4() != r.Start.Is4() {
				return nil, errors.New("a set mixes IPv4 and IPv6")
			}
			for _, other := range all {
				if r.Start.Compare(other.End) <= 0 && other.Start.Compare(r.End) <= 0 {
					return nil, fmt.Errorf("ranges %v and %v overlap", r, other)
				}
			}
			s, all = append(s, r), append(all, r)
		}
		sets = append(sets, s)
	}
	if len(sets) == 0 {
		return nil, errors.New("no ranges")
	}
	return sets, nil
}

// complete sets the omitted fields.
func (r Range) complete() (Range, error) {
	if !r.Subnet.IsValid() {
		return r, errors.New("range without a subnet")
	}
	r.Subnet = netip.PrefixFrom(r.Subnet.Addr().Unmap(), r.Subnet.Bits()).Masked()
	if !r.Subnet.IsValid() || r.Subnet.Bits() > r.Subnet.Addr().BitLen()-2 {
		return r, fmt.Errorf("subnet %v is too small", r.Subnet)
	}
	first, last := r.Subnet.Addr().Next(), lastAddr(r.Subnet)
	if last.Is4() {
		last = last.Prev() // broadcast
	}
	if !r.Gateway.IsValid() {
		r.Gateway = first
	}
	if !r.Start.IsValid() {
		r.Start = first
	}
	if !r.End.IsValid() {
		r.End = last
	}
	if !r.Subnet.Contains(r.Start) || !r.Subnet.Contains(r.End) || r.End.Less(r.Start) {
		return r, fmt.Errorf("range %v is not within %v", r, r.Subnet)
	}
	return r, nil
}

func lastAddr(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for bit := p.Bits(); bit < len(b)*8; bit++ {
		b[bit/8] |= 1 << (7 - bit%8)
	}
	addr, _ := netip.AddrFromSlice(b)
	return addr
}

// usable reports whether addr may be allocated, and in which range.
func (s set) usable(addr netip.Addr) (Range, bool) {
	for _, r := range s {
		if r.Start.Compare(addr) <= 0 && addr.Compare(r.End) <= 0 {
			return r, addr != r.Gateway
		}
	}
	return Range{}, false
}

// after returns the address after addr. The first range follows the last one. An address outside
// all ranges is followed by the first address.
func (s set) after(addr netip.Addr) netip.Addr {
	for i, r := range s {
		if r.Start.Compare(addr) <= 0 && addr.Less(r.End) {
			return addr.Next()
		}
		if addr == r.End {
			return s[(i+1)%len(s)].Start
		}
	}
	return s[0].Start
}

// parseAddr reads "10.0.0.1" or "10.0.0.1/24".
func parseAddr(s string) (netip.Addr, error) {
	if p, err := netip.ParsePrefix(s); err == nil {
		return p.Addr().Unmap(), nil
	}
	addr, err := netip.ParseAddr(s)
	return addr.Unmap(), err
}
