package servicetest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// The addresses of a network. The node is the first address of each range that has hosts.
var (
	// PodRange4 and PodRange6 contain the pods of all nodes.
	PodRange4, PodRange6 = netip.MustParsePrefix("10.65.0.0/19"), netip.MustParsePrefix("fd65:0::/36")
	// ServiceRange4 and ServiceRange6 are for cluster addresses.
	ServiceRange4, ServiceRange6 = netip.MustParsePrefix("10.65.200.0/21"), netip.MustParsePrefix("fd65:f000::/112")
	// NodeIP4 and NodeIP6 are addresses of the node that clients outside reach.
	NodeIP4, NodeIP6 = netip.MustParseAddr("10.65.100.1"), netip.MustParseAddr("fd65:1000::1")
)

// Network is a node with its pods and others.
type Network struct {
	t    testing.TB
	Node *Host
	// Outside is a client that is no part of the cluster.
	Outside *Host
	pods    int
	remotes int
}

// Host is a network namespace.
type Host struct {
	t    testing.TB
	Name string
	// Path is the path of the namespace.
	Path string
	// IP4 and IP6 are its addresses.
	IP4, IP6 netip.Addr
}

// NewNetwork makes a network with a node and a client outside. It skips the test without root, unless
// in continuous integration.
func NewNetwork(t testing.TB) *Network {
	t.Helper()
	if os.Getuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("network namespaces need root")
		}
		t.Skip("network namespaces need root")
	}
	n := &Network{t: t}
	n.Node = n.host("node")
	n.Node.IP4, n.Node.IP6 = NodeIP4, NodeIP6
	n.Node.Inside(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = Bridge
		if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil {
			return err
		}
		// The kernel would send one refusal a second to a client.
		for file, value := range map[string]string{
			"ipv4/ip_forward": "1", "ipv6/conf/all/forwarding": "1", "bridge/bridge-nf-call-iptables": "1", "bridge/bridge-nf-call-ip6tables": "1",
			"ipv4/icmp_ratelimit": "0", "ipv6/icmp/ratelimit": "0",
		} {
			if err := sysctl(file, value); err != nil {
				return err
			}
		}
		return address(Bridge, "10.65.1.1/24", "fd65:1::1/64")
	})
	n.Outside = n.host("outside")
	n.Outside.IP4, n.Outside.IP6 = NodeIP4.Next(), NodeIP6.Next()
	n.wire(n.Outside, "uplink", []string{"10.65.100.1/24", "fd65:1000::1/64"}, "10.65.100.2/24", "fd65:1000::2/64")
	n.Node.Inside(func() error { return defaultRoutes(n.Outside.IP4, n.Outside.IP6) })
	return n
}

// Bridge is the bridge of the node that has the pods.
const Bridge = "pk65br"

// Pod makes a pod of the node.
func (n *Network) Pod(name string) *Host {
	n.t.Helper()
	n.pods++
	h := n.host(name)
	h.IP4 = netip.MustParseAddr(fmt.Sprintf("10.65.1.%d", n.pods+1))
	h.IP6 = netip.MustParseAddr(fmt.Sprintf("fd65:1::%x", n.pods+1))
	n.wire(h, fmt.Sprintf("pod%d", n.pods), nil, h.IP4.String()+"/24", h.IP6.String()+"/64")
	return h
}

// Remote makes a pod of another node, which this node reaches without translation.
func (n *Network) Remote(name string) *Host {
	n.t.Helper()
	n.remotes++
	h := n.host(name)
	i := n.remotes + 1
	h.IP4 = netip.MustParseAddr(fmt.Sprintf("10.65.%d.2", i))
	h.IP6 = netip.MustParseAddr(fmt.Sprintf("fd65:%x::2", i))
	n.wire(h, fmt.Sprintf("far%d", n.remotes), []string{fmt.Sprintf("10.65.%d.1/24", i), fmt.Sprintf("fd65:%x::1/64", i)},
		h.IP4.String()+"/24", h.IP6.String()+"/64")
	return h
}

