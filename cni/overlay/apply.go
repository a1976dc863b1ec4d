//go:build linux

package overlay

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// apply makes one change. Removing what does not exist succeeds.
func (k *kernel) apply(c change) error {
	var err error
	switch c.op {
	case setForward:
		name := forwarding4
		if c.v6 {
			name = forwarding6
		}
		return k.setSysctl(name, "1")
	case addDevice:
		return k.addDevice(c)
	case deleteDevice:
		err = k.deleteDevice(c.name)
	case addAddress, deleteAddress, setFDB, deleteFDB, setNeighbour, deleteNeighbour, setDevice:
		var link netlink.Link
		if link, err = k.handle.LinkByName(k.c.Device); err == nil {
			err = k.applyOnDevice(c, link)
		}
	case setRoute, deleteRoute:
		err = k.applyRoute(c)
	}
	removal := c.op == deleteDevice || c.op == deleteAddress || c.op == deleteFDB || c.op == deleteNeighbour || c.op == deleteRoute
	if removal && isMissing(err) {
		return nil
	}
	return err
}

func (k *kernel) addDevice(c change) error {
	if c.device.kind == "tun" {
		if err := k.inside(func() error { return k.tunnel.open(c.name) }); err != nil {
			return err
		}
	} else {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU, attrs.HardwareAddr = c.name, c.device.mtu, net.HardwareAddr(c.device.mac[:])
		err := k.handle.LinkAdd(&netlink.Vxlan{
			LinkAttrs: attrs, VxlanId: c.device.vni, VtepDevIndex: c.device.parent, SrcAddr: c.device.local.AsSlice(), Port: c.device.port,
		})
		if err != nil {
			return err
		}
	}
	link, err := k.handle.LinkByName(c.name)
	if err != nil {
		return err
	}
	return k.setDevice(c.device, link)
}

func (k *kernel) setDevice(d *device, link netlink.Link) error {
	if link.Attrs().MTU != d.mtu {
		if err := k.handle.LinkSetMTU(link, d.mtu); err != nil {
			return fmt.Errorf("MTU %d: %w", d.mtu, err)
		}
	}
	if mac := net.HardwareAddr(d.mac[:]); d.kind == "vxlan" && link.Attrs().HardwareAddr.String() != mac.String() {
		if err := k.handle.LinkSetHardwareAddr(link, mac); err != nil {
			return fmt.Errorf("hardware address %v: %w", mac, err)
		}
	}
	return k.handle.LinkSetUp(link)
}

// deleteDevice deletes a device of a kind that overlays make.
func (k *kernel) deleteDevice(name string) error {
	link, err := k.handle.LinkByName(name)
	if err != nil {
		return err
	}
	if kind := link.Type(); kind != "vxlan" && kind != "tuntap" {
		return fmt.Errorf("%s is a %s", name, kind)
	}
	return k.handle.LinkDel(link)
}

func (k *kernel) applyOnDevice(c change, link netlink.Link) error {
	index := link.Attrs().Index
	switch c.op {
	case setDevice:
		return k.setDevice(c.device, link)
	case addAddress:
		a := &netlink.Addr{IPNet: ipNet(c.address)}
		if c.address.Addr().Is6() {
			// The addresses are unique; detection would cost seconds.
			a.Flags = unix.IFA_F_NODAD
			if err := k.setSysctl(filepath.Join("ipv6/conf", k.c.Device, "disable_ipv6"), "0"); err != nil {
				return err
			}
		}
		return k.handle.AddrReplace(link, a)
	case deleteAddress:
		return k.handle.AddrDel(link, &netlink.Addr{IPNet: ipNet(c.address)})
	case setFDB:
		return k.handle.NeighSet(c.fdb.neigh(index))
	case deleteFDB:
		return k.handle.NeighDel(c.fdb.neigh(index))
	case setNeighbour:
		return k.handle.NeighSet(&netlink.Neigh{
			LinkIndex: index, State: netlink.NUD_PERMANENT, Type: unix.RTN_UNICAST, IP: c.ip.AsSlice(), HardwareAddr: net.HardwareAddr(c.mac[:]),
		})
	case deleteNeighbour:
		return k.handle.NeighDel(&netlink.Neigh{LinkIndex: index, IP: c.ip.AsSlice()})
	}
	return errors.New("no operation of a device")
}

func (e fdbEntry) neigh(index int) *netlink.Neigh {
	return &netlink.Neigh{
		LinkIndex: index, Family: unix.AF_BRIDGE, State: netlink.NUD_PERMANENT | netlink.NUD_NOARP, Flags: netlink.NTF_SELF,
		IP: e.dst.AsSlice(), HardwareAddr: net.HardwareAddr(e.mac[:]),
	}
}

func (k *kernel) applyRoute(c change) error {
	r := &netlink.Route{
		Dst: ipNet(c.key.dst), Table: unix.RT_TABLE_MAIN, Priority: c.key.metric, Protocol: netlink.RouteProtocol(k.c.Protocol),
	}
	if c.op == deleteRoute {
		r.Scope = netlink.SCOPE_NOWHERE // any
		return k.handle.RouteDel(r)
	}
	link, err := k.handle.LinkByName(c.route.dev)
	if err != nil {
		return err
	}
	r.LinkIndex = link.Attrs().Index
	if c.route.via.IsValid() {
		r.Gw = c.route.via.AsSlice()
	} else if c.key.dst.Addr().Is4() {
		r.Scope = netlink.SCOPE_LINK
	}
	if c.route.onlink {
		r.Flags = int(netlink.FLAG_ONLINK)
	}
	return k.handle.RouteReplace(r)
}
