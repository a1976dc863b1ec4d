//go:build linux

package overlay

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// read returns the actual state. It has the routes that are ours, and those of other programs that
// have the key of a desired one.
func (k *kernel) read(want *state) (*state, error) {
	have := newState()
	value, err := k.sysctl(forwarding4)
	if err != nil {
		return nil, err
	}
	have.forward4 = value == "1"
	if want.forward6 {
		if value, err = k.sysctl(forwarding6); err != nil {
			return nil, fmt.Errorf("IPv6: %w", err)
		}
		have.forward6 = value == "1"
	}
	names, err := k.readLinks(have)
	if err != nil {
		return nil, err
	}
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		if err := k.readRoutes(have, want, names, family); err != nil {
			return nil, err
		}
	}
	return have, nil
}

// readLinks reads the overlay's devices, and what is on its own, and returns the names of all
// interfaces by index.
func (k *kernel) readLinks(have *state) (map[int]string, error) {
	links, err := dump(k.handle.LinkList)
	if err != nil {
		return nil, fmt.Errorf("links: %w", err)
	}
	names := make(map[int]string, len(links))
	for _, link := range links {
		name := link.Attrs().Name
		names[link.Attrs().Index] = name
		switch {
		case name == k.c.Device && k.c.hasDevice():
			if have.device, err = k.deviceOf(link); err != nil {
				return nil, err
			}
			if err := k.readOnDevice(have, link); err != nil {
				return nil, err
			}
		case k.isStale(link):
			have.stale[name] = true
		}
	}
	return names, nil
}

// isStale reports whether a link is the device of another backend, with a name that only overlays
// give.
func (k *kernel) isStale(link netlink.Link) bool {
	name, kind := link.Attrs().Name, link.Type()
	return k.c.Backend != VXLAN && kind == "vxlan" && name == fmt.Sprintf("pkvx.%d", k.c.VNI) ||
		k.c.Backend != UDP && kind == "tuntap" && name == "pktun0"
}

func (k *kernel) deviceOf(link netlink.Link) (*device, error) {
	a := link.Attrs()
	d := &device{index: a.Index, mtu: a.MTU, up: a.Flags&net.FlagUp != 0}
	switch l := link.(type) {
	case *netlink.Vxlan:
		d.kind, d.vni, d.port, d.local, d.parent = "vxlan", l.VxlanId, l.Port, addrOf(l.SrcAddr), l.VtepDevIndex
		copy(d.mac[:], a.HardwareAddr)
		d.unlike = l.Learning || l.Proxy || l.RSC || l.L2miss || l.L3miss || l.GBP || l.FlowBased || l.Group != nil || a.MasterIndex != 0
	case *netlink.Tuntap:
		d.kind, d.unlike = "tun", l.Mode != netlink.TUNTAP_MODE_TUN
		d.attached = k.tunnel != nil && k.tunnel.attached(a.Index)
	default:
		return nil, fmt.Errorf("device %s exists and is a %s of another program", a.Name, link.Type())
	}
	return d, nil
}

func (k *kernel) readOnDevice(have *state, link netlink.Link) error {
	name, index := link.Attrs().Name, link.Attrs().Index
	addrs, err := dump(func() ([]netlink.Addr, error) { return k.handle.AddrList(link, netlink.FAMILY_ALL) })
	if err != nil {
		return fmt.Errorf("addresses of %s: %w", name, err)
	}
	for _, a := range addrs {
		if p, ok := prefixOf(a.IPNet); ok && !p.Addr().IsLinkLocalUnicast() {
			have.addresses[p] = true
		}
	}
	if have.device.kind != "vxlan" {
		return nil
	}
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6, unix.AF_BRIDGE} {
		entries, err := dump(func() ([]netlink.Neigh, error) { return k.handle.NeighList(index, family) })
		if err != nil {
			return fmt.Errorf("neighbours of %s: %w", name, err)
		}
		for _, n := range entries {
			if n.LinkIndex != index || n.State&netlink.NUD_PERMANENT == 0 {
				continue
			}
			var mac MAC
			copy(mac[:], n.HardwareAddr)
			if family == unix.AF_BRIDGE {
				have.fdb[fdbEntry{mac, addrOf(n.IP)}] = true
			} else {
				have.neighbours[addrOf(n.IP)] = mac
			}
		}
	}
	return nil
}

func (k *kernel) readRoutes(have, want *state, names map[int]string, family int) error {
	filter := &netlink.Route{Table: unix.RT_TABLE_MAIN}
	routes, err := dump(func() ([]netlink.Route, error) {
		return k.handle.RouteListFiltered(family, filter, netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return fmt.Errorf("routes: %w", err)
	}
	for i := range routes {
		r := &routes[i]
		dst, ok := prefixOf(r.Dst)
		if !ok || r.Tos != 0 {
			continue // a default route or one that other rules choose
		}
		key := routeKey{dst, r.Priority}
		ours := int(r.Protocol) == k.c.Protocol
		if _, needed := want.routes[key]; !ours && !needed {
			continue
		}
		if old, ok := have.routes[key]; ok && old.ours && !ours {
			continue // a route behind ours
		}
		have.routes[key] = route{
			dev: names[r.LinkIndex], via: addrOf(r.Gw), onlink: r.Flags&unix.RTNH_F_ONLINK != 0, ours: ours,
			unlike: r.Type != unix.RTN_UNICAST || len(r.MultiPath) > 0 || r.Src != nil || r.Encap != nil || r.Via != nil ||
				r.MTU != 0 || r.AdvMSS != 0,
		}
	}
	return nil
}

// concerns reports whether a route may be one that the overlay has or needs.
func (c *Config) concerns(dst netip.Prefix) bool {
	if len(c.Network) == 0 {
		return true
	}
	for _, n := range c.Network {
		if n.Overlaps(dst) {
			return true
		}
	}
	return false
}

// isOurName reports whether an interface may be the overlay's or one that it depends on.
func (c *Config) isOurName(name, underlay string) bool {
	return name == c.Device || name == underlay || name == c.Underlay || strings.HasPrefix(name, "pkvx.") || name == "pktun0"
}
