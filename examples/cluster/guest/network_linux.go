package guest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/planekit/planekit/cni/bridge"
)

// NetworkConfig configures a Network. Both fields must be set.
type NetworkConfig struct {
	// Bridge is the name of the bridge on the host, with at most 15 bytes.
	Bridge string
	// Prefix is the IPv4 range of the addresses of machines. Its first address is that of the host.
	Prefix netip.Prefix
}

// Network is a bridge that joins machines to the host. Its methods are for one goroutine at a time.
type Network struct{ config NetworkConfig }

// NewNetwork returns a network. It makes nothing.
func NewNetwork(c NetworkConfig) (*Network, error) {
	switch {
	case c.Bridge == "" || len(c.Bridge) >= unix.IFNAMSIZ:
		return nil, fmt.Errorf("guest: the name of the bridge %q is empty or too long", c.Bridge)
	case !c.Prefix.IsValid() || !c.Prefix.Addr().Is4() || c.Prefix.Bits() > 30:
		return nil, fmt.Errorf("guest: network %v is not an IPv4 range with room for two machines", c.Prefix)
	}
	c.Prefix = c.Prefix.Masked()
	return &Network{config: c}, nil
}

// Gateway returns the address of the host in the network.
func (n *Network) Gateway() netip.Addr { return n.config.Prefix.Addr().Next() }

// Address returns the address of the machine with that index, from 0. It is not valid if the network has
// no room for it.
func (n *Network) Address(index int) netip.Addr {
	address := n.Gateway()
	for range index + 1 {
		address = address.Next()
	}
	if !n.config.Prefix.Contains(address.Next()) { // the last one is for broadcasts
		return netip.Addr{}
	}
	return address
}

// Up makes what is missing of the network.
func (n *Network) Up(ctx context.Context) error {
	if err := n.up(ctx); err != nil {
		return fmt.Errorf("network of machines: %w", err)
	}
	return nil
}

func (n *Network) up(ctx context.Context) error {
	link := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: n.config.Bridge}}
	if err := netlink.LinkAdd(link); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("create bridge %s: %w", n.config.Bridge, err)
	}
	made, err := netlink.LinkByName(n.config.Bridge)
	if err != nil {
		return err
	}
	address := &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(n.Gateway(), n.config.Prefix.Bits()))}
	if err := netlink.AddrReplace(made, address); err != nil {
		return fmt.Errorf("address of bridge %s: %w", n.config.Bridge, err)
	}
	if err := netlink.LinkSetUp(made); err != nil {
		return err
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		return err
	}
	return n.rules(ctx)
}

// rules lets packets of machines through, and gives those that leave the network an address of the host. The
// comments of the rules begin as those of bridge do, so that its Remove removes them.
func (n *Network) rules(ctx context.Context) error {
	comment := "planekit:" + n.config.Bridge + ":"
	type rule struct {
		table, chain string
		match        []string
		target       string
	}
	all := []rule{{"nat", "POSTROUTING", []string{"-s", n.config.Prefix.String(), "!", "-d", n.config.Prefix.String(), "!", "-o", n.config.Bridge}, "MASQUERADE"}}
	policy, err := iptables(ctx, "-t", "filter", "-S", "FORWARD")
	if err != nil {
		return err
	}
	if strings.HasPrefix(policy, "-P FORWARD DROP") {
		all = append(all, rule{"filter", "FORWARD", []string{"-i", n.config.Bridge}, "ACCEPT"}, rule{"filter", "FORWARD", []string{"-o", n.config.Bridge}, "ACCEPT"})
	}
	for i, r := range all {
		words := append(r.match, "-m", "comment", "--comment", fmt.Sprintf("%sguests-%d", comment, i), "-j", r.target)
		if _, err := iptables(ctx, append([]string{"-t", r.table, "-C", r.chain}, words...)...); err == nil {
			continue
		}
		if _, err := iptables(ctx, append([]string{"-t", r.table, "-A", r.chain}, words...)...); err != nil {
			return err
		}
	}
	return nil
}

// Down removes the network. It succeeds if nothing is left of it.
func (n *Network) Down(ctx context.Context) error { return bridge.Remove(ctx, n.config.Bridge) }

// plug joins a machine, whose init has that pid, to the network. The machine's end is called eth0.
func (n *Network) plug(pid int, port string, address netip.Addr) error {
	if err := unplug(port); err != nil {
		return err
	}
	link, err := netlink.LinkByName(n.config.Bridge)
	if err != nil {
		return fmt.Errorf("bridge %s: %w", n.config.Bridge, err)
	}
	pair := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: port, MasterIndex: link.Attrs().Index, MTU: link.Attrs().MTU},
		PeerName:  eth0, PeerNamespace: netlink.NsPid(pid), PeerHardwareAddr: hardwareAddress(address),
	}
	if err := netlink.LinkAdd(pair); err != nil {
		return fmt.Errorf("create link %s: %w", port, err)
	}
	made, err := netlink.LinkByName(port)
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(made)
}

// hardwareAddress returns that of the machine with an IPv4 address. A machine keeps it when it is switched off and
// on: other machines remember it, and send to it for some seconds before they ask again.
func hardwareAddress(address netip.Addr) net.HardwareAddr {
	const local = 0x02 // the bit of addresses that no vendor gives (IEEE 802)
	return append(net.HardwareAddr{local, 0}, address.AsSlice()...)
}

// unplug removes the host's end of a machine's link, which may outlive the machine for a moment.
func unplug(port string) error {
	old, err := netlink.LinkByName(port)
	if err != nil {
		return nil //nolint:nilerr // there is none
	}
	if err := netlink.LinkDel(old); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove link %s: %w", port, err)
	}
	return nil
}

// SetLink connects a machine's link, or disconnects it as if its cable were pulled.
func (n *Network) SetLink(port string, connected bool) error {
	link, err := netlink.LinkByName(port)
	if err != nil {
		return err
	}
	if connected {
		return netlink.LinkSetUp(link)
	}
	return netlink.LinkSetDown(link)
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// iptables runs the command with a wait for its lock.
func iptables(ctx context.Context, words ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "iptables", append([]string{"-w"}, words...)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("iptables %s: %w: %s", strings.Join(words, " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}
