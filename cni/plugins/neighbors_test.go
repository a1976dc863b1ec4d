//go:build linux

package plugins_test

import (
	"net"
	"net/netip"
	"strings"
	"testing"
)

// TestPermanentNeighbours: a host and its pods know each other without ARP and Neighbor Discovery, so that they do
// when the kernel's tables of neighbours are full. Nothing of a pod that is gone stays.
func TestPermanentNeighbours(t *testing.T) {
	onHost(t, func(h *host) {
		i, l := h.invoker(), h.dualNetwork()
		a, b := h.pod(i, l, "a"), h.pod(i, l, "b")
		macs := map[*pod]string{a: net.HardwareAddr(h.podLink(a).mac).String(), b: net.HardwareAddr(h.podLink(b).mac).String()}
		permanent := func(link, mac string, addresses ...netip.Addr) (n int) {
			known := h.run("ip", "neigh", "show", "dev", link, "nud", "permanent")
			for line := range strings.Lines(known) {
				for _, ip := range addresses {
					if strings.HasPrefix(line, ip.String()+" ") && strings.Contains(line, " "+mac+" ") {
						n++
					}
				}
			}
			return n
		}
		atHost := func(p *pod) int {
			return permanent("pk1", macs[p], p.result.IPs[0].Address.Addr(), p.result.IPs[1].Address.Addr())
		}
		if x, y := atHost(a), atHost(b); x != 2 || y != 2 {
			t.Errorf("the host has %d and %d permanent neighbours of two pods, want 2 and 2", x, y)
		}
		gateway := net.HardwareAddr(h.linkOf(here(), "pk1").mac).String()
		h.inside(a.runtime.NetNS, func() error {
			if n := permanent("eth0", gateway, a.result.IPs[0].Gateway, a.result.IPs[1].Gateway); n != 2 {
				t.Errorf("the pod has %d permanent neighbours that are its gateways, want 2", n)
			}
			return nil
		})
		h.serveUDP(b, "53")
		for _, ip := range b.result.IPs {
			f := h.flow(a.runtime.NetNS, netip.AddrPortFrom(ip.Address.Addr(), 53).String())
			if said := f.ask(patience); said != "b" {
				t.Errorf("%v says %q, want b", ip.Address.Addr(), said)
			}
		}
		if err := i.Del(t.Context(), l, a.runtime); err != nil {
			t.Fatal(err)
		}
		if x, y := atHost(a), atHost(b); x != 0 || y != 2 {
			t.Errorf("after the first pod is gone, the host has %d and %d permanent neighbours of the two, want 0 and 2", x, y)
		}
	})
}
