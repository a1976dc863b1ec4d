package loadbalancer

import (
	"errors"
	"fmt"
	"net/netip"
)

// errFull means that no address of a family is free.
var errFull = errors.New("no address of the pool is free")

// pool knows who has which address of some ranges.
type pool struct {
	ranges []netip.Prefix
	owners map[netip.Addr]string
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
	return &pool{ranges: ranges, owners: map[netip.Addr]string{}, next: map[int]netip.Addr{}}, nil
}

func (p *pool) contains(a netip.Addr) bool {
	for _, r := range p.ranges {
		if r.Contains(a) {
			return true
		}
	}
	return false
}

// claim gives an address to an owner, and returns another owner that has it.
func (p *pool) claim(a netip.Addr, owner string) (other string, ok bool) {
	if other, taken := p.owners[a]; taken && other != owner {
		return other, false
	}
	p.owners[a] = owner
	return "", true
}

// take gives a free address of a family to an owner. In ranges of more than two addresses of IPv4 the
// first and the last are left out: they are the network's own.
func (p *pool) take(v6 bool, owner string) (netip.Addr, error) {
	for i, r := range p.ranges {
		if r.Addr().Is6() != v6 {
			continue
		}
		begin := p.next[i]
		if !begin.IsValid() || !r.Contains(begin) {
			begin = r.Addr()
		}
		// A range has more addresses than services, or the search comes back to where it began.
		for a := begin; ; {
			if _, taken := p.owners[a]; !taken && !reserved(r, a) {
				p.owners[a], p.next[i] = owner, a.Next()
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
	freed := false
next:
	for a, who := range p.owners {
		if who != owner {
			continue
		}
		for _, keep := range but {
			if a == keep {
				continue next
			}
		}
		delete(p.owners, a)
		freed = true
	}
	return freed
}
