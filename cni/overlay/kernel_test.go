//go:build linux

package overlay_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/planekit/planekit/cni/overlay"
	"github.com/planekit/planekit/cni/overlay/overlaytest"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// longResync is longer than any test, so that only notifications can cause a repair in time.
const longResync = time.Hour

// TestDrift changes the kernel by hand and checks that it is repaired at once, without waiting for the
// next resync.
func TestDrift(t *testing.T) {
	for _, b := range backends {
		if b.name == "vxlan-routed" || b.name == "vxlan-over-ipv6" {
			continue
		}
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			lab := b.lab
			lab.Machines = 2
			c := newCluster(t, lab, func(conf *overlay.Config) {
				b.config(conf)
				conf.Resync = longResync
			})
			c.Reachable(port, 0, overlaytest.Pod4)
			for _, d := range drifts {
				d.change(t, c.Machines[0])
				c.Eventually(d.name, func() error { return whole(c.Machines[0], b.name) })
				c.Reachable(port, 0, overlaytest.Pod4)
				c.Reachable(port, 0, overlaytest.Pod6)
			}
		})
	}
}

// device returns the overlay's device, or nil.
func device(m *overlaytest.Machine) netlink.Link {
	for _, name := range []string{"pkvx.1", "pktun0"} {
		if link, err := m.Handle.LinkByName(name); err == nil {
			return link
		}
	}
	return nil
}

// whole returns an error unless a machine has all of a two-machine overlay.
func whole(m *overlaytest.Machine, backend string) error {
	routes, err := m.Handle.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Protocol: overlay.DefaultProtocol}, netlink.RT_FILTER_PROTOCOL)
	if err != nil || len(routes) != 2 {
		return fmt.Errorf("routes %v, %v", routes, err)
	}
	rules, err := m.Command("nft", "list", "table", "inet", guardTable)
	if err != nil || strings.Contains(rules, "\taccept") || strings.Contains(rules, "10.64.77.0") || !strings.Contains(rules, "10.64.2.0") {
		return fmt.Errorf("guard %s, %v", rules, err)
	}
	link := device(m)
	if backend == "host-gw" {
		return nil
	}
	if link == nil || link.Attrs().Flags&net.FlagUp == 0 {
		return errors.New("the device is missing or down")
	}
	if backend != "vxlan" {
		return nil
	}
	for _, want := range []struct{ family, count int }{{netlink.FAMILY_V4, 1}, {netlink.FAMILY_V6, 1}, {unix.AF_BRIDGE, 1}} {
		entries, err := m.Handle.NeighList(link.Attrs().Index, want.family)
		entries = slices.DeleteFunc(entries, func(n netlink.Neigh) bool { return n.State&netlink.NUD_PERMANENT == 0 })
		if err != nil || len(entries) != want.count {
			return fmt.Errorf("entries of family %d: %v, %v", want.family, entries, err)
		}
	}
	return nil
}

// drifts are changes by hand.
var drifts = []struct {
	name   string
	change func(t *testing.T, m *overlaytest.Machine)
}{
	{"the device is deleted", func(t *testing.T, m *overlaytest.Machine) {
		if link := device(m); link != nil {
			must(t, m.Handle.LinkDel(link))
		}
	}},
	{"the device is down", func(t *testing.T, m *overlaytest.Machine) {
		if link := device(m); link != nil {
			must(t, m.Handle.LinkSetDown(link))
		}
	}},
	{"the routes are deleted", func(t *testing.T, m *overlaytest.Machine) {
		routes, err := m.Handle.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Protocol: overlay.DefaultProtocol}, netlink.RT_FILTER_PROTOCOL)
		must(t, err)
		for _, r := range routes {
			must(t, m.Handle.RouteDel(&r))
		}
	}},
	{"a route of another program takes the place", func(t *testing.T, m *overlaytest.Machine) {
		eth, err := m.Handle.LinkByName(m.Underlay)
		must(t, err)
		must(t, m.Handle.RouteReplace(&netlink.Route{Dst: ipNet("10.64.2.0/24"), Gw: net.ParseIP("10.63.0.77"), LinkIndex: eth.Attrs().Index}))
		must(t, m.Handle.RouteReplace(&netlink.Route{Dst: ipNet("fd63:64:2::/64"), LinkIndex: eth.Attrs().Index, Priority: 1024}))
	}},
	{"neighbours and the FDB are wrong", func(t *testing.T, m *overlaytest.Machine) {
		link := device(m)
		if link == nil || link.Type() != "vxlan" {
			return
		}
		for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6, unix.AF_BRIDGE} {
			entries, err := m.Handle.NeighList(link.Attrs().Index, family)
			must(t, err)
			for _, n := range entries {
				if n.State&netlink.NUD_PERMANENT != 0 {
					n.Family = family
					must(t, m.Handle.NeighDel(&n))
				}
			}
		}
		must(t, m.Handle.NeighAdd(&netlink.Neigh{
			LinkIndex: link.Attrs().Index, Family: unix.AF_BRIDGE, Flags: netlink.NTF_SELF, State: netlink.NUD_PERMANENT | netlink.NUD_NOARP,
			IP: net.ParseIP("10.63.0.99"), HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 99},
		}))
	}},
	{"the guard is deleted", func(t *testing.T, m *overlaytest.Machine) {
		// The overlay does not follow changes of tables; a change of a route makes it look.
		_, err := m.Command("nft", "delete", "table", "inet", guardTable)
		must(t, err)
		touch(t, m)
	}},
	{"the guard has another rule", func(t *testing.T, m *overlaytest.Machine) {
		_, err := m.Command("nft", "insert", "rule", "inet", guardTable, "forward", "accept")
		must(t, err)
		touch(t, m)
	}},
	{"the guard knows another range", func(t *testing.T, m *overlaytest.Machine) {
		_, err := m.Command("nft", "add", "element", "inet", guardTable, "remote0", "{ 10.64.77.0/24 }")
		must(t, err)
		touch(t, m)
	}},
	{"forwarding is off", func(t *testing.T, m *overlaytest.Machine) {
		// The kernel sends no notification for this; a change of a route makes the overlay look.
		must(t, m.Sysctl("ipv4/ip_forward", "0"))
		touch(t, m)
	}},
}

