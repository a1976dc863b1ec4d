//go:build linux

package bridge

import (
	"errors"
	"fmt"
	"net"

	"github.com/planekit/planekit/cni"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The kernel has one table of neighbours for each family and all its network namespaces, with room for 1024 by
// default, which a container can fill. What is permanent does not count there and is not dropped: with it, a host and
// its containers reach each other whatever the table holds.

// setNeighbor makes an entry permanent.
func setNeighbor(set func(*netlink.Neigh) error, link netlink.Link, ip net.IP, mac net.HardwareAddr) error {
	entry := &netlink.Neigh{LinkIndex: link.Attrs().Index, State: netlink.NUD_PERMANENT, IP: ip, HardwareAddr: mac}
	if err := set(entry); err != nil {
		return fmt.Errorf("add the neighbour %v to %s: %w", ip, link.Attrs().Name, err)
	}
	return nil
}

// fixNeighbors gives the host the entries of a container.
func (c *Conf) fixNeighbors(ns *sandbox, ifName string, gateway netlink.Link, ips []cni.IP) error {
	if !c.IsGateway {
		return nil
	}
	inside, err := ns.handle.LinkByName(ifName)
	if err != nil {
		return err
	}
	for _, ip := range ips {
		if err := setNeighbor(netlink.NeighSet, gateway, ip.Address.Addr().AsSlice(), inside.Attrs().HardwareAddr); err != nil {
			return err
		}
	}
	return nil
}

// fixGateways gives a container the entries of its gateways.
func (c *Conf) fixGateways(ns *sandbox, link netlink.Link, result *cni.Result) error {
	for _, i := range result.Interfaces {
		if !c.IsGateway || i.Sandbox != "" || i.Name != c.gatewayLink() {
			continue
		}
		mac, err := net.ParseMAC(i.Mac)
		if err != nil {
			return err
		}
		for _, ip := range result.IPs {
			if err := setNeighbor(ns.handle.NeighSet, link, ip.Gateway.AsSlice(), mac); err != nil {
				return err
			}
		}
	}
	return nil
}

// forgetNeighbors removes the entries of a container whose result is known, unless the addresses have another owner.
func (c *Conf) forgetNeighbors(result *cni.Result) error {
	if result == nil {
		return nil
	}
	gateway, err := netlink.LinkByName(c.gatewayLink())
	if _, missing := errors.AsType[netlink.LinkNotFoundError](err); missing {
		return nil
	}
	if err != nil {
		return err
	}
	all, err := dump(func() ([]netlink.Neigh, error) { return netlink.NeighList(gateway.Attrs().Index, netlink.FAMILY_ALL) })
	if err != nil {
		return err
	}
	own := func(n netlink.Neigh) bool {
		for _, i := range result.Interfaces {
			if i.Sandbox == "" || i.Mac != n.HardwareAddr.String() {
				continue
			}
			for _, ip := range result.IPs {
				if n.IP.Equal(ip.Address.Addr().AsSlice()) {
					return true
				}
			}
		}
		return false
	}
	for _, n := range all {
		if n.State&netlink.NUD_PERMANENT == 0 || !own(n) {
			continue
		}
		if err := netlink.NeighDel(&n); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("remove the neighbour %v of %s: %w", n.IP, c.gatewayLink(), err)
		}
	}
	return nil
}
