//go:build linux

package overlay

import "net/netip"

// prefixes finds owners of ranges that do not overlap. The zero value is empty.
type prefixes struct {
	owner map[netip.Prefix]string
	// bits4 and bits6 count the owned ranges of each length, so that only lengths in use are looked up.
	bits4, bits6 [129]int
	// within has every range that is or contains an owned one, with one of the owners.
	within map[netip.Prefix]string
}

func (s *prefixes) lengths(p netip.Prefix) *[129]int {
	if p.Addr().Is4() {
		return &s.bits4
	}
	return &s.bits6
}

func (s *prefixes) add(p netip.Prefix, owner string) {
	if s.owner == nil {
		s.owner, s.within = map[netip.Prefix]string{}, map[netip.Prefix]string{}
	}
	s.owner[p] = owner
	s.lengths(p)[p.Bits()]++
	for bits := p.Bits(); bits >= 0; bits-- {
		wide, _ := p.Addr().Prefix(bits)
		if _, ok := s.within[wide]; ok {
			break // and so have all wider ones
		}
		s.within[wide] = owner
	}
}

// overlapping returns an owner of a range that overlaps p.
func (s *prefixes) overlapping(p netip.Prefix) (string, bool) {
	if owner, ok := s.within[p]; ok {
		return owner, true
	}
	lengths := s.lengths(p)
	for bits := range p.Bits() {
		if lengths[bits] == 0 {
			continue
		}
		wide, _ := p.Addr().Prefix(bits)
		if owner, ok := s.owner[wide]; ok {
			return owner, true
		}
	}
	return "", false
}

// lookup returns the owner of the range that contains an address.
func (s *prefixes) lookup(a netip.Addr) (string, bool) {
	if !a.IsValid() {
		return "", false
	}
	p := netip.PrefixFrom(a, a.BitLen())
	if owner, ok := s.owner[p]; ok {
		return owner, true
	}
	lengths := s.lengths(p)
	for bits := p.Bits() - 1; bits >= 0; bits-- {
		if lengths[bits] == 0 {
			continue
		}
		wide, _ := a.Prefix(bits)
		if owner, ok := s.owner[wide]; ok {
			return owner, true
		}
	}
	return "", false
}
