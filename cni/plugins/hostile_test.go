//go:build linux

package plugins_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/cni"
	"github.com/planekit/planekit/cni/chain"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// link is a pod's link: a socket for whole frames, with the pod's addresses.
type link struct {
	h      *host
	name   string
	fd     int
	mac    []byte
	ip, v6 netip.Addr
}

// linkOf opens the interface of a namespace.
func (h *host) linkOf(path, name string) *link {
	h.Helper()
	l := &link{h: h, name: name, fd: -1}
	h.inside(path, func() error {
		at, err := net.InterfaceByName(name)
		if err != nil {
			return err
		}
		l.mac = at.HardwareAddr
		all := uint16(unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8)
		if l.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(all)); err != nil {
			return err
		}
		err = unix.SetsockoptTimeval(l.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 20})
		if err != nil {
			return err
		}
		return unix.Bind(l.fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: at.Index})
	})
	h.Cleanup(func() { unix.Close(l.fd) })
	return l
}

func (h *host) podLink(p *pod) *link {
	h.Helper()
	l := h.linkOf(p.runtime.NetNS, "eth0")
	for _, ip := range p.result.IPs {
		if ip.Address.Addr().Is4() {
			l.ip = ip.Address.Addr()
		} else {
			l.v6 = ip.Address.Addr()
		}
	}
	return l
}

// linkLocal is the link-local address of the link.
func (l *link) linkLocal() netip.Addr {
	m := l.mac
	return netip.AddrFrom16([16]byte{0xfe, 0x80, 8: m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]})
}

// end is in the packet after which nothing else is awaited.
const end = "that was all"

// markers returns the markers in frames that come before the end.
func (l *link) markers() (all []string) {
	l.h.Helper()
	buffer := make([]byte, 4096)
	for {
		n, err := unix.Read(l.fd, buffer)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			l.h.Errorf("%s gets no end: %v", l.name, err)
			return all
		}
		if bytes.Contains(buffer[:n], []byte(end)) {
			return all
		}
		if _, after, ok := bytes.Cut(buffer[:n], []byte("<<")); ok {
			marker, _, _ := bytes.Cut(after, []byte(">>"))
			all = append(all, string(marker))
		}
	}
}

// A frame holds what a hostile pod sends. Its marker is behind the packet, where no protocol looks.
type frame struct {
	what     string
	to, from []byte
	kind     uint16
	data     []byte
	// passes says that it is not hostile.
	passes bool
}

func (f frame) bytes(marker string) []byte {
	b := append(slices.Clone(f.to), f.from...)
	b = binary.BigEndian.AppendUint16(b, f.kind)
	return append(append(b, f.data...), "<<"+marker+">>"...)
}

func ip4(protocol byte, from, to netip.Addr, data []byte) []byte {
	p := make([]byte, 20)
	p[0], p[8], p[9] = 0x45, 64, protocol
	binary.BigEndian.PutUint16(p[2:], uint16(20+len(data)))
	copy(p[12:], from.AsSlice())
	copy(p[16:], to.AsSlice())
	binary.BigEndian.PutUint16(p[10:], internetSum(0, p))
	return append(p, data...)
}

func ip6(next byte, from, to netip.Addr, data []byte) []byte {
	p := []byte{0x60, 0, 0, 0, 0, byte(len(data)), next, 255}
	return append(append(append(p, from.AsSlice()...), to.AsSlice()...), data...)
}

func udp(from, to uint16) []byte { // without a checksum
	return binary.BigEndian.AppendUint32([]byte{byte(from >> 8), byte(from), byte(to >> 8), byte(to)}, 8<<16)
}

func icmp6(from, to netip.Addr, kind byte, body []byte) []byte {
	m := append([]byte{kind, 0, 0, 0}, body...)
	pseudo := append(append(from.AsSlice(), to.AsSlice()...), m...)
	binary.BigEndian.PutUint16(m[2:], internetSum(uint32(len(m))+unix.IPPROTO_ICMPV6, pseudo))
	return ip6(unix.IPPROTO_ICMPV6, from, to, m)
}

