package policy_test

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/service/servicetest"
)

// flood sends a datagram from a host to each of some ports of an address: each begins a connection.
func flood(h *servicetest.Host, to netip.Addr, ports int) {
	h.Inside(func() error {
		conn, err := net.ListenUDP("udp", nil)
		if err != nil {
			return err
		}
		defer conn.Close()
		for i := range ports {
			conn.WriteToUDPAddrPort([]byte("x"), netip.AddrPortFrom(to, uint16(20000+i))) // which may be refused
		}
		return nil
	})
}

// tracked returns how many connections the node's kernel follows.
func (c *city) tracked() (n int) {
	c.Helper()
	c.Node.Inside(func() error {
		text, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_count")
		if err == nil {
			_, err = fmt.Sscan(strings.TrimSpace(string(text)), &n)
		}
		return err
	})
	return n
}

// TestConnectionsOfAPod: a pod has as many connections as it may, to other pods, to its node and outside, in both families
// together at most twice as many. Other pods are not affected, and when its connections end it gets new ones.
func TestConnectionsOfAPod(t *testing.T) {
	t.Parallel()
	c := newCity(t)
	c.connections = 100
	// What was not answered ends soon, and then the pod is let in again.
	c.Node.Inside(func() error {
		return os.WriteFile("/proc/sys/net/netfilter/nf_conntrack_udp_timeout", []byte("5"), 0)
	})
	c.start()
	hostile, other := c.hosts[0], c.hosts[1]
	before := c.tracked()
	for _, to := range []netip.Addr{c.Outside.IP4, c.Outside.IP6, c.hosts[2].IP4, c.hosts[2].IP6, c.Node.IP4, c.Node.IP6} {
		flood(hostile, to, 300)
	}
	if n := c.tracked() - before; n < 150 || n > 2*c.connections+20 {
		t.Errorf("the kernel follows %d more connections after a pod began 1800, want 200", n)
	}
	c.once(other, c.hosts[2], false, true)
	c.once(hostile, c.hosts[2], false, false)
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		_, err := hostile.AskWithin("tcp", netip.AddrPortFrom(c.hosts[2].IP4, 8080).String(), time.Second)
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("a pod whose connections have ended gets no new one: %v", err)
		}
	}
}

// TestNeighboursOfANode: what a pod sends to addresses that no pod has puts nothing into the node's table of
// neighbours.
func TestNeighboursOfANode(t *testing.T) {
	t.Parallel()
	c := newCity(t)
	c.start()
	hostile := c.hosts[0]
	c.once(hostile, c.hosts[2], true, true)
	var gateway net.HardwareAddr
	c.Node.Inside(func() error {
		at, err := net.InterfaceByName(servicetest.Bridge)
		if err == nil {
			gateway = at.HardwareAddr
		}
		return err
	})
	const addresses = 200
	for i := range addresses {
		to := netip.MustParseAddr(fmt.Sprintf("fd65:1::99:%x", i+1))
		text := servicetest.Checked(hostile.IP6, to, udp, 6, servicetest.UDP(9999, "x"))
		hostile.Send(servicetest.Frame{Type: 0x86dd, To: gateway, Payload: servicetest.IPv6(hostile.IP6, to, udp, 64, text)})
	}
	c.once(hostile, c.hosts[2], true, true) // which comes after
	all := strings.Split(c.Node.Run("ip", "-6", "neigh", "show", "dev", servicetest.Bridge), "\n")
	strange := 0
	for _, line := range all {
		if strings.Contains(line, "fd65:1::99:") {
			strange++
		}
	}
	if strange > 0 {
		t.Errorf("the node has %d neighbours that are no pods after a pod sent to %d addresses, want 0", strange, addresses)
	}
}
