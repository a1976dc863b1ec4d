//go:build linux

// Package bridge is the CNI plugin "bridge": it connects the containers of a host to one Linux
// bridge and routes between the bridge and other networks.
//
//	{
//		"type": "bridge", "bridge": "pk0",
//		"isGateway": true, "isDefaultGateway": true, "hairpinMode": true,
//		"ipMasq": true, "clusterCIDR": "10.244.0.0/16",
//		"ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.1.0/24"}]]}
//	}
//
// ADD creates the bridge if it is missing, assigns the gateway's address to it, creates a veth pair
// with the container's interface as one end, and requests addresses from the IPAM plugin. Steps
// that are the same for all containers are idempotent and run under a lock, because several
// containers may be added at once. Several bridges of one host reach each other through its
// routing.
//
// ipMasq uses one rule per bridge and family: traffic from the bridge's subnets to addresses
// outside clusterCIDR gets the host's address. If the host does not forward by default (an iptables
// FORWARD policy of DROP), rules accept the bridge's traffic. All rules are removed with the last
// container.
//
// Failures: a failed ADD removes what it made. One that is killed may leave things behind, which DEL
// removes. DEL succeeds on whatever is left, even if the namespace is gone. [Remove] removes everything
// of a bridge.
//
// macspoofchk drops what a container sends with another hardware address than its own, by an nftables
// table for each container. addressspoofchk drops all that is not the container's own: ARP, Neighbor
// Discovery and IP packets with other addresses, router advertisements, redirects, frames with a VLAN or
// of another type, IP multicasts and broadcasts, and packets to addresses of the link or of 127.0.0.0/8.
// Behind a gateway it also makes the host route what containers of the bridge send to each other, so that
// the host's rules see it without br_netfilter, and keeps frames from ports that they are not for. The host and its
// containers know each other as permanent neighbours, so that a container that fills the kernel's table of neighbours
// does not part them.
//
// A kernel without CONFIG_BRIDGE_VLAN_FILTERING refuses VLANs, and ADD fails.
//
// Not included: iptables rules without the iptables command.
package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/planekit/planekit/cni"
	"github.com/planekit/planekit/cni/skel"
	"github.com/vishvananda/netlink"
)

// Plugin returns the plugin.
func Plugin() skel.Plugin {
	return skel.Plugin{Name: "bridge", Add: add, Del: del, Check: check, GC: gc, Status: status}
}

// Conf is the plugin's part of the configuration.
type Conf struct {
	Type string `json:"type"`
	// Bridge is the name of the bridge; empty means cni0.
	Bridge string `json:"bridge,omitempty"`
	// IsGateway assigns the gateway's address to the bridge.
	IsGateway bool `json:"isGateway,omitempty"`
	// IsDefaultGateway also makes it the container's default route.
	IsDefaultGateway bool `json:"isDefaultGateway,omitempty"`
	// ForceAddress removes the bridge's other addresses that overlap with the gateway's, and for IPv4 all
	// others. Without it, they stay beside it.
	ForceAddress bool `json:"forceAddress,omitempty"`
	// HairpinMode lets a container reach itself through the bridge.
	HairpinMode bool `json:"hairpinMode,omitempty"`
	// PromiscMode lets the bridge receive all frames. It excludes HairpinMode: a container would get its
	// own frames twice.
	PromiscMode bool `json:"promiscMode,omitempty"`
	// MacSpoofChk drops what the container sends with another hardware address than its own.
	MacSpoofChk bool `json:"macspoofchk,omitempty"`
	// AddressSpoofChk drops what the container sends with other addresses than its own, MACs included. It
	// needs IPAM and excludes VLANs.
	AddressSpoofChk bool `json:"addressspoofchk,omitempty"`
	// PortIsolation keeps the container from other containers with it: their frames are not forwarded to
	// each other, only to the gateway and to other ports.
	PortIsolation bool `json:"portIsolation,omitempty"`
	// VLAN is the container's VLAN, from 1 to 4094, whose frames leave for it without a tag. Zero means
	// none. The gateway's address is then on a pair of interfaces in the VLAN, not on the bridge.
	VLAN int `json:"vlan,omitempty"`
	// VLANTrunk are VLANs whose frames reach the container with their tag.
	VLANTrunk []VLANRange `json:"vlanTrunk,omitempty"`
	// PreserveDefaultVLAN leaves the container in the bridge's default VLAN too.
	PreserveDefaultVLAN bool `json:"preserveDefaultVlan,omitempty"`
	// MTU in bytes; zero is the kernel's choice.
	MTU int `json:"mtu,omitempty"`
	// EnableDAD detects duplicate IPv6 addresses in the container, and waits for the outcome.
	EnableDAD bool `json:"enabledad,omitempty"`
	// DisableContainerInterface leaves the container's interface down. It excludes IPAM.
	DisableContainerInterface bool `json:"disableContainerInterface,omitempty"`
	// IPMasq masquerades traffic to addresses outside ClusterCIDR.
	IPMasq bool `json:"ipMasq,omitempty"`
	// IPMasqBackend is empty or "iptables"; others are refused.
	IPMasqBackend string `json:"ipMasqBackend,omitempty"`
	// ClusterCIDR is exempt from masquerading, one prefix for each family. Empty means the
	// container's own subnet.
	ClusterCIDR Prefixes `json:"clusterCIDR,omitempty"`
	// LockDir is the directory of locks; empty means /run/planekit.
	LockDir string `json:"lockDir,omitempty"`
	// DNS is the result's DNS; empty means that of the IPAM plugin.
	DNS cni.DNS `json:"dns,omitzero"`
	// IPAM configures the IPAM plugin; without it, there are no addresses.
	IPAM any `json:"ipam,omitempty"`

	ipamType string
	mac      net.HardwareAddr
	trunk    []uint16
}

