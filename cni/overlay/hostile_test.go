//go:build linux

package overlay_test

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/cni/overlay"
	"github.com/planekit/planekit/cni/overlay/overlaytest"
)

// hostile is a cluster whose first pod sends what only machines may send.
type hostile struct {
	*cluster
	backend string
	// ears are the pods' sockets, by machine and family.
	ears map[string]*net.UDPConn
}

// earPort is where pods listen for what must not come.
const earPort = 7070

func newHostile(t *testing.T, c *cluster, backend string) *hostile {
	h := &hostile{cluster: c, backend: backend, ears: map[string]*net.UDPConn{}}
	for _, m := range c.Machines {
		for _, a := range []netip.Addr{m.PodAddress, m.PodAddress6} {
			conn, err := m.Pod.ListenUDP(a, earPort)
			must(t, err)
			t.Cleanup(func() { conn.Close() })
			h.ears[a.String()] = conn
		}
	}
	return h
}

// silent sends packets from a pod, and checks that no pod gets a datagram of them.
func (h *hostile) silent(t *testing.T, what string, from *overlaytest.Machine, packets ...[]byte) {
	t.Helper()
	for _, p := range packets {
		_ = from.Pod.Send(p) // which may be refused at once
	}
	for _, m := range h.Machines {
		for _, a := range []netip.Addr{m.PodAddress, m.PodAddress6} {
			// What comes before this did not come later.
			for _, other := range h.Machines {
				if other == m {
					continue
				}
				c, err := other.Pod.Dial(t.Context(), "udp", a, earPort)
				must(t, err)
				_, err = c.Write([]byte("end"))
				must(t, err)
				c.Close()
			}
			h.hear(t, what, a, len(h.Machines)-1)
		}
	}
}

// hear reads what came to a pod until all that was sent in the end has come.
func (h *hostile) hear(t *testing.T, what string, a netip.Addr, ends int) {
	t.Helper()
	ear, buffer := h.ears[a.String()], make([]byte, 2000)
	must(t, ear.SetReadDeadline(time.Now().Add(20*time.Second)))
	for ends > 0 {
		n, from, err := ear.ReadFromUDPAddrPort(buffer)
		if err != nil {
			t.Fatalf("%s: the pod at %v does not get what it may get: %v", what, a, err)
		}
		if text := string(buffer[:n]); text == "end" {
			ends--
		} else {
			t.Errorf("%s: the pod at %v got %q from %v", what, a, text, from)
		}
	}
}

// wrapped returns the payloads that the port of a machine would take for packets of a member.
func (h *hostile) wrapped(at *overlaytest.Machine, packets ...[]byte) (all [][]byte) {
	for _, p := range packets {
		if h.backend == overlay.VXLAN {
			p = overlaytest.VXLANFrame(overlay.DefaultVNI, device(at).Attrs().HardwareAddr, p)
		}
		all = append(all, p)
	}
	return all
}

// forged returns packets to a machine's pod from the pod of another one, and from outside.
func forged(as, to *overlaytest.Machine) (all [][]byte) {
	for _, source := range []string{as.PodAddress.String(), as.PodAddress6.String(), "198.51.100.1", "2001:db8::1"} {
		from, at := netip.MustParseAddr(source), to.PodAddress
		if from.Is6() {
			at = to.PodAddress6
		}
		all = append(all, overlaytest.Datagram(netip.AddrPortFrom(from, 9), netip.AddrPortFrom(at, earPort), []byte("forged from "+source)))
	}
	return all
}

// TestHostilePod: what a pod sends to the port of the overlay, of its machine or another one, straight,
// after masquerading or after translation, whole or in fragments, is delivered to no pod.
func TestHostilePod(t *testing.T) {
	for _, b := range backends {
		if b.name == "host-gw" {
			continue // it has no port
		}
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			lab, backend, toPort := b.lab, overlay.VXLAN, uint16(overlay.DefaultVXLANPort)
			if b.name == "udp" {
				backend, toPort = overlay.UDP, overlay.DefaultUDPPort
			}
			lab.Machines = 3
			c := newCluster(t, lab, b.config)
			c.Reachable(port, 0, overlaytest.Pod6)
			h := newHostile(t, c, backend)
			sender, other := c.Machines[0], c.Machines[1]
			v6 := lab.Only6
			for _, masquerade := range []bool{false, true} {
				if masquerade {
					hideSources(t, sender)
				}
				for _, target := range []*overlaytest.Machine{sender, other} {
					for _, address := range addressesOf(t, target, v6) {
						what := fmt.Sprintf("to %s at %v, masquerade %v", target.Name, address, masquerade)
						h.silent(t, what, sender, h.datagrams(target, netip.AddrPortFrom(address, toPort))...)
					}
				}
			}
			// As a service whose endpoint is a machine.
			for _, target := range []*overlaytest.Machine{sender, other} {
				at := target.Address
				if v6 {
					at = target.Address6
				}
				service := translate(t, sender, netip.AddrPortFrom(at, toPort))
				h.silent(t, "to a service at "+target.Name, sender, h.datagrams(target, service)...)
			}
		})
	}
}

