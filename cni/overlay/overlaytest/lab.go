//go:build linux

// Package overlaytest makes networks of machines for tests and benchmarks of overlays. A machine is a
// network namespace with an interface in a common underlay, and a pod, another namespace, behind a
// bridge.
//
//	lab := overlaytest.New(t, overlaytest.Config{Machines: 3})
//	a, b := lab.Machines[0], lab.Machines[1]
//	... run an overlay in a.NetNS and in b.NetNS ...
//	a.PodInside(func() error { ... connect to b.PodAddress ... })
//
// The namespaces have no names, so nothing remains of a test that is killed. It needs root.
package overlaytest

import (
	"fmt"
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

// Config configures a [Lab].
type Config struct {
	// Machines is their number, up to 200.
	Machines int
	// MTU of the underlay in bytes; zero means 1500.
	MTU int
	// Routed gives each machine a network of its own with a router between them, instead of one L2
	// network.
	Routed bool
	// Only6 makes an underlay without IPv4.
	Only6 bool
}

// A Lab is a network of machines.
type Lab struct {
	testing.TB
	Config
	Machines []*Machine
	// Router is the namespace that the machines' interfaces lead to. It has the bridge of the underlay.
	Router *Namespace
}

// A Namespace is a network namespace.
type Namespace struct {
	tb testing.TB
	fd netns.NsHandle
	// Path is valid while the test runs.
	Path string
	// Handle configures it.
	Handle *netlink.Handle
}

// A Machine is one host.
type Machine struct {
	*Namespace
	Name string
	// Underlay is the name of its interface to the other machines.
	Underlay string
	// Address and Address6 are those in the underlay.
	Address, Address6 netip.Addr
	// Subnets are the ranges of its pods: one of each family.
	Subnets []netip.Prefix
	// Pod is the namespace of its pod, with an address of each family.
	Pod                     *Namespace
	PodAddress, PodAddress6 netip.Addr
}

// Names of the interfaces of a machine.
const (
	underlayName = "eth0"
	bridgeName   = "pk0"
)

// New makes a lab that is removed at the end of the test.
func New(tb testing.TB, c Config) *Lab {
	tb.Helper()
	if os.Getuid() != 0 {
		if os.Getenv("CI") == "true" {
			tb.Fatal("network namespaces need root")
		}
		tb.Skip("network namespaces need root")
	}
	if c.MTU == 0 {
		c.MTU = 1500
	}
	l := &Lab{TB: tb, Config: c, Router: NewNamespace(tb)}
	l.must(l.makeRouter())
	for i := range c.Machines {
		m, err := l.makeMachine(i)
		l.must(err)
		l.Machines = append(l.Machines, m)
	}
	return l
}

func (l *Lab) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// NewNamespace makes a namespace without a name that is removed at the end of the test.
func NewNamespace(tb testing.TB) *Namespace {
	tb.Helper()
	n := &Namespace{tb: tb, fd: netns.None()}
	errs := make(chan error, 1) // room for the one answer
	go func() {
		runtime.LockOSThread() // the thread is in the new namespace and ends here
		var err error
		n.fd, err = netns.New()
		errs <- err
	}()
	if err := <-errs; err != nil {
		tb.Fatalf("make a network namespace: %v", err)
	}
	n.Path = fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), int(n.fd))
	var err error
	if n.Handle, err = netlink.NewHandleAt(n.fd, unix.NETLINK_ROUTE); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		n.Handle.Close()
		n.fd.Close()
	})
	lo, err := n.Handle.LinkByName("lo")
	if err == nil {
		err = n.Handle.LinkSetUp(lo)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// Inside runs f on a thread in the namespace. Sockets made by f stay there.
func (n *Namespace) Inside(f func() error) error {
	done := make(chan error, 1) // room for the one answer
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		err := netns.Set(n.fd)
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

// Sysctl sets a file below /proc/sys/net.
func (n *Namespace) Sysctl(name, value string) error {
	return n.Inside(func() error { return os.WriteFile(filepath.Join("/proc/sys/net", name), []byte(value), 0o644) })
}

// Addr adds addresses to an interface and sets it up. IPv6 addresses are usable at once.
func (n *Namespace) Addr(link string, addresses ...netip.Prefix) error {
	at, err := n.Handle.LinkByName(link)
	if err != nil {
		return err
	}
	for _, p := range addresses {
		a := &netlink.Addr{IPNet: ipNet(p)}
		if p.Addr().Is6() {
			a.Flags = unix.IFA_F_NODAD
		}
		if err := n.Handle.AddrAdd(at, a); err != nil {
			return fmt.Errorf("add %v to %s: %w", p, link, err)
		}
	}
	return n.Handle.LinkSetUp(at)
}

// Route adds a route to dst by a gateway.
func (n *Namespace) Route(dst netip.Prefix, gateway netip.Addr) error {
	return n.Handle.RouteAdd(&netlink.Route{Dst: ipNet(dst), Gw: gateway.AsSlice()})
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func (l *Lab) makeRouter() error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = "underlay", l.MTU
	if err := l.Router.Handle.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil {
		return fmt.Errorf("make the underlay's bridge: %w", err)
	}
	if err := l.Router.Sysctl("ipv4/ip_forward", "1"); err != nil {
		return err
	}
	if err := l.Router.Sysctl("ipv6/conf/all/forwarding", "1"); err != nil {
		return err
	}
	return l.Router.Addr("underlay")
}

func prefix(format string, args ...any) netip.Prefix {
	return netip.MustParsePrefix(fmt.Sprintf(format, args...))
}

func (l *Lab) makeMachine(i int) (*Machine, error) {
	n := i + 1
	m := &Machine{
		Namespace: NewNamespace(l), Name: fmt.Sprintf("m%d", n), Underlay: underlayName, Pod: NewNamespace(l),
		Subnets: []netip.Prefix{prefix("10.64.%d.0/24", n), prefix("fd63:64:%x::/64", n)},
	}
	// Networks of one machine each, if there is a router, else one network for all.
	net4, net6 := prefix("10.63.0.%d/24", n+10), prefix("fd63::%x/64", n+10)
	if l.Routed {
		net4, net6 = prefix("10.63.%d.2/24", n), prefix("fd63:0:0:%x::2/64", n)
	}
	m.Address6 = net6.Addr()
	addresses := []netip.Prefix{net6}
	if !l.Only6 {
		m.Address, addresses = net4.Addr(), append(addresses, net4)
	}
	if err := l.plug(m, n, addresses); err != nil {
		return nil, err
	}
	return m, m.makePod(l)
}

// plug connects a machine to the underlay.
func (l *Lab) plug(m *Machine, n int, addresses []netip.Prefix) error {
	port := fmt.Sprintf("port%d", n)
	if err := veth(l.Router, port, m.Namespace, m.Underlay, l.MTU); err != nil {
		return err
	}
	if err := m.Addr(m.Underlay, addresses...); err != nil {
		return err
	}
	if !l.Routed {
		return onBridge(l.Router, port, "underlay")
	}
	for _, p := range addresses {
		gateway := netip.PrefixFrom(p.Masked().Addr().Next(), p.Bits())
		if err := l.Router.Addr(port, gateway); err != nil {
			return err
		}
		if err := m.Route(netip.PrefixFrom(unspecified(p.Addr()), 0), gateway.Addr()); err != nil {
			return err
		}
	}
	return nil
}

func unspecified(a netip.Addr) netip.Addr {
	if a.Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

func (m *Machine) makePod(l *Lab) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = bridgeName, l.MTU
	if err := m.Handle.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil {
		return err
	}
	if err := veth(m.Namespace, "pod", m.Pod, underlayName, l.MTU); err != nil {
		return err
	}
	if err := onBridge(m.Namespace, "pod", bridgeName); err != nil {
		return err
	}
	var inPod []netip.Prefix
	for _, p := range m.Subnets {
		gateway := p.Addr().Next()
		if err := m.Addr(bridgeName, netip.PrefixFrom(gateway, p.Bits())); err != nil {
			return err
		}
		inPod = append(inPod, netip.PrefixFrom(gateway.Next(), p.Bits()))
	}
	m.PodAddress, m.PodAddress6 = inPod[0].Addr(), inPod[1].Addr()
	if err := m.Pod.Addr(underlayName, inPod...); err != nil {
		return err
	}
	for _, p := range m.Subnets {
		if err := m.Pod.Route(netip.PrefixFrom(unspecified(p.Addr()), 0), p.Addr().Next()); err != nil {
			return err
		}
	}
	return nil
}

// SetPodMTU sets the MTU of the pod's interface and of the bridge that it is on.
func (m *Machine) SetPodMTU(mtu int) error {
	for _, at := range []struct {
		n    *Namespace
		name string
	}{{m.Pod, underlayName}, {m.Namespace, "pod"}, {m.Namespace, bridgeName}} {
		link, err := at.n.Handle.LinkByName(at.name)
		if err != nil {
			return err
		}
		if err := at.n.Handle.LinkSetMTU(link, mtu); err != nil {
			return err
		}
	}
	return nil
}

// veth makes a pair of interfaces, one in each namespace, both up.
func veth(a *Namespace, nameA string, b *Namespace, nameB string, mtu int) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = nameA, mtu
	pair := &netlink.Veth{LinkAttrs: attrs, PeerName: nameB, PeerNamespace: netlink.NsFd(b.fd)}
	if err := a.Handle.LinkAdd(pair); err != nil {
		return fmt.Errorf("make %s and %s: %w", nameA, nameB, err)
	}
	if err := a.Addr(nameA); err != nil {
		return err
	}
	link, err := b.Handle.LinkByName(nameB)
	if err != nil {
		return err
	}
	if err := b.Handle.LinkSetMTU(link, mtu); err != nil {
		return err
	}
	return b.Addr(nameB)
}

func onBridge(n *Namespace, port, bridge string) error {
	link, err := n.Handle.LinkByName(port)
	if err != nil {
		return err
	}
	br, err := n.Handle.LinkByName(bridge)
	if err != nil {
		return err
	}
	return n.Handle.LinkSetMaster(link, br)
}
