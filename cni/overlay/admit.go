//go:build linux

package overlay

import (
	"errors"
	"fmt"
	"net/netip"
)

// maxSubnets bounds the ranges of one member.
const maxSubnets = 64

// maxName is the longest name of a member, that of a DNS name.
const maxName = 253

// checkMember checks what can be known about a member by itself.
func (c *Config) checkMember(m *Member) error {
	if m.Name == "" || len(m.Name) > maxName {
		return fmt.Errorf("name of %d bytes, not 1-%d", len(m.Name), maxName)
	}
	if err := checkAddress("address", m.Address, false); err != nil {
		return err
	}
	if err := checkAddress("address6", m.Address6, true); err != nil {
		return err
	}
	if len(m.Subnets) > maxSubnets {
		return fmt.Errorf("%d subnets, more than %d", len(m.Subnets), maxSubnets)
	}
	for i, p := range m.Subnets {
		if err := c.checkSubnet(p); err != nil {
			return err
		}
		if m.Address.IsValid() && p.Contains(m.Address) || m.Address6.IsValid() && p.Contains(m.Address6) {
			return fmt.Errorf("subnet %v contains the member's own address", p)
		}
		for _, q := range m.Subnets[:i] {
			if p.Overlaps(q) {
				return fmt.Errorf("subnets %v and %v overlap", q, p)
			}
		}
	}
	return nil
}

func checkAddress(field string, a netip.Addr, v6 bool) error {
	switch {
	case !a.IsValid():
		return nil
	case a.Is4() == v6 || a.Is4In6() || a.Zone() != "":
		return fmt.Errorf("%s %v is of the wrong family", field, a)
	case a.IsLoopback() || a.IsMulticast() || a.IsUnspecified() || a.IsLinkLocalUnicast() || broadcast(a):
		return fmt.Errorf("%s %v is special", field, a)
	}
	return nil
}

// broadcast reports whether a is in 240.0.0.0/4, which ends with the address of broadcasts.
func broadcast(a netip.Addr) bool { return a.Is4() && a.As4()[0] >= 240 }

// special are the ranges that no member can have a part of.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("224.0.0.0/3"), netip.MustParsePrefix("::/8"), netip.MustParsePrefix("fe80::/10"),
	netip.MustParsePrefix("ff00::/8"),
}

func (c *Config) checkSubnet(p netip.Prefix) error {
	if !p.IsValid() || p != p.Masked() || p.Addr().Is4In6() {
		return fmt.Errorf("subnet %v is no range", p)
	}
	for _, s := range special {
		if p.Overlaps(s) {
			return fmt.Errorf("subnet %v overlaps the special range %v", p, s)
		}
	}
	if len(c.Network) == 0 {
		return nil
	}
	for _, n := range c.Network {
		if n.Bits() <= p.Bits() && n.Contains(p.Addr()) {
			return nil
		}
	}
	return fmt.Errorf("subnet %v is outside the network", p)
}

// admit divides members into those that can be reached and those that are refused. The local member
// is in neither. Ranges are given first, in the order of members, also to members that are then refused
// for another reason: what a member says about its addresses and backend cannot cost another one its
// range.
func (c *Config) admit(u *underlay, members []Member) ([]Member, map[string]error) {
	refused := make(map[string]error)
	a := admission{c: c, u: u, names: map[string]bool{}, macs: map[MAC]string{}}
	a.claim(&c.Local)
	var owners []*Member
	for i := range members {
		m := &members[i]
		if m.Name == c.Local.Name {
			continue
		}
		if a.names[m.Name] {
			refused[m.Name] = errors.New("two members have this name")
			continue
		}
		a.names[m.Name] = true
		if err := a.checkRanges(m); err != nil {
			refused[m.Name] = err
			continue
		}
		a.claim(m)
		owners = append(owners, m)
	}
	var admitted []Member
	for _, m := range owners {
		if err := a.check(m); err != nil {
			refused[m.Name] = err
			continue
		}
		admitted = append(admitted, *m)
	}
	return admitted, refused
}