func parse(r *skel.Request) (*Conf, error) {
	var more struct {
		IPAM struct {
			Type string `json:"type"`
		} `json:"ipam"`
		RuntimeConfig struct {
			Mac string `json:"mac"`
		} `json:"runtimeConfig"`
		Args struct {
			CNI struct {
				Mac string `json:"mac"`
			} `json:"cni"`
		} `json:"args"`
	}
	c := new(Conf)
	if err := errors.Join(r.Decode(c), r.Decode(&more)); err != nil {
		return nil, err
	}
	c.ipamType = more.IPAM.Type
	if c.Bridge == "" {
		c.Bridge = "cni0"
	}
	if c.LockDir == "" {
		c.LockDir = "/run/planekit"
	}
	c.IsGateway = c.IsGateway || c.IsDefaultGateway
	if mac := cmp.Or(more.RuntimeConfig.Mac, more.Args.CNI.Mac, r.Args.Get("MAC")); mac != "" {
		var err error
		if c.mac, err = net.ParseMAC(mac); err != nil || len(c.mac) != 6 {
			return nil, cni.Errorf(cni.CodeInvalidConfig, "mac %q is not a hardware address", mac)
		}
	}
	return c, c.check()
}

// check checks the values of the configuration.
func (c *Conf) check() error {
	invalid := func(format string, args ...any) error { return cni.Errorf(cni.CodeInvalidConfig, format, args...) }
	if err := cni.CheckIfName(c.Bridge); err != nil {
		return invalid("bridge: %v", err)
	}
	var err error
	if c.trunk, err = trunk(c.VLANTrunk); err != nil {
		return invalid("%v", err)
	}
	switch {
	case c.HairpinMode && c.PromiscMode:
		return invalid("hairpinMode and promiscMode exclude each other")
	case c.DisableContainerInterface && c.ipamType != "":
		return invalid("disableContainerInterface and ipam exclude each other")
	case c.AddressSpoofChk && (c.ipamType == "" || c.hasVLANs()):
		return invalid("addressspoofchk needs ipam and excludes VLANs")
	case c.MTU < 0:
		return invalid("mtu %d is negative", c.MTU)
	case c.VLAN < 0 || c.VLAN > maxVLAN:
		return invalid("vlan %d is not from 0 to %d", c.VLAN, maxVLAN)
	case c.IPMasqBackend != "" && c.IPMasqBackend != "iptables":
		return invalid("ipMasqBackend %q is not supported: iptables is", c.IPMasqBackend)
	}
	if c.VLAN != 0 && c.IsGateway {
		if err := cni.CheckIfName(c.gatewayLink()); err != nil {
			return invalid("the gateway of vlan %d: %v", c.VLAN, err)
		}
	}
	return nil
}

// locked runs f while no other process changes the bridge.
func (c *Conf) locked(ctx context.Context, f func() error) error {
	if err := os.MkdirAll(c.LockDir, 0o755); err != nil {
		return err
	}
	unlock, err := cni.FileLock(ctx, filepath.Join(c.LockDir, c.Bridge+".lock"))
	if err != nil {
		return cni.Errorf(cni.CodeTryAgain, "%v", err)
	}
	defer unlock()
	return f()
}

func add(ctx context.Context, r *skel.Request) (*cni.Result, error) {
	c, err := parse(r)
	if err != nil {
		return nil, err
	}
	ns, err := open(r.NetNS)
	if err != nil {
		return nil, err
	}
	defer ns.close()
	result := new(cni.Result)
	if c.ipamType != "" {
		if result, err = c.addresses(ctx, r); err != nil {
			return nil, err
		}
	}
	host, err := c.attach(ctx, r, ns, result)
	if err != nil {
		return nil, errors.Join(err, c.undo(context.WithoutCancel(ctx), r, host))
	}
	two := 2
	for i := range result.IPs {
		result.IPs[i].Interface = &two
	}
	if !c.DNS.IsZero() {
		result.DNS = c.DNS
	}
	return result, nil
}

