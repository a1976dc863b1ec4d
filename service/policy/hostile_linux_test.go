package policy_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/planekit/planekit/service/servicetest"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// attack sends packets as a pod with the right to send raw packets may. mark is in those that must not arrive.
type attack struct {
	name   string
	frames []servicetest.Frame
}

// The protocols of IP headers.
const (
	icmp, udp, tcp, icmp6, sctp, udplite, unassigned = 1, 17, 6, 58, 132, 136, 253
	hopByHop, fragment, options                      = 0, 44, 60
)

// attacks returns frames from one pod to another that contain mark and the name of the attack.
func attacks(from, to *servicetest.Host, mark func(name string) string) []attack {
	mac := to.MAC()
	near, far := from.LinkLocal(), to.LinkLocal()
	addr := netip.MustParseAddr
	v4 := func(dst netip.Addr, protocol byte, payload []byte) servicetest.Frame {
		return servicetest.Frame{Type: 0x0800, To: mac, Payload: servicetest.IPv4(from.IP4, dst, protocol, 0, payload)}
	}
	v6 := func(src, dst netip.Addr, next byte, payload []byte) servicetest.Frame {
		return servicetest.Frame{Type: 0x86dd, To: mac, Payload: servicetest.IPv6(src, dst, next, 255, payload)}
	}
	udpTo := func(src, dst netip.Addr, text string) []byte {
		return servicetest.Checked(src, dst, udp, 6, servicetest.UDP(9999, text))
	}
	multicast := func(f servicetest.Frame, mac string) servicetest.Frame {
		f.To, _ = net.ParseMAC(mac)
		return f
	}
	message := func(kind byte, size int, text string) []byte {
		b := append([]byte{kind, 0, 0, 0, 0, 0, 0, 0}, to.IP6.AsSlice()...)
		b = append(b, 1, byte(size/8)) // an option of that many bytes
		b = append(b, text...)
		b = append(b, make([]byte, max(0, size-2-len(text)))...)
		return servicetest.Checked(from.IP6, to.IP6, icmp6, 2, b)
	}
	padding := []byte{0, 1, 4, 0, 0, 0, 0} // options of 8 bytes, after the next header
	before := func(next byte, rest []byte) []byte { return append(append([]byte{next}, padding...), rest...) }
	part := func(next byte, offset, more uint16, payload []byte) []byte {
		b := binary.BigEndian.AppendUint16([]byte{next, 0}, offset<<3|more)
		return append(append(b, 0, 0, 0x65, offset2id), payload...)
	}
	var all []attack
	add := func(name string, frames ...servicetest.Frame) { all = append(all, attack{name, frames}) }
	text := mark
	add("link-local", v6(near, far, udp, udpTo(near, far, text("link-local"))))
	add("link-local to its address", v6(near, to.IP6, udp, udpTo(near, to.IP6, text("link-local to its address"))))
	add("its address to link-local", v6(from.IP6, far, udp, udpTo(from.IP6, far, text("its address to link-local"))))
	all6, all4 := addr("ff02::1"), addr("224.0.0.1")
	add("multicast 6", multicast(v6(near, all6, udp, udpTo(near, all6, text("multicast 6"))), "33:33:00:00:00:01"))
	add("multicast 4", multicast(v4(all4, udp, udpTo(from.IP4, all4, text("multicast 4"))), "01:00:5e:00:00:01"))
	broadcast := addr("255.255.255.255")
	add("broadcast", multicast(v4(broadcast, udp, udpTo(from.IP4, broadcast, text("broadcast"))), "ff:ff:ff:ff:ff:ff"))
	add("unicast", v4(to.IP4, udp, udpTo(from.IP4, to.IP4, text("unicast"))))
	add("unicast 6", v6(from.IP6, to.IP6, udp, udpTo(from.IP6, to.IP6, text("unicast 6"))))
	for name, protocol := range map[string]byte{"protocol 253": unassigned, "SCTP": sctp, "UDPlite": udplite, "ESP": 50, "GRE": 47, "IP in IP": 4} {
		add(name, v4(to.IP4, protocol, []byte("\x9c\x40\x1f\x90\x00\x00\x00\x00"+text(name))))
		add(name+" 6", v6(from.IP6, to.IP6, protocol, []byte("\x9c\x40\x1f\x90\x00\x00\x00\x00"+text(name+" 6"))))
	}
	echo := append([]byte{8, 0, 0, 0, 0, 1, 0, 1}, text("echo")...)
	add("echo", v4(to.IP4, icmp, echo))
	add("router advertisement", v6(near, to.IP6, icmp6, message(134, 64, text("router advertisement"))))
	add("redirect", v6(near, to.IP6, icmp6, message(137, 64, text("redirect"))))
	add("solicitation with more", v6(from.IP6, to.IP6, icmp6, message(135, 64, text("solicitation with more"))))
	add("options before", v6(from.IP6, to.IP6, hopByHop, before(options, before(udp, udpTo(from.IP6, to.IP6, text("options before"))))))
	add("unknown header", v6(from.IP6, to.IP6, 59, []byte(text("unknown header"))))
	late := before(tcp, servicetest.Checked(from.IP6, to.IP6, tcp, 16, servicetest.SYN(9999, text("port in the second fragment"))))
	add("port in the second fragment",
		v6(from.IP6, to.IP6, fragment, part(options, 0, 1, late[:8])), v6(from.IP6, to.IP6, fragment, part(options, 1, 0, late[8:])))
	add("a fragment alone", servicetest.Frame{Type: 0x0800, To: mac, Payload: servicetest.IPv4(from.IP4, to.IP4, udp, 10, []byte(text("a fragment alone")))})
	add("spoofed", servicetest.Frame{Type: 0x0800, To: mac, Payload: servicetest.IPv4(addr("10.65.9.9"), to.IP4, udp, 0, udpTo(addr("10.65.9.9"), to.IP4, text("spoofed")))})
	add("not IP", servicetest.Frame{Type: 0x88b5, To: mac, Payload: []byte(text("not IP"))})
	tagged := append([]byte{0, 100, 8, 0}, servicetest.IPv4(from.IP4, to.IP4, udp, 0, udpTo(from.IP4, to.IP4, text("VLAN")))...)
	add("VLAN", servicetest.Frame{Type: 0x8100, To: mac, Payload: tagged})
	session := append([]byte{0x11, 0, 0, 1, 0, 60, 0, 0x21}, servicetest.IPv4(from.IP4, to.IP4, udp, 0, udpTo(from.IP4, to.IP4, text("PPPoE")))...)
	add("PPPoE", servicetest.Frame{Type: 0x8864, To: mac, Payload: session})
	return all
}

