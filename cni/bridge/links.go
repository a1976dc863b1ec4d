//go:build linux

package bridge

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"

	"github.com/planekit/planekit/cni"
	"github.com/planekit/planekit/cni/skel"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ensure creates or updates the bridge and the gateway's addresses. The caller holds the lock.
func (c *Conf) ensure(ips []cni.IP) (br *netlink.Bridge, gateway netlink.Link, err error) {
	if br, err = c.link(); err != nil || !c.IsGateway || len(ips) == 0 {
		return br, br, err
	}
	if gateway, err = c.gateway(br); err != nil {
		return br, nil, err
	}
	for _, ip := range ips {
		prefix := netip.PrefixFrom(ip.Gateway, ip.Address.Bits())
		if c.ForceAddress {
			if err := removeOthers(gateway, prefix, ips); err != nil {
				return br, gateway, err
			}
		}
		if err := netlink.AddrReplace(gateway, addr(prefix)); err != nil {
			return br, gateway, fmt.Errorf("bridge %s: add %v: %w", c.Bridge, prefix, err)
		}
		if err := forward(ip.Address.Addr()); err != nil {
			return br, gateway, err
		}
	}
	return br, gateway, nil
}

// removeOthers removes a link's IPv4 addresses and overlapping IPv6 ones that are no gateway of ips.
func removeOthers(link netlink.Link, gateway netip.Prefix, ips []cni.IP) error {
	family := netlink.FAMILY_V4
	if gateway.Addr().Is6() {
		family = netlink.FAMILY_V6
	}
	all, err := dump(func() ([]netlink.Addr, error) { return netlink.AddrList(link, family) })
	if err != nil {
		return err
	}
	for _, a := range all {
		ip, _ := netip.AddrFromSlice(a.IP)
		ones, _ := a.Mask.Size()
		have := netip.PrefixFrom(ip.Unmap(), ones)
		wanted := slices.ContainsFunc(ips, func(i cni.IP) bool { return netip.PrefixFrom(i.Gateway, i.Address.Bits()) == have })
		if wanted || gateway.Addr().Is6() && !have.Overlaps(gateway) {
			continue
		}
		if err := netlink.AddrDel(link, &a); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
			return fmt.Errorf("forceAddress: remove %v from %s: %w", have, link.Attrs().Name, err)
		}
	}
	return nil
}

// link returns the bridge, created if necessary, and up.
func (c *Conf) link() (*netlink.Bridge, error) {
	link, err := netlink.LinkByName(c.Bridge)
	if _, missing := errors.AsType[netlink.LinkNotFoundError](err); missing {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU = c.Bridge, c.MTU
		if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attrs, VlanFiltering: c.vlanFiltering()}); err != nil && !errors.Is(err, unix.EEXIST) {
			what := "bridge"
			if c.hasVLANs() {
				what = "bridge with VLANs"
			}
			return nil, fmt.Errorf("make %s %s: %w", what, c.Bridge, err)
		}
		if link, err = netlink.LinkByName(c.Bridge); err == nil {
			// Set the hardware address explicitly: otherwise it changes with the ports, and every
			// container would have a stale one for its gateway.
			err = netlink.LinkSetHardwareAddr(link, link.Attrs().HardwareAddr)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("bridge %s: %w", c.Bridge, err)
	}
	br, ok := link.(*netlink.Bridge)
	if !ok {
		return nil, cni.Errorf(cni.CodeInvalidConfig, "interface %s is a %s, not a bridge", c.Bridge, link.Type())
	}
	if c.hasVLANs() && (br.VlanFiltering == nil || !*br.VlanFiltering) {
		// With this attribute alone: the kernel refuses some of the values that it reports itself.
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.Index = c.Bridge, br.Attrs().Index
		if err := netlink.LinkModify(&netlink.Bridge{LinkAttrs: attrs, VlanFiltering: c.vlanFiltering()}); err != nil {
			return nil, fmt.Errorf("bridge %s: VLANs: %w", c.Bridge, err)
		}
	}
	if c.PromiscMode {
		if err := netlink.SetPromiscOn(br); err != nil {
			return nil, fmt.Errorf("bridge %s: promiscuous mode: %w", c.Bridge, err)
		}
	}
	if err := netlink.LinkSetUp(br); err != nil {
		return nil, fmt.Errorf("bridge %s: set up: %w", c.Bridge, err)
	}
	return br, nil
}

func addr(p netip.Prefix) *netlink.Addr {
	a := &netlink.Addr{IPNet: ipNet(p)}
	if !p.Addr().Is4() {
		// The addresses are unique; detection would cost seconds.
		a.Flags = unix.IFA_F_NODAD
	}
	return a
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// forward enables forwarding for the family of a.
func forward(a netip.Addr) error {
	path := "/proc/sys/net/ipv4/ip_forward"
	if !a.Is4() {
		path = "/proc/sys/net/ipv6/conf/all/forwarding"
	}
	old, err := os.ReadFile(path)
	if err == nil && len(old) > 0 && old[0] == '1' {
		return nil
	}
	return os.WriteFile(path, []byte("1"), 0o644)
}

func vethName() string { return fmt.Sprintf("veth%08x", rand.Uint32()) }

// plug creates the veth pair, connects its host end to the bridge and returns it, even with an error
// after it was created.
func (c *Conf) plug(ctx context.Context, r *skel.Request, ns *sandbox, result *cni.Result) (netlink.Link, error) {
	veth := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: r.IfName, PeerNamespace: netlink.NsFd(ns.fd)}
	veth.Name, veth.MTU, veth.PeerHardwareAddr = vethName(), c.MTU, c.mac
	err := netlink.LinkAdd(veth)
	if errors.Is(err, unix.EEXIST) {
		return nil, cni.Errorf(cni.CodePlugin, "interface %s exists in the container", r.IfName)
	}
	if err != nil {
		return nil, fmt.Errorf("make %s and %s: %w", veth.Name, r.IfName, err)
	}
	return veth, c.locked(ctx, func() error {
		br, gateway, err := c.ensure(result.IPs)
		if err != nil {
			return err
		}
		if c.guarded() {
			if err := c.addGuard(ctx, r, ns, veth, result); err != nil {
				return err
			}
		}
		if err := c.setPort(br, veth); err != nil {
			return err
		}
		if c.AddressSpoofChk {
			if err := c.fixPort(ns, r.IfName, veth); err != nil {
				return err
			}
		}
		forget(gateway, result.IPs)
		if c.AddressSpoofChk {
			if err := c.fixNeighbors(ns, r.IfName, gateway, result.IPs); err != nil {
				return err
			}
		}
		return c.rules(ctx, result.IPs)
	})
}

