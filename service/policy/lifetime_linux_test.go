package policy_test

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/service/servicetest"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// once asks a host once, and reports whether it answered. What must not be answered gets a tenth of a second.
func (c *city) once(from, to *servicetest.Host, v6, want bool) {
	c.Helper()
	addr, timeout := to.IP4, 100*time.Millisecond
	if v6 {
		addr = to.IP6
	}
	if want {
		timeout = patience
	}
	if _, err := from.AskWithin("tcp", netip.AddrPortFrom(addr, 8080).String(), timeout); (err == nil) != want {
		c.Errorf("%s to %s (%v) in the first attempt: error %v, want allowed %v", from.Name, to.Name, addr, err, want)
	}
}

// isolatedIngress isolates a pod of namespace a from what comes in.
func isolatedIngress(pod string) *networkingv1.NetworkPolicy {
	p := denyAll("a", pod)
	p.Spec.PolicyTypes = p.Spec.PolicyTypes[:1]
	return p
}

// TestConnectionsThatExist: a policy that comes ends what it does not allow, to a pod and to a service, in both families; what
// the server sends ends too. When the policy goes, connections go on.
func TestConnectionsThatExist(t *testing.T) {
	t.Parallel()
	c := newCity(t)
	c.start()
	server, client, outside := c.hosts[0], c.hosts[2], c.Outside
	c.Node.Run("nft", "add table ip nat65; add chain ip nat65 pre { type nat hook prerouting priority -100; }; "+
		"add rule ip nat65 pre ip daddr 10.65.200.10 dnat to "+server.IP4.String())
	type flow struct {
		name, network string
		from          *servicetest.Host
		to            netip.Addr
	}
	flows := []flow{
		{"a pod", "tcp", client, server.IP4}, {"a pod", "tcp", client, server.IP6}, {"a pod", "udp", client, server.IP4},
		{"a service", "tcp", client, netip.MustParseAddr("10.65.200.10")}, {"a service", "udp", client, netip.MustParseAddr("10.65.200.10")},
		{"from outside", "tcp", outside, server.IP4}, {"from outside", "udp", outside, server.IP6},
	}
	var conns []net.Conn
	for _, f := range flows {
		conn, err := f.from.Dial(f.network, netip.AddrPortFrom(f.to, 8080).String(), patience)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if _, err := servicetest.Question(conn, f.network, patience); err != nil {
			t.Fatalf("%s, %s to %v: %v", f.name, f.network, f.to, err)
		}
		conns = append(conns, conn)
	}
	expect := func(want bool) {
		t.Helper()
		for i, f := range flows {
			answered := false
			for deadline := time.Now().Add(patience); ; {
				answered = echoes(t, conns[i])
				if answered == want || time.Now().After(deadline) {
					break
				}
			}
			if answered != want {
				t.Errorf("%s, %s to %v: answered %v, want %v", f.name, f.network, f.to, answered, want)
			}
		}
	}
	expect(true)
	c.policies.Put(isolatedIngress("pod0"))
	expect(false)
	c.policies.Delete("a/deny-pod0")
	expect(true)
	c.policies.Put(&networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "egress"},
		Spec:       networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"pod": "pod2"}}, PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}},
	})
	flows, conns = flows[:5], conns[:5] // of the pod that may send nothing now
	expect(false)
}

// echoes sends a line and reports whether it, or one that was sent before, comes back soon.
func echoes(t *testing.T, conn net.Conn) bool {
	t.Helper()
	if err := conn.SetDeadline(time.Now().Add(150 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "?\n"); err != nil {
		return false
	}
	n, err := conn.Read(make([]byte, 64))
	return err == nil && n > 0
}

// TestServerThatSends: datagrams of a server that go on without another question end when a policy isolates it or its client.
func TestServerThatSends(t *testing.T) {
	t.Parallel()
	c := newCity(t)
	c.start()
	server, client := c.hosts[0], c.hosts[2]
	var conn net.PacketConn
	server.Inside(func() (err error) { conn, err = net.ListenPacket("udp", ":7000"); return err })
	t.Cleanup(func() { conn.Close() })
	l := client.Listen()
	asking, err := client.Dial("udp", netip.AddrPortFrom(server.IP4, 7000).String(), patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { asking.Close() })
	if _, err := io.WriteString(asking, "?"); err != nil {
		t.Fatal(err)
	}
	_, to, err := conn.ReadFrom(make([]byte, 8))
	if err != nil {
		t.Fatal(err)
	}
	send := func(mark string) {
		if _, err := conn.WriteTo([]byte(mark), to); err != nil {
			t.Error(err)
		}
	}
	for deadline := time.Now().Add(patience); !l.Has("first."); send("first.") {
		if time.Now().After(deadline) {
			t.Fatal("no datagram of the server arrives")
		}
		wait(t)
	}
	c.policies.Put(isolatedIngress("pod0"))
	blocked := false
	for deadline := time.Now().Add(patience); !blocked && time.Now().Before(deadline); {
		mark := "after " + time.Now().String()
		send(mark)
		c.after(c.hosts[1], client, l)
		blocked = !l.Has(mark)
	}
	if !blocked {
		t.Error("a server whose clients may not reach it goes on sending to one")
	}
}

// newcomer makes a pod of the node that is in no cache.
func (c *city) newcomer(name string, labels map[string]string) (*servicetest.Host, *corev1.Pod) {
	h := c.Pod(name)
	for _, p := range ports {
		h.Serve(p.network, int(p.number))
	}
	return h, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: "newcomer", Labels: labels}, Spec: corev1.PodSpec{NodeName: "node"}}
}