// host makes a namespace with its loopback up.
func (n *Network) host(name string) *Host {
	n.t.Helper()
	ns := fmt.Sprintf("pk65-%08x", rand.Uint32())
	errs := make(chan error, 1) // one answer
	go func() {
		runtime.LockOSThread() // the thread is in the new namespace and ends here
		fd, err := netns.NewNamed(ns)
		if err == nil {
			err = fd.Close()
		}
		errs <- err
	}()
	if err := <-errs; err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = netns.DeleteNamed(ns) }) // which succeeds on what is gone
	h := &Host{t: n.t, Name: name, Path: filepath.Join("/run/netns", ns)}
	h.Inside(func() error {
		// Detection of duplicate addresses takes a second.
		for _, links := range []string{"all", "default"} {
			if err := sysctl("ipv6/conf/"+links+"/accept_dad", "0"); err != nil {
				return err
			}
		}
		return up("lo")
	})
	return h
}

func sysctl(file, value string) error { return os.WriteFile("/proc/sys/net/"+file, []byte(value), 0) }

// wire connects a host with the node: with addresses at the node's end, or at the bridge.
func (n *Network) wire(h *Host, link string, node []string, host ...string) {
	n.t.Helper()
	fd, err := netns.GetFromPath(h.Path)
	if err != nil {
		n.t.Fatal(err)
	}
	defer fd.Close()
	n.Node.Inside(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = link
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: netlink.NsFd(fd)}); err != nil {
			return err
		}
		if node != nil {
			return address(link, node...)
		}
		br, err := netlink.LinkByName(Bridge)
		if err != nil {
			return err
		}
		l, err := netlink.LinkByName(link)
		if err != nil {
			return err
		}
		if err := netlink.LinkSetMaster(l, br); err != nil {
			return err
		}
		if err := netlink.LinkSetHairpin(l, true); err != nil {
			return err
		}
		return up(link)
	})
	h.Inside(func() error {
		if err := address("eth0", host...); err != nil {
			return err
		}
		var gateways []netip.Addr
		for _, a := range host {
			gateways = append(gateways, netip.MustParsePrefix(a).Masked().Addr().Next())
		}
		return defaultRoutes(gateways...)
	})
}

func defaultRoutes(gateways ...netip.Addr) error {
	for _, gateway := range gateways {
		all := net.IPNet{IP: make(net.IP, gateway.BitLen()/8), Mask: net.CIDRMask(0, gateway.BitLen())}
		if err := netlink.RouteAdd(&netlink.Route{Dst: &all, Gw: gateway.AsSlice()}); err != nil {
			return fmt.Errorf("route by %v: %w", gateway, err)
		}
	}
	return nil
}

// Inside runs f on a thread in the host's namespace. Sockets that f makes stay there.
func (h *Host) Inside(f func() error) {
	h.t.Helper()
	if err := h.Try(f); err != nil {
		h.t.Fatalf("%s: %v", h.Name, err)
	}
}

// Try is Inside and returns the error.
func (h *Host) Try(f func() error) error {
	errs := make(chan error, 1) // one answer
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends here
		fd, err := netns.GetFromPath(h.Path)
		if err == nil {
			err = netns.Set(fd)
			fd.Close()
		}
		if err == nil {
			err = f()
		}
		errs <- err
	}()
	return <-errs
}

func up(name string) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(l)
}

func address(name string, all ...string) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	for _, text := range all {
		a, err := netlink.ParseAddr(text)
		if err != nil {
			return err
		}
		a.Flags |= unix.IFA_F_NODAD
		if err := netlink.AddrAdd(l, a); err != nil {
			return fmt.Errorf("add %s to %s: %w", text, name, err)
		}
	}
	return netlink.LinkSetUp(l)
}