// guardTable is the name of the overlay's table.
const guardTable = "planekit-overlay-112"

// touch changes a route, which makes the overlay look at everything.
func touch(t *testing.T, m *overlaytest.Machine) {
	t.Helper()
	eth, err := m.Handle.LinkByName(m.Underlay)
	must(t, err)
	route := &netlink.Route{Dst: ipNet("10.64.200.0/24"), LinkIndex: eth.Attrs().Index}
	must(t, m.Handle.RouteReplace(route))
	must(t, m.Handle.RouteDel(route))
}

func ipNet(s string) *net.IPNet {
	_, n, err := net.ParseCIDR(s)
	if err != nil {
		panic(err)
	}
	return n
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestLeaver checks that what belongs to a member that left is removed, that a route of another program
// stays, and that Remove leaves only that.
func TestLeaver(t *testing.T) {
	for _, b := range backends {
		if b.name != "vxlan" && b.name != "host-gw" && b.name != "udp" {
			continue
		}
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, b.lab, b.config)
			m := c.Machines[0]
			eth, err := m.Handle.LinkByName(m.Underlay)
			must(t, err)
			must(t, m.Handle.RouteAdd(&netlink.Route{Dst: ipNet("10.64.77.0/24"), LinkIndex: eth.Attrs().Index}))
			c.Reachable(port, 0, overlaytest.Pod4)
			c.set.Delete("m3")
			c.Eventually("the leaver", func() error { return whole(m, b.name) })
			if got := routesOf(t, m); !slices.Equal(got, []string{"10.64.2.0/24", "fd63:64:2::/64"}) {
				t.Errorf("routes to %v", got)
			}
			if err := c.overlays[0].Remove(t.Context()); !errors.Is(err, overlay.ErrRunning) {
				t.Errorf("Remove while it runs: %v", err)
			}
			c.stops[0]()
			if got := routesOf(t, m); len(got) != 2 {
				t.Errorf("after the end, routes to %v", got)
			}
			must(t, c.overlays[0].Remove(t.Context()))
			must(t, c.overlays[0].Remove(t.Context()))
			if got := routesOf(t, m); len(got) != 0 || device(m) != nil {
				t.Errorf("after Remove, routes to %v, device %v", got, device(m))
			}
			if tables, err := m.Command("nft", "list", "tables"); err != nil || strings.Contains(tables, guardTable) {
				t.Errorf("after Remove, tables %s, %v", tables, err)
			}
			routes, err := m.Handle.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Dst: ipNet("10.64.77.0/24")}, netlink.RT_FILTER_DST)
			if err != nil || len(routes) != 1 {
				t.Errorf("the route of another program: %v, %v", routes, err)
			}
		})
	}
}

// TestRestart checks that no packet is lost while the overlay ends and starts again, several times, and
// that its device and hardware address stay.
func TestRestart(t *testing.T) {
	for _, b := range backends {
		if b.name == "udp" || b.name == "vxlan-over-ipv6" {
			continue // a forwarder cannot forward while it is away
		}
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			lab := b.lab
			lab.Machines = 2
			c := newCluster(t, lab, b.config)
			c.Reachable(port, 0, overlaytest.Pod4)
			before := device(c.Machines[0])
			finish := count(t, c)
			for range 5 {
				c.stops[0]()
				c.start(0)
			}
			if sent, lost := finish(); lost != 0 || sent < 100 {
				t.Errorf("%d of %d packets are lost", lost, sent)
			}
			if after := device(c.Machines[0]); before != nil && (after.Attrs().Index != before.Attrs().Index ||
				after.Attrs().HardwareAddr.String() != before.Attrs().HardwareAddr.String()) {
				t.Errorf("the device was %v and is %v", before.Attrs(), after.Attrs())
			}
		})
	}
}