// datagrams returns what a pod sends to a machine's port at an address: with its own address, and with that
// of a member.
func (h *hostile) datagrams(target *overlaytest.Machine, to netip.AddrPort) (all [][]byte) {
	sender := h.Machines[0]
	sources := []netip.Addr{sender.PodAddress, h.Machines[2].Address}
	if to.Addr().Is6() {
		sources = []netip.Addr{sender.PodAddress6, h.Machines[2].Address6}
	}
	packets := forged(h.Machines[2], target)
	if target != sender {
		packets = append(packets, forged(sender, target)...)
	}
	for _, frame := range h.wrapped(target, packets...) {
		for _, source := range sources {
			whole := overlaytest.Datagram(netip.AddrPortFrom(source, to.Port()), to, frame)
			all = append(append(all, whole), overlaytest.Fragments(whole)...)
		}
	}
	return all
}

// addressesOf returns a machine's addresses of a family.
func addressesOf(t *testing.T, m *overlaytest.Machine, v6 bool) (all []netip.Addr) {
	out, err := m.Command("ip", "-o", "addr", "show", "scope", "global")
	must(t, err)
	for line := range strings.Lines(out) {
		if p, err := netip.ParsePrefix(strings.Fields(line)[3]); err == nil && p.Addr().Is6() == v6 {
			all = append(all, p.Addr())
		}
	}
	return all
}

// hideSources gives what pods of a machine send to other networks an address of the machine.
func hideSources(t *testing.T, m *overlaytest.Machine) {
	for _, family := range []struct {
		word   string
		subnet netip.Prefix
		all    string
	}{{"ip", m.Subnets[0], "10.64.0.0/16"}, {"ip6", m.Subnets[1], "fd63:64::/32"}} {
		nftables(t, m, fmt.Sprintf("table %s hide { chain out { type nat hook postrouting priority 100; %[1]s saddr %v %[1]s daddr != %s masquerade; }; }", family.word, family.subnet, family.all))
	}
}

// translate makes an address of a service that leads to a destination, and returns it.
func translate(t *testing.T, m *overlaytest.Machine, to netip.AddrPort) netip.AddrPort {
	service, word := netip.MustParseAddrPort("10.99.0.1:5000"), "ip"
	if to.Addr().Is6() {
		service, word = netip.MustParseAddrPort("[fd99::1]:5000"), "ip6"
	}
	nftables(t, m, fmt.Sprintf("table %s service { chain in { type nat hook prerouting priority -100; %[1]s daddr %v udp dport %d dnat to %v; }; }",
		word, service.Addr(), service.Port(), to))
	return service
}

// nftables adds tables to a machine, and replaces those of the same name.
func nftables(t *testing.T, m *overlaytest.Machine, rules string) {
	t.Helper()
	table := strings.Join(strings.Fields(rules)[1:3], " ")
	_, err := m.Command("nft", fmt.Sprintf("table %s {}; delete table %[1]s; %s", table, rules))
	must(t, err)
}

// TestHostileSource: a pod's packet with the address of another machine's pod is delivered to no pod, nor
// is one from outside where the backend says which machine it is from.
func TestHostileSource(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			lab := b.lab
			lab.Machines = 3
			c := newCluster(t, lab, b.config)
			c.Reachable(port, 0, overlaytest.Pod6)
			h := newHostile(t, c, b.name)
			for _, to := range c.Machines[1:] {
				packets := forged(c.Machines[2], to)
				if b.name == "host-gw" || b.name == "vxlan-direct" {
					packets = packets[:2]
				}
				h.silent(t, "to "+to.Name, c.Machines[0], packets...)
			}
		})
	}
}

// TestHostPortOfOverlay: a rule that translates the port of the overlay, as that of a pod's hostPort, does
// not get the packets of members.
func TestHostPortOfOverlay(t *testing.T) {
	t.Parallel()
	c := newCluster(t, overlaytest.Config{Machines: 2}, func(*overlay.Config) {})
	m := c.Machines[1]
	nftables(t, m, fmt.Sprintf("table ip service { chain in { type nat hook prerouting priority -100; udp dport %d dnat to %v:%d; }; }",
		overlay.DefaultVXLANPort, m.PodAddress, earPort))
	h := newHostile(t, c, overlay.VXLAN)
	c.Reachable(port, 0, overlaytest.Pod4)
	h.silent(t, "to a port of the machine", c.Machines[0])
}