func internetSum(sum uint32, data []byte) uint16 {
	for i, b := range data {
		sum += uint32(b) << (8 * ((i + 1) % 2))
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

func arp(op uint16, mac []byte, ip netip.Addr, tomac []byte, to netip.Addr) []byte {
	b := append([]byte{0, 1, 8, 0, 6, 4, 0, byte(op)}, mac...)
	return append(append(append(b, ip.AsSlice()...), tomac...), to.AsSlice()...)
}

var (
	everyone  = []byte{255, 255, 255, 255, 255, 255}
	allNodes  = netip.MustParseAddr("ff02::1")
	allNodes6 = []byte{0x33, 0x33, 0, 0, 0, 1}
	none6     = netip.IPv6Unspecified()
)

// hostileFrames returns what a pod sends to a victim and their gateway.
func hostileFrames(me, victim, third *link, gateway []byte, gw4, gw6 netip.Addr) []frame {
	v4 := func(what string, to []byte, from, at netip.Addr) frame {
		return frame{what: what, to: to, kind: unix.ETH_P_IP, data: ip4(unix.IPPROTO_UDP, from, at, udp(9, 9))}
	}
	v6 := func(what string, to []byte, from, at netip.Addr) frame {
		return frame{what: what, to: to, kind: unix.ETH_P_IPV6, data: ip6(unix.IPPROTO_UDP, from, at, udp(9, 9))}
	}
	nd := func(what string, to []byte, from, at netip.Addr, kind byte, target netip.Addr) frame {
		body := append([]byte{0xe0, 0, 0, 0}, target.AsSlice()...)
		return frame{what: what, to: to, kind: unix.ETH_P_IPV6, data: icmp6(from, at, kind, append(append(body, 2, 1), me.mac...))}
	}
	claim := func(what string, to, mac []byte, ip netip.Addr) frame {
		return frame{what: what, to: to, kind: unix.ETH_P_ARP, data: arp(2, mac, ip, victim.mac, victim.ip)}
	}
	fragment := ip4(unix.IPPROTO_UDP, third.ip, victim.ip, udp(9, 9))
	fragment[6] = 0x20 // with more to come
	all := []frame{
		v4("IPv4 of a neighbour", victim.mac, third.ip, victim.ip), v4("IPv4 of a neighbour by the gateway", gateway, third.ip, victim.ip),
		v4("IPv4 of the gateway", victim.mac, gw4, victim.ip), v4("IPv4 without a source", gateway, netip.IPv4Unspecified(), victim.ip),
		v4("IPv4 from outside", victim.mac, netip.MustParseAddr("198.51.100.1"), victim.ip),
		v4("IPv4 multicast", []byte{1, 0, 0x5e, 0, 0, 0xfb}, me.ip, netip.MustParseAddr("224.0.0.251")),
		v4("IPv4 broadcast", everyone, me.ip, netip.MustParseAddr("255.255.255.255")),
		v4("IPv4 to the loopback address", gateway, me.ip, netip.MustParseAddr("127.0.0.1")),
		{what: "a fragment of a neighbour", to: victim.mac, kind: unix.ETH_P_IP, data: fragment},
		{what: "an IPv4 redirect", to: victim.mac, kind: unix.ETH_P_IP, data: ip4(unix.IPPROTO_ICMP, me.ip, victim.ip, []byte{5, 1, 0, 0})},
		{what: "an offer of DHCP", to: victim.mac, kind: unix.ETH_P_IP, data: ip4(unix.IPPROTO_UDP, me.ip, victim.ip, udp(67, 68))},
		v6("IPv6 of a neighbour", victim.mac, third.v6, victim.v6), v6("IPv6 of a neighbour by the gateway", gateway, third.v6, victim.v6),
		v6("IPv6 of the gateway", victim.mac, gw6, victim.v6), v6("IPv6 without a source", victim.mac, none6, victim.v6),
		v6("IPv6 between link-local addresses", victim.mac, me.linkLocal(), victim.linkLocal()),
		v6("IPv6 to a link-local address", victim.mac, me.v6, victim.linkLocal()),
		v6("IPv6 from a link-local address", victim.mac, me.linkLocal(), victim.v6),
		v6("IPv6 multicast", allNodes6, me.v6, allNodes), v6("IPv6 multicast of the link", allNodes6, me.linkLocal(), allNodes),
		{what: "a reply of DHCPv6", to: victim.mac, kind: unix.ETH_P_IPV6, data: ip6(unix.IPPROTO_UDP, me.v6, victim.v6, udp(547, 546))},
		claim("ARP of the gateway", victim.mac, me.mac, gw4), claim("gratuitous ARP of the gateway", everyone, me.mac, gw4),
		claim("ARP of a neighbour", victim.mac, me.mac, third.ip), claim("ARP with another hardware address", victim.mac, third.mac, me.ip),
		{what: "ARP of another protocol", to: victim.mac, kind: unix.ETH_P_ARP, data: []byte{0, 1, 8, 1, 6, 4, 0, 2}},
		nd("an advertisement of the gateway", victim.mac, me.v6, victim.v6, 136, gw6), nd("an advertisement to all", allNodes6, me.linkLocal(), allNodes, 136, third.v6),
		nd("an advertisement as a neighbour", victim.mac, third.v6, victim.v6, 136, third.v6),
		nd("a solicitation as a neighbour", victim.mac, third.v6, victim.v6, 135, victim.v6),
		nd("the detection of a neighbour's address", allNodes6, none6, allNodes, 135, victim.v6),
		nd("a router", allNodes6, me.linkLocal(), allNodes, 134, me.v6), nd("an IPv6 redirect", victim.mac, me.linkLocal(), victim.v6, 137, third.v6),
		nd("a query for listeners", allNodes6, me.linkLocal(), allNodes, 130, none6),
		{what: "a VLAN", to: victim.mac, kind: unix.ETH_P_8021Q, data: append([]byte{0, 5, 8, 0}, ip4(unix.IPPROTO_UDP, me.ip, victim.ip, udp(9, 9))...)},
		{what: "two VLANs", to: victim.mac, kind: unix.ETH_P_8021AD, data: append([]byte{0, 5, 0x81, 0, 0, 6, 8, 0}, ip4(unix.IPPROTO_UDP, me.ip, victim.ip, udp(9, 9))...)},
		{what: "another type", to: victim.mac, kind: 0x88b5}, {what: "a frame with a length", to: everyone, kind: 64},
		{what: "another hardware address", to: victim.mac, from: []byte{2, 0, 0, 0, 0, 7}, kind: unix.ETH_P_IP, data: ip4(unix.IPPROTO_UDP, me.ip, victim.ip, udp(9, 9))},
	}
	friendly := []frame{
		v4("own IPv4", victim.mac, me.ip, victim.ip), v6("own IPv6", victim.mac, me.v6, victim.v6),
		claim("own ARP", everyone, me.mac, me.ip), nd("an own advertisement", allNodes6, me.linkLocal(), allNodes, 136, me.v6),
		nd("an own solicitation", victim.mac, me.v6, victim.v6, 135, victim.v6), nd("an own detection", allNodes6, none6, allNodes, 135, me.linkLocal()),
		{what: "an own probe", to: everyone, kind: unix.ETH_P_ARP, data: arp(1, me.mac, netip.IPv4Unspecified(), make([]byte, 6), me.ip)},
	}
	for _, f := range friendly {
		f.passes = true
		all = append(all, f)
	}
	return all
}

// dualNetwork is the standard network with both families.
func (h *host) dualNetwork() *cni.List {
	n := h.network(1, false)
	n.PodCIDRs = append(n.PodCIDRs, netip.MustParsePrefix("fd00:244:1::/64"))
	return h.conf(n)
}

// TestHostileNeighbour: of what a pod sends, only that with its own addresses reaches its neighbours or the
// host, and the bridge forwards no packets by itself: the rules of the host see what pods send to each
// other, without br_netfilter.
func TestHostileNeighbour(t *testing.T) {
	onHost(t, func(h *host) {
		for _, name := range []string{"bridge-nf-call-iptables", "bridge-nf-call-ip6tables"} {
			h.run("sysctl", "-w", "net.bridge."+name+"=0")
		}
		i, l := h.invoker(), h.dualNetwork()
		a, b, c := h.pod(i, l, "a"), h.pod(i, l, "b"), h.pod(i, l, "c")
		me, victim, third := h.podLink(a), h.podLink(b), h.podLink(c)
		inner := h.linkOf(here(), "pk1")
		frames := hostileFrames(me, victim, third, inner.mac, netip.MustParseAddr("10.244.1.1"), netip.MustParseAddr("fd00:244:1::1"))
		for n, f := range frames {
			if f.from == nil {
				f.from = me.mac
			}
			if _, err := unix.Write(me.fd, f.bytes(fmt.Sprint(n))); err != nil {
				t.Fatalf("send %s: %v", f.what, err)
			}
		}
		h.say(a, victim.ip, third.ip)
		seen := map[string][]string{}
		for name, ear := range map[string]*link{"the victim": victim, "a third pod": third, "the host": inner} {
			for _, marker := range ear.markers() {
				seen[marker] = append(seen[marker], name)
			}
		}
		for n, f := range frames {
			by := seen[fmt.Sprint(n)]
			if f.passes != (len(by) > 0) {
				t.Errorf("%s: reached %q, want it to pass: %v", f.what, by, f.passes)
			}
		}
		if known := h.run("bridge", "fdb", "show", "br", "pk1"); strings.Contains(known, "02:00:00:00:00:07") {
			t.Errorf("the bridge has learned an address that is no pod's:\n%s", known)
		}
		h.seenByRules(i, l, a, b)
	})
}

// say makes a pod send the end to addresses.
func (h *host) say(p *pod, to ...netip.Addr) {
	h.Helper()
	h.inside(p.runtime.NetNS, func() error {
		for _, at := range to {
			c, err := net.Dial("udp", netip.AddrPortFrom(at, 9).String())
			if err != nil {
				return err
			}
			_, err = c.Write([]byte(end))
			c.Close()
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// seenByRules checks that the host's rules decide whether a pod reaches its neighbour.
func (h *host) seenByRules(i *cni.Invoker, l *cni.List, a, b *pod) {
	h.Helper()
	h.serveUDP(b, "53")
	for _, ip := range b.result.IPs {
		to := netip.AddrPortFrom(ip.Address.Addr(), 53).String()
		f := h.flow(a.runtime.NetNS, to)
		if said := f.ask(patience); said != "b" {
			h.Errorf("%s says %q", to, said)
		}
		h.run("nft", "table inet seen { chain forward { type filter hook forward priority 0; drop; }; }")
		if said := f.ask(300 * time.Millisecond); said != "" {
			h.Errorf("%s says %q past the rules of the host", to, said)
		}
		h.run("nft", "delete table inet seen")
		if said := f.ask(patience); said != "b" {
			h.Errorf("%s says %q without rules", to, said)
		}
	}
}

// TestFloodedFrames: a pod does not see frames for its neighbours, also when the bridge has forgotten where
// they are.
func TestFloodedFrames(t *testing.T) {
	onHost(t, func(h *host) {
		i, l := h.invoker(), h.dualNetwork()
		a, b := h.pod(i, l, "a"), h.pod(i, l, "b")
		ear := h.podLink(a)
		h.serveUDP(b, "53")
		f := h.flow(here(), netip.AddrPortFrom(b.result.IPs[0].Address.Addr(), 53).String())
		f.ask(patience)
		h.run("ip", "link", "set", "pk1", "type", "bridge", "fdb_flush")
		h.run("ip", "neigh", "replace", "10.244.1.99", "lladdr", "02:00:00:00:00:99", "dev", "pk1", "nud", "permanent")
		c, err := net.Dial("udp", "10.244.1.99:9")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write([]byte("<<to an unknown neighbour>>")); err != nil {
			t.Fatal(err)
		}
		d, err := net.Dial("udp", netip.AddrPortFrom(ear.ip, 9).String())
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if _, err := d.Write([]byte(end)); err != nil {
			t.Fatal(err)
		}
		if seen := ear.markers(); len(seen) > 0 {
			t.Errorf("a pod has seen %q", seen)
		}
	})
}

// TestFirstFrame: a process that is in the pod's namespace before its interface sends nothing with another
// address, however early.
func TestFirstFrame(t *testing.T) {
	onHost(t, func(h *host) {
		i, l := h.invoker(), h.dualNetwork()
		first := h.pod(i, l, "a")
		ear, inner := h.podLink(first), h.linkOf(here(), "pk1")
		for n := range 5 {
			path := h.namespace()
			stop, done := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				hammer(path, ear, stop)
			}()
			r := cni.RuntimeConfig{ContainerID: fmt.Sprint("early", n), NetNS: path, IfName: "eth0"}
			if _, err := i.Add(t.Context(), l, r); err != nil {
				t.Error(err)
			}
			close(stop)
			<-done
		}
		h.say(first, netip.MustParseAddr("10.244.1.1"))
		if seen := inner.markers(); len(seen) > 0 {
			t.Errorf("the host has seen %d frames, the first %q", len(seen), seen[0])
		}
	})
}

// hammer sends frames of a neighbour as soon as there is an interface to send them by.
func hammer(path string, victim *link, stop <-chan struct{}) {
	runtime.LockOSThread() // the thread ends with the goroutine
	fd, err := netns.GetFromPath(path)
	if err != nil {
		return
	}
	defer fd.Close()
	if netns.Set(fd) != nil {
		return
	}
	s, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(s)
	for {
		select {
		case <-stop:
			return
		default:
		}
		at, err := net.InterfaceByName("eth0")
		if err != nil {
			continue
		}
		setUp("eth0")
		f := frame{to: everyone, from: at.HardwareAddr, kind: unix.ETH_P_IP,
			data: ip4(unix.IPPROTO_UDP, victim.ip, netip.MustParseAddr("10.244.1.1"), udp(9, 9))}
		_ = unix.Sendto(s, f.bytes("too early"), 0, &unix.SockaddrLinklayer{Ifindex: at.Index, Halen: 6})
	}
}

// setUp sets an interface up, if it still is there.
func setUp(name string) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq(name)
	if err != nil {
		return
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	_ = unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}

// TestGuardOfAddresses: CHECK notices a lost rule, DEL and GC remove the guard, and an option leaves it out.
func TestGuardOfAddresses(t *testing.T) {
	onHost(t, func(h *host) {
		i, l := h.invoker(), h.dualNetwork()
		a, b := h.pod(i, l, "a"), h.pod(i, l, "b")
		if err := i.Check(t.Context(), l, a.runtime); err != nil || h.guards() != 2 {
			t.Errorf("check: %v, %d guards of 2 pods", err, h.guards())
		}
		open := chain.Network{
			Name: "open", Bridge: "pk5", PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.5.0/24")},
			AnySource: true, DataDir: filepath.Join(h.bin, "..", "open"),
		}
		h.pod(i, h.conf(open), "free")
		if h.guards() != 2 {
			t.Errorf("%d guards with one pod more that has none", h.guards())
		}
		for _, table := range h.tablesOfGuards() {
			h.run("nft", "flush", "chain", "netdev", table.Name, "discovery")
		}
		if err := i.Check(t.Context(), l, a.runtime); err == nil || !strings.Contains(err.Error(), "a rule of chain discovery is lost") {
			t.Errorf("check with a lost rule: %v", err)
		}
		all := h.tablesOfGuards()
		if err := i.Del(t.Context(), l, a.runtime); err != nil || h.guards() != 1 {
			t.Errorf("after DEL: %v, %d guards", err, h.guards())
		}
		// What a killed ADD has left is replaced.
		for _, table := range all {
			h.run("nft", "add", "table", "netdev", table.Name)
			h.run("nft", "add", "chain", "netdev", table.Name, "old")
		}
		a.runtime.NetNS = h.namespace()
		if _, err := i.Add(t.Context(), l, a.runtime); err != nil {
			t.Fatal(err)
		}
		if rules := h.run("nft", "list", "ruleset", "netdev"); h.guards() != 2 || strings.Count(rules, "chain old") != 1 {
			t.Errorf("after ADD over a table that was left: %d guards, rules\n%s", h.guards(), rules)
		}
		if err := i.Check(t.Context(), l, a.runtime); err != nil {
			t.Errorf("check: %v", err)
		}
		if err := i.GC(t.Context(), l, []cni.Attachment{}); err != nil || h.guards() != 0 {
			t.Errorf("after GC without %s: %v, %d guards", b.runtime.ContainerID, err, h.guards())
		}
	})
}