// count sends numbered packets from the first pod to the second one and back, one at a time, until the
// returned function is called, which returns how many were sent and lost.
func count(t *testing.T, c *cluster) (finish func() (sent, lost uint64)) {
	t.Helper()
	from, to := c.Machines[0], c.Machines[1]
	echo, err := to.Pod.ListenUDP(to.PodAddress, port)
	must(t, err)
	conn, err := from.Pod.Dial(t.Context(), "udp", to.PodAddress, port)
	must(t, err)
	go func() {
		buffer := make([]byte, 64)
		for {
			n, at, err := echo.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return
			}
			_, _ = echo.WriteToUDPAddrPort(buffer[:n], at) // a loss is counted
		}
	}()
	var stop atomic.Bool
	var sent, lost uint64
	done := make(chan struct{})
	go func() {
		defer close(done)
		buffer := make([]byte, 64)
		for !stop.Load() {
			sent++
			_, err := conn.Write(binary.BigEndian.AppendUint64(nil, sent))
			_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second)) // of an open socket
			if err == nil {
				_, err = conn.Read(buffer)
			}
			if err != nil || binary.BigEndian.Uint64(buffer) != sent {
				lost++
			}
		}
	}()
	return func() (uint64, uint64) {
		stop.Store(true)
		<-done
		conn.Close()
		echo.Close()
		return sent, lost
	}
}

// TestChangeOfBackend checks that an overlay takes over from one with another backend.
func TestChangeOfBackend(t *testing.T) {
	t.Parallel()
	backend := overlay.VXLAN
	c := newCluster(t, overlaytest.Config{Machines: 2}, func(conf *overlay.Config) { conf.Backend = backend })
	c.Reachable(port, 0, overlaytest.Pod4)
	for _, backend = range []string{overlay.UDP, overlay.HostGW, overlay.VXLAN} {
		for i := range c.Machines {
			c.stops[i]()
			c.start(i)
		}
		c.Reachable(port, 0, overlaytest.Pod4)
		c.Reachable(port, 0, overlaytest.Pod6)
		for _, m := range c.Machines {
			c.Eventually("the devices", func() error { return devicesOf(m, backend) })
		}
	}
}

// devicesOf returns an error unless a machine has only the device of a backend.
func devicesOf(m *overlaytest.Machine, backend string) error {
	links, err := m.Handle.LinkList()
	if err != nil {
		return err
	}
	var names []string
	for _, link := range links {
		if name := link.Attrs().Name; strings.HasPrefix(name, "pkvx") || strings.HasPrefix(name, "pktun") {
			names = append(names, name)
		}
	}
	want := map[string][]string{overlay.VXLAN: {"pkvx.1"}, overlay.UDP: {"pktun0"}}[backend]
	if !slices.Equal(names, want) {
		return fmt.Errorf("devices %v", names)
	}
	return nil
}

// TestForeignDevice checks that a device of another kind is not touched.
func TestForeignDevice(t *testing.T) {
	t.Parallel()
	lab := overlaytest.New(t, overlaytest.Config{Machines: 1})
	m := lab.Machines[0]
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "pkvx.1"
	must(t, m.Handle.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}))
	o, err := overlay.New(overlay.Config{
		Local: overlay.Member{Name: m.Name, Subnets: m.Subnets}, Underlay: m.Underlay, NetNS: m.Path, Members: overlay.NewSet(),
	})
	must(t, err)
	if err := o.Remove(t.Context()); err == nil || !strings.Contains(err.Error(), "pkvx.1 exists and is a bridge") {
		t.Errorf("Remove: %v", err)
	}
}

// TestUnderlayChanges checks that the overlay follows the MTU and the address of its underlay.
func TestUnderlayChanges(t *testing.T) {
	t.Parallel()
	c := newCluster(t, overlaytest.Config{Machines: 2}, func(conf *overlay.Config) { conf.Resync = longResync })
	c.Reachable(port, 0, overlaytest.Pod4)
	m := c.Machines[0]
	eth, err := m.Handle.LinkByName(m.Underlay)
	must(t, err)
	must(t, m.Handle.LinkSetMTU(eth, 1400))
	c.Eventually("the MTU", func() error {
		if mtu := c.overlays[0].MTU(); mtu != 1350 || device(m).Attrs().MTU != 1350 {
			return fmt.Errorf("MTU %d", mtu)
		}
		return nil
	})
	must(t, m.Handle.AddrDel(eth, &netlink.Addr{IPNet: &net.IPNet{IP: m.Address.AsSlice(), Mask: net.CIDRMask(24, 32)}}))
	must(t, m.Addr(m.Underlay, netip.MustParsePrefix("10.63.0.99/24")))
	c.Reachable(port, 10_000, overlaytest.Pod4)
}
