//go:build linux

package bridge

import (
	"context"
	"net/netip"

	"github.com/planekit/planekit/cni"
	"github.com/planekit/planekit/cni/skel"
	"github.com/vishvananda/netlink"
)

// check compares an attachment with the result of its ADD.
func check(ctx context.Context, r *skel.Request) error {
	c, err := parse(r)
	if err != nil {
		return err
	}
	if c.ipamType != "" {
		if _, err := r.Delegate(ctx, cni.CmdCheck, c.ipamType); err != nil {
			return err
		}
	}
	if err := c.checkHost(r.Previous); err != nil {
		return err
	}
	if c.guarded() {
		g, err := c.guard(r, r.Previous.Interfaces, r.Previous.IPs)
		if err == nil {
			err = g.check(ctx)
		}
		if err != nil {
			return err
		}
	}
	ns, err := open(r.NetNS)
	if err != nil {
		return err
	}
	defer ns.close()
	link, err := ns.handle.LinkByName(r.IfName)
	if err != nil {
		return cni.Errorf(cni.CodePlugin, "interface %s in the container: %v", r.IfName, err)
	}
	for _, ip := range r.Previous.IPs {
		if i := ip.Interface; i != nil && r.Previous.Interfaces[*i].Name != r.IfName {
			continue
		}
		ok, err := has(ns.handle, link, ip.Address)
		if err != nil {
			return err
		}
		if !ok {
			return cni.Errorf(cni.CodePlugin, "%s has lost its address %v", r.IfName, ip.Address)
		}
	}
	return checkRoutes(ns, r.Previous.Routes)
}

// checkHost checks the bridge and the host's end of the pair.
func (c *Conf) checkHost(result *cni.Result) error {
	br, err := netlink.LinkByName(c.Bridge)
	if err != nil {
		return cni.Errorf(cni.CodePlugin, "bridge %s: %v", c.Bridge, err)
	}
	if c.PromiscMode && br.Attrs().Promisc == 0 {
		return cni.Errorf(cni.CodePlugin, "bridge %s is not in promiscuous mode", c.Bridge)
	}
	for _, i := range result.Interfaces {
		if i.Sandbox != "" || i.Name == c.Bridge || i.Name == c.gatewayLink() {
			continue
		}
		l, err := netlink.LinkByName(i.Name)
		if err != nil {
			return cni.Errorf(cni.CodePlugin, "interface %s: %v", i.Name, err)
		}
		if l.Attrs().MasterIndex != br.Attrs().Index {
			return cni.Errorf(cni.CodePlugin, "interface %s is not on bridge %s", i.Name, c.Bridge)
		}
	}
	return nil
}

func checkRoutes(ns *sandbox, want []cni.Route) error {
	have, err := dump(func() ([]netlink.Route, error) { return ns.handle.RouteList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return err
	}
	found := make(map[netip.Prefix]bool)
	for _, r := range have {
		if r.Dst == nil { // netlink may show a default route like this
			zero := netip.IPv4Unspecified()
			if r.Family == netlink.FAMILY_V6 {
				zero = netip.IPv6Unspecified()
			}
			found[netip.PrefixFrom(zero, 0)] = true
			continue
		}
		addr, _ := netip.AddrFromSlice(r.Dst.IP)
		ones, _ := r.Dst.Mask.Size()
		found[netip.PrefixFrom(addr.Unmap(), ones)] = true
	}
	for _, r := range want {
		if r.Table == nil && !found[r.Dst.Masked()] {
			return cni.Errorf(cni.CodePlugin, "the route to %v is lost", r.Dst)
		}
	}
	return nil
}