// addGuard installs the guard of an attachment, while the host's end of the pair is down and on no bridge.
func (c *Conf) addGuard(ctx context.Context, r *skel.Request, ns *sandbox, host netlink.Link, result *cni.Result) error {
	interfaces, err := c.interfaces(ns, host, r)
	if err != nil {
		return err
	}
	g, err := c.guard(r, interfaces, result.IPs)
	if err != nil {
		return err
	}
	return g.install(ctx)
}

// fixPort makes the bridge forward to the port what is for the container's hardware address, and no frames
// to addresses that it does not know. It learns nothing, so nothing can be forgotten.
func (c *Conf) fixPort(ns *sandbox, ifName string, port netlink.Link) error {
	inside, err := ns.handle.LinkByName(ifName)
	if err != nil {
		return err
	}
	err = errors.Join(
		netlink.NeighSet(&netlink.Neigh{
			LinkIndex: port.Attrs().Index, Family: unix.AF_BRIDGE, State: netlink.NUD_NOARP, Flags: netlink.NTF_MASTER,
			HardwareAddr: inside.Attrs().HardwareAddr,
		}),
		netlink.LinkSetLearning(port, false), netlink.LinkSetFlood(port, false))
	if err != nil {
		return fmt.Errorf("fix the addresses of %s: %w", port.Attrs().Name, err)
	}
	return nil
}

// setPort makes the host's end a port of the bridge.
func (c *Conf) setPort(br, veth netlink.Link) error {
	name := veth.Attrs().Name
	if err := netlink.LinkSetMaster(veth, br); err != nil {
		return fmt.Errorf("put %s on %s: %w", name, c.Bridge, err)
	}
	if c.HairpinMode {
		if err := netlink.LinkSetHairpin(veth, true); err != nil {
			return fmt.Errorf("hairpin mode of %s: %w", name, err)
		}
	}
	if c.PortIsolation {
		if err := netlink.LinkSetIsolated(veth, true); err != nil {
			return fmt.Errorf("isolation of %s: %w", name, err)
		}
	}
	if c.hasVLANs() {
		if err := c.setVLANs(veth, c.VLAN, c.trunk); err != nil {
			return err
		}
	}
	if err := netlink.LinkSetUp(veth); err != nil {
		return fmt.Errorf("set %s up: %w", name, err)
	}
	return nil
}

// forget removes the host's neighbour entries of previous owners of the addresses.
func forget(br netlink.Link, ips []cni.IP) {
	for _, ip := range ips {
		// Usually there is no entry.
		_ = netlink.NeighDel(&netlink.Neigh{LinkIndex: br.Attrs().Index, IP: ip.Address.Addr().AsSlice()})
	}
}

// ports returns the interfaces on a bridge.
func ports(bridge string) ([]netlink.Link, error) {
	br, err := netlink.LinkByName(bridge)
	if _, missing := errors.AsType[netlink.LinkNotFoundError](err); missing {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	links, err := dump(netlink.LinkList)
	if err != nil {
		return nil, err
	}
	var on []netlink.Link
	for _, l := range links {
		if l.Attrs().MasterIndex == br.Attrs().Index {
			on = append(on, l)
		}
	}
	return on, nil
}

// interfaces describes the bridge, both ends of the pair, and the gateway of a VLAN, in this order.
func (c *Conf) interfaces(ns *sandbox, host netlink.Link, r *skel.Request) ([]cni.Interface, error) {
	inside, err := ns.handle.LinkByName(r.IfName)
	if err != nil {
		return nil, err
	}
	var all []cni.Interface
	for _, name := range []string{c.Bridge, host.Attrs().Name} {
		l, err := netlink.LinkByName(name) // again, for addresses that the kernel chose
		if err != nil {
			return nil, err
		}
		all = append(all, cni.Interface{Name: name, Mac: l.Attrs().HardwareAddr.String(), MTU: l.Attrs().MTU})
	}
	all = append(all, cni.Interface{
		Name: r.IfName, Mac: inside.Attrs().HardwareAddr.String(), MTU: inside.Attrs().MTU, Sandbox: r.NetNS,
	})
	if c.VLAN == 0 || !c.IsGateway || c.ipamType == "" {
		return all, nil
	}
	l, err := netlink.LinkByName(c.gatewayLink())
	if err != nil {
		return nil, err
	}
	return append(all, cni.Interface{Name: l.Attrs().Name, Mac: l.Attrs().HardwareAddr.String(), MTU: l.Attrs().MTU}), nil
}