// offset2id is a part of the identification of fragments.
const offset2id = 0x66

// denyAll isolates a pod in both directions.
func denyAll(namespace, pod string) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "deny-" + pod},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"pod": pod}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
		},
	}
}

// TestHostileSenders: of what a pod sends past its own network nothing gets to or from a pod that a deny-all isolates, whatever
// the protocol. Without a policy, datagrams of the pods' own addresses arrive, so that the test sees what does.
func TestHostileSenders(t *testing.T) {
	t.Parallel()
	c := newCity(t)
	c.policies.Replace(denyAll("a", "pod0"))
	c.start()
	isolated, open, other := c.hosts[0], c.hosts[2], c.hosts[1]
	listeners := map[*servicetest.Host]*servicetest.Listener{}
	for _, h := range []*servicetest.Host{isolated, open, other} {
		listeners[h] = h.Listen()
	}
	for direction, hosts := range map[string][2]*servicetest.Host{"to": {open, isolated}, "from": {isolated, open}} {
		from, to := hosts[0], hosts[1]
		all := attacks(from, to, func(name string) string { return "hostile " + direction + " " + name + "." })
		for _, a := range all {
			for _, f := range a.frames {
				from.Send(f)
			}
		}
		c.after(open, other, listeners[other])
		for _, a := range all {
			if mark := "hostile " + direction + " " + a.name + "."; listeners[to].Has(mark) {
				t.Errorf("%s the isolated pod: %s passes", direction, a.name)
			}
		}
	}
	// Between others, what has addresses of pods passes, with headers before the port and in fragments.
	for _, a := range attacks(open, other, func(name string) string { return "open " + name + "." }) {
		for _, f := range a.frames {
			open.Send(f)
		}
	}
	c.after(open, other, listeners[other])
	for _, name := range []string{"unicast", "unicast 6", "protocol 253", "UDPlite", "options before", "echo"} {
		if !listeners[other].Has("open " + name + ".") {
			t.Errorf("between pods without policies, %s does not pass", name)
		}
	}
	for _, name := range []string{"link-local", "multicast 6", "multicast 4", "broadcast", "spoofed", "not IP", "VLAN", "PPPoE", "redirect", "router advertisement"} {
		if listeners[other].Has("open " + name + ".") {
			t.Errorf("between pods without policies, %s passes, of which no policy could keep", name)
		}
	}
}