// attach connects the container and adds the interfaces to the result. It returns the host's end of the
// pair even with an error, nil if there is none.
func (c *Conf) attach(ctx context.Context, r *skel.Request, ns *sandbox, result *cni.Result) (netlink.Link, error) {
	host, err := c.plug(ctx, r, ns, result)
	if err == nil {
		result.Interfaces, err = c.interfaces(ns, host, r)
	}
	if err == nil {
		err = c.inside(ctx, ns, r.IfName, result)
	}
	return host, err
}

// undo removes what a failed ADD made, the interface before its addresses. DEL removes what it cannot.
func (c *Conf) undo(ctx context.Context, r *skel.Request, host netlink.Link) error {
	if host != nil {
		if err := gone(netlink.LinkDel(host)); err != nil {
			return err
		}
	}
	return c.release(ctx, r)
}

// release frees everything of an attachment whose interface is gone.
func (c *Conf) release(ctx context.Context, r *skel.Request) error {
	if c.guarded() {
		table := spoofTable(c.Bridge, r.Name, r.ContainerID, r.IfName)
		if err := removeGuards(ctx, func(name string) bool { return name == table.Name }); err != nil {
			return err
		}
	}
	if c.AddressSpoofChk {
		if err := c.forgetNeighbors(r.Previous); err != nil {
			return err
		}
	}
	if c.ipamType != "" {
		if _, err := r.Delegate(ctx, cni.CmdDel, c.ipamType); err != nil {
			return err
		}
	}
	return c.locked(ctx, func() error { return c.leave(ctx) })
}

// addresses requests addresses from the IPAM plugin.
func (c *Conf) addresses(ctx context.Context, r *skel.Request) (*cni.Result, error) {
	out, err := r.Delegate(ctx, cni.CmdAdd, c.ipamType)
	if err != nil {
		return nil, err
	}
	result, err := cni.ParseResult(out, r.CNIVersion)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.ipamType, err)
	}
	if len(result.IPs) == 0 {
		return nil, cni.Errorf(cni.CodePlugin, "%s gave no address", c.ipamType)
	}
	for i, ip := range result.IPs {
		if !ip.Gateway.IsValid() && c.IsGateway {
			result.IPs[i].Gateway = ip.Address.Masked().Addr().Next()
		}
	}
	if c.IsDefaultGateway {
		result.Routes = append(defaultRoutes(result.IPs), withoutDefault(result.Routes)...)
	}
	return result, nil
}

func defaultRoutes(ips []cni.IP) []cni.Route {
	var routes []cni.Route
	for _, ip := range ips {
		zero := netip.IPv4Unspecified()
		if !ip.Address.Addr().Is4() {
			zero = netip.IPv6Unspecified()
		}
		routes = append(routes, cni.Route{Dst: netip.PrefixFrom(zero, 0), GW: ip.Gateway})
	}
	return routes
}

func withoutDefault(routes []cni.Route) []cni.Route {
	var rest []cni.Route
	for _, r := range routes {
		if r.Dst.Bits() > 0 {
			rest = append(rest, r)
		}
	}
	return rest
}

// del removes the interface before another container can get its address.
func del(ctx context.Context, r *skel.Request) error {
	c, err := parse(r)
	if err != nil {
		return err
	}
	if err := unplug(r.NetNS, r.IfName); err != nil {
		return err
	}
	return c.release(ctx, r)
}

// leave removes the rules and the gateways of VLANs after the last container.
func (c *Conf) leave(ctx context.Context) error {
	ports, err := ports(c.Bridge)
	if err != nil {
		return err
	}
	gateways := vlanGateways(c.Bridge, ports)
	if len(ports) > len(gateways) {
		return nil
	}
	for _, g := range gateways {
		if err := gone(netlink.LinkDel(g)); err != nil {
			return err
		}
	}
	return removeRules(ctx, c.Bridge)
}

func gc(ctx context.Context, r *skel.Request) error {
	c, err := parse(r)
	if err != nil {
		return err
	}
	if c.ipamType != "" {
		if _, err := r.Delegate(ctx, cni.CmdGC, c.ipamType); err != nil {
			return err
		}
	}
	if c.guarded() && r.Valid != nil {
		if err := c.removeGuardsExcept(ctx, r.Name, r.Valid); err != nil {
			return err
		}
	}
	return c.locked(ctx, func() error { return c.leave(ctx) })
}

func status(ctx context.Context, r *skel.Request) error {
	c, err := parse(r)
	if err != nil {
		return err
	}
	if c.IPMasq {
		if _, err := iptablesPath(v4); err != nil {
			return cni.Errorf(cni.CodeNotAvailable, "ipMasq: %v", err)
		}
	}
	if c.ipamType == "" {
		return nil
	}
	_, err = r.Delegate(ctx, cni.CmdStatus, c.ipamType)
	return err
}
