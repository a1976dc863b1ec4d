//go:build linux

package bridge

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Use is a range of IPv4 addresses in use on the host.
type Use struct {
	// Prefix is the network of the address, or the destination of the route.
	Prefix netip.Prefix
	// Address is the address of the link; not valid for a route.
	Address netip.Addr
	// Link is the name of the link; empty for a route without one.
	Link string
}

// Uses returns the IPv4 addresses of all links, and the routes of all tables except default and
// multicast routes.
func Uses() ([]Use, error) {
	links, err := dump(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	names := map[int]string{}
	for _, l := range links {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	addresses, err := dump(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_V4) })
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	var uses []Use
	for _, a := range addresses {
		ip, ok := netip.AddrFromSlice(a.IP.To4())
		ones, _ := a.Mask.Size()
		if ok {
			uses = append(uses, Use{Prefix: netip.PrefixFrom(ip, ones).Masked(), Address: ip, Link: names[a.LinkIndex]})
		}
	}
	routes, err := dump(func() ([]netlink.Route, error) {
		return netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	for _, r := range routes {
		if r.Dst == nil || r.Type == unix.RTN_MULTICAST || r.Type == unix.RTN_BROADCAST {
			continue
		}
		ip, ok := netip.AddrFromSlice(r.Dst.IP.To4())
		ones, _ := r.Dst.Mask.Size()
		if ok && ones > 0 {
			uses = append(uses, Use{Prefix: netip.PrefixFrom(ip, ones).Masked(), Link: names[r.LinkIndex]})
		}
	}
	return uses, nil
}

// Names returns the names of all bridges of the host.
func Names() ([]string, error) {
	links, err := dump(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	var names []string
	for _, l := range links {
		if l.Type() == "bridge" {
			names = append(names, l.Attrs().Name)
		}
	}
	return names, nil
}