// admission holds what members have.
type admission struct {
	c     *Config
	u     *underlay
	names map[string]bool
	// macs has the owners of hardware addresses: members from whose names they are derived, and the
	// first members that claim others.
	macs map[MAC]string
	// claims has the ranges in use, addresses those of members in the underlay.
	claims, addresses prefixes
}

// claim gives a member its ranges, and the hardware address that is derived from its name.
func (a *admission) claim(m *Member) {
	for _, p := range m.Subnets {
		a.claims.add(p, m.Name)
	}
	if a.c.Backend == VXLAN {
		a.macs[deriveMAC(m.Name)] = m.Name
	}
	if len(a.c.Network) > 0 {
		return // which says where ranges may be
	}
	for _, address := range []netip.Addr{m.Address, m.Address6} {
		if address.IsValid() {
			a.addresses.add(netip.PrefixFrom(address, address.BitLen()), m.Name)
		}
	}
}

func (a *admission) checkRanges(m *Member) error {
	if m.Invalid != nil {
		return m.Invalid
	}
	if err := a.c.checkMember(m); err != nil {
		return err
	}
	if len(m.Subnets) == 0 {
		return errors.New("no subnets yet")
	}
	for _, p := range m.Subnets {
		if err := a.checkClaim(p); err != nil {
			return err
		}
	}
	return nil
}

// check checks a member that has its ranges.
func (a *admission) check(m *Member) error {
	for _, address := range []netip.Addr{m.Address, m.Address6} {
		if owner, ok := a.claims.lookup(address); ok {
			return fmt.Errorf("address %v is in a subnet of %s", address, owner)
		}
		for _, own := range a.u.prefixes {
			if own.Addr() == address {
				return fmt.Errorf("address %v is one of this host", address)
			}
		}
	}
	if m.Backend != a.c.Backend && (m.Backend != "" || a.c.Backend != HostGW) {
		if m.Backend == "" {
			return errors.New("backend not published yet")
		}
		return fmt.Errorf("backend %.20q, not %s", m.Backend, a.c.Backend)
	}
	return a.checkBackend(m)
}

func (a *admission) checkClaim(p netip.Prefix) error {
	if owner, ok := a.claims.overlapping(p); ok {
		return fmt.Errorf("subnet %v overlaps one of %s", p, owner)
	}
	if owner, ok := a.addresses.overlapping(p); ok {
		return fmt.Errorf("subnet %v contains the address of %s", p, owner)
	}
	for _, own := range a.u.prefixes {
		if p.Contains(own.Addr()) {
			return fmt.Errorf("subnet %v contains the address %v of this host", p, own.Addr())
		}
		if len(a.c.Network) == 0 && p.Overlaps(own.Masked()) {
			return fmt.Errorf("subnet %v overlaps the underlay %v", p, own.Masked())
		}
	}
	return nil
}

func (a *admission) checkBackend(m *Member) error {
	if a.c.Backend == HostGW {
		for _, p := range m.Subnets {
			if !a.c.hasFamily(p.Addr().Is6()) {
				continue // it gets no route
			}
			next := m.underlay(p.Addr().Is6())
			if !next.IsValid() {
				return fmt.Errorf("subnet %v: no address of its family", p)
			}
			if !a.u.shares(next) {
				return fmt.Errorf("address %v is not on the L2 network of %s", next, a.u.name)
			}
		}
		return nil
	}
	if !m.underlay(a.u.v6()).IsValid() {
		return fmt.Errorf("no address of the family of %v", a.u.address)
	}
	if a.c.Backend == UDP {
		if m.Data.Port != a.c.Port {
			return fmt.Errorf("port %d, not %d", m.Data.Port, a.c.Port)
		}
		return nil
	}
	if m.Data.VNI != a.c.VNI {
		return fmt.Errorf("vni %d, not %d", m.Data.VNI, a.c.VNI)
	}
	if m.Data.Port != a.c.Port {
		return fmt.Errorf("port %d, not %d", m.Data.Port, a.c.Port)
	}
	if err := m.Data.MAC.check(); err != nil {
		return err
	}
	if owner, ok := a.macs[m.Data.MAC]; ok && owner != m.Name {
		return fmt.Errorf("mac %v is that of %s", m.Data.MAC, owner)
	}
	a.macs[m.Data.MAC] = m.Name
	return nil
}
