package loadbalancer

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// errFull means that no address of a family is free.
var errFull = errors.New("no address of the pool is free")

// pool knows who has which address of some ranges.
type pool struct {
	ranges []netip.Prefix
	owners map[netip.Addr]string
	// owned has the addresses of each owner, and used how many of each range can be taken no more.
	owned map[string][]netip.Addr
	used  []uint64
	// next is where the search for a free address goes on, so that an address that was just released is
	// not given to another service at once.
	next map[int]netip.Addr
}

func newPool(ranges []netip.Prefix) (*pool, error) {
	if len(ranges) == 0 {
		return nil, errors.New("loadbalancer: Pool: at least one range is required")
	}
	for i, r := range ranges {
		if !r.IsValid() || r != r.Masked() || r.Addr().Is4In6() {
			return nil, fmt.Errorf("loadbalancer: Pool[%d]: %v is not the first address of a range", i, r)
		}
		for _, other := range ranges[:i] {
			if r.Overlaps(other) {
				return nil, fmt.Errorf("loadbalancer: Pool[%d]: %v overlaps %v", i, r, other)
			}
		}
	}
	p := &pool{ranges: ranges, owners: map[netip.Addr]string{}, owned: map[string][]netip.Addr{}, used: make([]uint64, len(ranges)), next: map[int]netip.Addr{}}
	for i, r := range ranges {
		if r.Addr().Is4() && r.Bits() <= 30 {
			p.used[i] = 2 // the network's own
		}
	}
	return p, nil
}

func (p *pool) contains(a netip.Addr) bool { return p.rangeOf(a) >= 0 }

// rangeOf returns the index of the range of an address, or -1.
func (p *pool) rangeOf(a netip.Addr) int {
	return slices.IndexFunc(p.ranges, func(r netip.Prefix) bool { return r.Contains(a) })
}

// claim gives an address of the pool to an owner, and returns another owner that has it.
func (p *pool) claim(a netip.Addr, owner string) (other string, ok bool) {
	if other, taken := p.owners[a]; taken {
		return other, other == owner
	}
	p.put(a, owner, p.rangeOf(a))
	return "", true
}

func (p *pool) put(a netip.Addr, owner string, i int) {
	p.owners[a] = owner
	p.owned[owner] = append(p.owned[owner], a)
	if !reserved(p.ranges[i], a) {
		p.used[i]++
	}
}

// full reports whether no address of a range can be taken.
func (p *pool) full(i int) bool {
	bits := p.ranges[i].Addr().BitLen() - p.ranges[i].Bits()
	return bits < 64 && p.used[i] >= 1<<bits
}

// take gives a free address of a family to an owner. In ranges of more than two addresses of IPv4 the
// first and the last are left out: they are the network's own.
func (p *pool) take(v6 bool, owner string) (netip.Addr, error) {
	for i, r := range p.ranges {
		if r.Addr().Is6() != v6 || p.full(i) {
			continue
		}
		begin := p.next[i]
		if !begin.IsValid() || !r.Contains(begin) {
			begin = r.Addr()
		}
		// A range has more addresses than services, or the search comes back to where it began.
		for a := begin; ; {
			if _, taken := p.owners[a]; !taken && !reserved(r, a) {
				p.put(a, owner, i)
				p.next[i] = a.Next()
				return a, nil
			}
			if a = a.Next(); !a.IsValid() || !r.Contains(a) {
				a = r.Addr()
			}
			if a == begin {
				break
			}
		}
	}
	return netip.Addr{}, errFull
}

func reserved(r netip.Prefix, a netip.Addr) bool {
	if r.Addr().Is6() || r.Bits() > 30 {
		return false
	}
	return a == r.Addr() || !r.Contains(a.Next())
}

// release frees the addresses of an owner but some, and reports whether there were any.
func (p *pool) release(owner string, but ...netip.Addr) bool {
	var kept []netip.Addr
	freed := false
	for _, a := range p.owned[owner] {
		if slices.Contains(but, a) {
			kept = append(kept, a)
			continue
		}
		freed = true
		delete(p.owners, a)
		if i := p.rangeOf(a); !reserved(p.ranges[i], a) {
			p.used[i]--
		}
	}
	if p.owned[owner] = kept; len(kept) == 0 {
		delete(p.owned, owner)
	}
	return freed
}