// after returns when what was sent before has passed the bridge, or was dropped: a datagram that is sent after it has come.
func (c *city) after(from, to *servicetest.Host, l *servicetest.Listener) {
	c.Helper()
	c.sent++
	mark := fmt.Sprintf("afterwards %d.", c.sent)
	payload := servicetest.Checked(from.IP4, to.IP4, udp, 6, servicetest.UDP(9998, mark))
	frame := servicetest.Frame{Type: 0x0800, To: to.MAC(), Payload: servicetest.IPv4(from.IP4, to.IP4, udp, 0, payload)}
	for deadline := time.Now().Add(patience); !l.Has(mark); {
		if time.Now().After(deadline) {
			c.Fatal("no datagram passes")
		}
		from.Send(frame)
		wait(c.T)
	}
}

// wait gives packets a moment.
func wait(t *testing.T) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	<-tick.C
}

// TestPortsBehindHeaders: a policy that opens one port is not evaded by extension headers or fragments, and does not drop what
// is large, in both families.
func TestPortsBehindHeaders(t *testing.T) {
	t.Parallel()
	c := newCity(t)
	p := denyAll("a", "pod0")
	p.Spec.PolicyTypes = p.Spec.PolicyTypes[:1]
	one := func(protocol corev1.Protocol, port int32) networkingv1.NetworkPolicyPort {
		return networkingv1.NetworkPolicyPort{Protocol: &protocol, Port: new(intstr.FromInt32(port))}
	}
	p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{Ports: []networkingv1.NetworkPolicyPort{one(corev1.ProtocolUDP, 7777)}}}
	c.policies.Replace(p)
	c.start()
	from, to, other := c.hosts[2], c.hosts[0], c.hosts[1]
	l, elsewhere := to.Listen(), other.Listen()
	for _, a := range attacks(from, to, func(name string) string { return "port " + name + "." }) {
		for _, f := range a.frames {
			from.Send(f)
		}
	}
	c.after(from, other, elsewhere)
	for _, name := range []string{"options before", "port in the second fragment", "a fragment alone", "unicast", "UDPlite", "protocol 253 6"} {
		if l.Has("port " + name + ".") {
			t.Errorf("only port 7777 is open, and %s passes", name)
		}
	}
	for _, a := range []netip.Addr{to.IP4, to.IP6} {
		large := fmt.Sprintf("large to %v", a)
		for deadline := time.Now().Add(patience); !l.Has(large); {
			if time.Now().After(deadline) {
				t.Fatalf("%s does not arrive", large)
			}
			conn, err := from.Dial("udp", netip.AddrPortFrom(a, 7777).String(), time.Second)
			if err != nil {
				t.Fatal(err)
			}
			_, err = conn.Write(append(bytes.Repeat([]byte{0}, 5000), large...))
			conn.Close()
			if err != nil {
				t.Fatal(err)
			}
			wait(t)
		}
	}
}
