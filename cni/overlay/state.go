//go:build linux

package overlay

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// underlay is the interface to the other members.
type underlay struct {
	name  string
	index int
	mtu   int
	// address is the local member's address for encapsulation: IPv4, or IPv6 if there is no IPv4.
	address netip.Addr
	// address4 and address6 are those that are published; either may be missing.
	address4, address6 netip.Addr
	// prefixes are the interface's addresses with their networks.
	prefixes []netip.Prefix
	// shared says that all addresses are on its L2 network, for checks without a host.
	shared bool
}

func (u *underlay) v6() bool { return u.address.Is6() }

// shares reports whether an address is on the interface's L2 network.
func (u *underlay) shares(a netip.Addr) bool {
	return u.shared || slices.ContainsFunc(u.prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

// A device is the overlay's interface.
type device struct {
	kind  string // "vxlan" or "tun"
	index int    // of an actual device
	mtu   int
	up    bool
	// mac and what follows are those of VXLAN.
	mac    MAC
	vni    int
	port   int
	local  netip.Addr
	parent int
	// unlike says that other settings differ from those that the overlay makes.
	unlike bool
	// attached says that this process reads the tun device.
	attached bool
}

// fits reports whether a device can become want without being made again. A tun device that this process does
// not read fits: it is attached.
func (d *device) fits(want *device) bool {
	if d.kind != want.kind || d.unlike {
		return false
	}
	return d.vni == want.vni && d.port == want.port && d.local == want.local && d.parent == want.parent
}

// A routeKey is what makes the kernel take one route for another.
type routeKey struct {
	dst    netip.Prefix
	metric int
}

type route struct {
	dev    string
	via    netip.Addr
	onlink bool
	// ours says that the route has the overlay's protocol number.
	ours bool
	// unlike says that other attributes differ from those that the overlay sets.
	unlike bool
}

// metric6 is the metric that the kernel gives IPv6 routes without one.
const metric6 = 1024

func keyOf(p netip.Prefix) routeKey {
	if p.Addr().Is4() {
		return routeKey{p, 0}
	}
	return routeKey{p, metric6}
}

// An fdbEntry sends frames for a hardware address to a member.
type fdbEntry struct {
	mac MAC
	dst netip.Addr
}

// state is a state of the kernel, as far as it concerns the overlay. A desired state has only what is
// ours; an actual state may have more.
type state struct {
	// device is nil if there is none.
	device *device
	// addresses are those on the device, except link-local ones.
	addresses map[netip.Prefix]bool
	routes    map[routeKey]route
	// neighbours are the permanent entries on the device.
	neighbours map[netip.Addr]MAC
	fdb        map[fdbEntry]bool
	// forward4 and forward6 say that the host forwards packets.
	forward4, forward6 bool
	// stale are devices of the overlay's other backends.
	stale map[string]bool
	// members holds the members of a desired state that are not refused.
	members []Member
}

func newState() *state {
	return &state{
		addresses: map[netip.Prefix]bool{}, routes: map[routeKey]route{}, neighbours: map[netip.Addr]MAC{},
		fdb: map[fdbEntry]bool{}, stale: map[string]bool{},
	}
}

// overhead is the number of bytes that a backend adds to each packet.
func (c *Config) overhead(v6 bool) int {
	ip := 20
	if v6 {
		ip = 40
	}
	switch c.Backend {
	case VXLAN:
		return ip + 8 + 8 + 14 // IP, UDP, VXLAN, Ethernet
	case UDP:
		return ip + 8
	}
	return 0
}

// mtu returns the MTU of the pods' interfaces.
func (c *Config) mtu(u *underlay) (int, error) {
	mtu := u.mtu - c.overhead(u.v6())
	if c.MTU != 0 {
		if c.MTU > mtu {
			return 0, fmt.Errorf("MTU: %d is more than %d, the %d of %s less the overhead", c.MTU, mtu, u.mtu, u.name)
		}
		mtu = c.MTU
	}
	least := minMTU
	if c.hasFamily(true) {
		least = minMTU6
	}
	if mtu < least {
		return 0, fmt.Errorf("MTU: %d of %s leaves %d, less than %d", u.mtu, u.name, mtu, least)
	}
	return min(mtu, maxMTU), nil
}

// hasFamily reports whether the local member has a range of the family.
func (c *Config) hasFamily(v6 bool) bool {
	return slices.ContainsFunc(c.Local.Subnets, func(p netip.Prefix) bool { return p.Addr().Is6() == v6 })
}

// desired returns the state that members need, and the members that are refused. It is a pure
// function.
func (c *Config) desired(u *underlay, members []Member) (*state, map[string]error, error) {
	mtu, err := c.mtu(u)
	if err != nil {
		return nil, nil, err
	}
	if c.hasDevice() && !u.address.IsValid() {
		return nil, nil, errors.New("the underlay has no address")
	}
	want := newState()
	want.forward4, want.forward6 = c.hasFamily(false), c.hasFamily(true)
	switch c.Backend {
	case VXLAN:
		want.device = &device{
			kind: "vxlan", mtu: mtu, up: true, mac: deriveMAC(c.Local.Name),
			vni: c.VNI, port: c.Port, local: u.address, parent: u.index,
		}
	case UDP:
		want.device = &device{kind: "tun", mtu: mtu, up: true, attached: true}
	}
	if want.device != nil {
		for _, a := range gateways(&c.Local) {
			want.addresses[netip.PrefixFrom(a, a.BitLen())] = true
		}
	}
	var refused map[string]error
	want.members, refused = c.admit(u, members)
	for i := range want.members {
		c.connect(want, u, &want.members[i])
	}
	return want, refused, nil
}

// gateways returns the first address of a member's first range of each family. It is that of the
// member's device, so that hosts have an address in the overlay.
func gateways(m *Member) []netip.Addr {
	var all []netip.Addr
	for _, v6 := range []bool{false, true} {
		for _, p := range m.Subnets {
			if p.Addr().Is6() == v6 {
				all = append(all, p.Addr())
				break
			}
		}
	}
	return all
}

// nextHops returns the addresses by which a VXLAN device knows a member, one for each family of its
// subnets. Only the neighbour entry gives them a meaning. That of IPv6 is link-local: the kernel
// refuses any other if a route of another program leads it to another interface.
func nextHops(m *Member) []netip.Addr {
	all := gateways(m)
	for i, a := range all {
		if a.Is6() {
			all[i] = linkLocal(m.Data.MAC)
		}
	}
	return all
}

// linkLocal returns the link-local address of an interface (RFC 4291, appendix A).
func linkLocal(m MAC) netip.Addr {
	return netip.AddrFrom16([16]byte{0xfe, 0x80, 8: m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]})
}

// connect adds what packets to a member need.
func (c *Config) connect(want *state, u *underlay, m *Member) {
	encapsulated := false
	for _, p := range m.Subnets {
		if c.hasFamily(p.Addr().Is6()) {
			encapsulated = c.connectSubnet(want, u, m, p) || encapsulated
		}
	}
	if !encapsulated || c.Backend != VXLAN {
		return
	}
	for _, a := range nextHops(m) {
		if c.hasFamily(a.Is6()) {
			want.neighbours[a] = m.Data.MAC
		}
	}
	want.fdb[fdbEntry{m.Data.MAC, m.underlay(u.v6())}] = true
}

// connectSubnet adds the route to a range and reports whether it leads through the device.
func (c *Config) connectSubnet(want *state, u *underlay, m *Member, p netip.Prefix) bool {
	next := m.underlay(p.Addr().Is6())
	if c.Backend == HostGW || c.DirectRouting && next.IsValid() && u.shares(next) {
		want.routes[keyOf(p)] = route{dev: u.name, via: next, ours: true}
		return false
	}
	r := route{dev: c.Device, ours: true}
	if c.Backend == VXLAN {
		r.onlink = true
		for _, a := range nextHops(m) {
			if a.Is6() == p.Addr().Is6() {
				r.via = a
			}
		}
	}
	want.routes[keyOf(p)] = r
	return true
}