// TestClosedUntilKnown: a pod that no one knows reaches nothing and is not reached, but by its node. Once it is admitted, its
// first packets are subject to its policies, before its addresses are in a status.
func TestClosedUntilKnown(t *testing.T) {
	t.Parallel()
	c := newCity(t)
	c.policies.Put(isolatedIngress("new"))
	e, stop := c.start()
	h, pod := c.newcomer("new", map[string]string{"pod": "new"})
	for _, v6 := range []bool{false, true} {
		c.once(h, c.hosts[1], v6, false)
		c.once(h, c.Outside, v6, false)
		c.once(c.hosts[1], h, v6, false)
		c.once(c.Outside, h, v6, false)
		c.once(c.Node, h, v6, true) // as a probe does
	}
	if err := e.Admit(t.Context(), pod, h.IP4, h.IP6); err != nil {
		t.Fatal(err)
	}
	for _, v6 := range []bool{false, true} {
		c.once(h, c.hosts[1], v6, true)
		c.once(c.hosts[1], h, v6, false) // isolated
	}
	// The cache learns of the pod, then of its status.
	c.pods.Put(pod.DeepCopy())
	known := pod.DeepCopy()
	known.Status.PodIPs = []corev1.PodIP{{IP: h.IP4.String()}, {IP: h.IP6.String()}}
	c.pods.Put(known)
	c.once(h, c.hosts[1], false, true)
	c.once(c.hosts[1], h, false, false)
	// Without an enforcer, pods keep what they have, and those that come are closed.
	stop()
	late, _ := c.newcomer("late", nil)
	c.once(late, c.hosts[1], false, false)
	c.once(c.hosts[1], late, false, false)
	c.once(h, c.hosts[1], false, true)
	c.once(c.hosts[1], h, false, false)
	c.start()
	c.once(h, c.hosts[1], false, true)
	c.once(c.hosts[1], h, false, false)
	c.once(late, c.hosts[1], false, false)
}

// TestAddressOfAnother: a pod that gets the address of one that is going has neither its rights nor its policies.
func TestAddressOfAnother(t *testing.T) {
	t.Parallel()
	c := newCity(t)
	only := isolatedIngress("pod0")
	only.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{
		{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pod": "pod2"}}}}}}
	c.policies.Replace(only, denyAll("a", "pod4"))
	e, _ := c.start()
	c.once(c.hosts[2], c.hosts[0], false, true)
	c.once(c.hosts[4], c.hosts[1], false, false)
	// The API still has pod2 and pod4 with their addresses.
	for i, name := range map[int]string{2: "second", 4: "third"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: "next"}, Spec: corev1.PodSpec{NodeName: "node"}}
		if err := e.Admit(t.Context(), pod, c.hosts[i].IP4, c.hosts[i].IP6); err != nil {
			t.Fatal(err)
		}
	}
	for _, v6 := range []bool{false, true} {
		c.once(c.hosts[2], c.hosts[0], v6, false)
		c.once(c.hosts[4], c.hosts[1], v6, true)
	}
	// The old pods go, and the new ones stay.
	c.pods.Delete("a/pod2")
	c.pods.Delete("a/pod4")
	c.once(c.hosts[4], c.hosts[1], false, true)
	c.once(c.hosts[2], c.hosts[0], false, false)
}

// TestRulesCanBeListed: nft shows the rules, so that an operator can read them.
func TestRulesCanBeListed(t *testing.T) {
	t.Parallel()
	c := newCity(t)
	c.policies.Replace(everyPort())
	c.start()
	c.Node.Run("nft", "list", "ruleset")
}

// TestPolicyOfAnotherIsTooLarge: a policy that is too much for a node is reported once and allows less, and that of another
// namespace holds as before, also when it changes.
func TestPolicyOfAnotherIsTooLarge(t *testing.T) {
	t.Parallel()
	c := newCity(t)
	huge := isolatedIngress("pod1")
	huge.Namespace = "b"
	for i := range int32(3000) {
		huge.Spec.Ingress = append(huge.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{
			From:  []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{}, PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint("app", i)}}}},
			Ports: []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromInt32(8080 + i))}},
		})
	}
	c.policies.Replace(huge, isolatedIngress("pod0"))
	reported := make(chan string, 8) // more than there may be
	c.overrun = func(p *networkingv1.NetworkPolicy, reason string) {
		reported <- p.Namespace + "/" + p.Name + ": " + reason
	}
	c.start()
	c.once(c.hosts[2], c.hosts[0], false, false)
	c.once(c.hosts[0], c.hosts[1], false, true) // by the first of the rules
	c.once(c.hosts[2], c.hosts[1], false, false)
	c.policies.Delete("a/deny-pod0")
	for deadline := time.Now().Add(patience); ; {
		if _, err := c.hosts[2].AskWithin("tcp", netip.AddrPortFrom(c.hosts[0].IP4, 8080).String(), time.Second); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the change of a policy of another namespace does not act")
		}
	}
	if len(reported) != 1 {
		t.Fatalf("%d reports, want 1", len(reported))
	}
	if got := <-reported; !strings.HasPrefix(got, "b/deny-pod1: the policies of the namespace have more than") {
		t.Errorf("reported %q", got)
	}
}

// everyPort returns a policy with ports of all kinds, so many that they are a set, in both directions.
func everyPort() *networkingv1.NetworkPolicy {
	p := denyAll("a", "pod0")
	all := slices.Concat(somePorts()[2:], manyPorts())
	p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{Ports: all}}
	p.Spec.Egress = []networkingv1.NetworkPolicyEgressRule{{Ports: all}}
	return p
}
