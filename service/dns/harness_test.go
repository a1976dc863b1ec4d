package dns

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// world is the source of a server in a test.
type world struct {
	services   *localcache.Map[*corev1.Service]
	slices     *localcache.Map[*discoveryv1.EndpointSlice]
	namespaces *localcache.Map[*corev1.Namespace]
}

func newWorld(objects ...any) *world {
	w := &world{localcache.NewMap[*corev1.Service](), localcache.NewMap[*discoveryv1.EndpointSlice](), localcache.NewMap[*corev1.Namespace]()}
	w.put(objects...)
	return w
}

func (w *world) put(objects ...any) {
	for _, o := range objects {
		switch o := o.(type) {
		case *corev1.Service:
			w.services.Put(o)
		case *discoveryv1.EndpointSlice:
			w.slices.Put(o)
		case *corev1.Namespace:
			w.namespaces.Put(o)
		}
	}
}

// start runs a server with sockets at a loopback address until the test ends.
func (w *world) start(t testing.TB, change func(*Config)) *Server {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := lc.ListenPacket(t.Context(), "udp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c := Config{
		Services: w.services, EndpointSlices: w.slices, Namespaces: w.namespaces, PacketConns: []net.PacketConn{conn}, Listeners: []net.Listener{l},
		ReverseRanges: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/16")},
		Addresses:     []netip.Addr{netip.MustParseAddr("10.96.0.10")},
	}
	if change != nil {
		change(&c)
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

// ask returns the answer to a question without a socket.
func ask(t testing.TB, s *Server, m *dns.Msg) *dns.Msg {
	t.Helper()
	packet, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	r := s.respond(packet, netip.MustParseAddr("192.0.2.1"), false)
	if r.wait != nil {
		r.packet = r.wait(t.Context())
	}
	if r.packet == nil {
		return nil
	}
	a := new(dns.Msg)
	if err := a.Unpack(r.packet); err != nil {
		t.Fatalf("%v: %v in %x", m.Question, err, r.packet)
	}
	return a
}

// wide returns a question of a client that takes long answers.
func wide(name string, kind uint16) *dns.Msg {
	return new(dns.Msg).SetQuestion(name, kind).SetEdns0(MaxUDPSize, false)
}

// rendered returns an answer as text: its code, then the records in order, without TTL.
func rendered(a *dns.Msg) string {
	var lines []string
	for _, rr := range a.Answer {
		lines = append(lines, brief(rr))
	}
	slices.Sort(lines)
	return strings.Join(append([]string{dns.RcodeToString[a.Rcode]}, lines...), "; ")
}

func brief(rr dns.RR) string {
	h := rr.Header()
	return fmt.Sprintf("%s %s %s", h.Name, dns.TypeToString[h.Rrtype], strings.TrimPrefix(rr.String(), h.String()))
}

func service(name, ip string, ports ...corev1.ServicePort) *corev1.Service {
	namespace, name, _ := strings.Cut(name, "/")
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.ServiceSpec{Ports: ports}}
	s.Spec.ClusterIPs = strings.Split(ip, ",")
	s.Spec.ClusterIP = s.Spec.ClusterIPs[0]
	return s
}

func external(name, target string) *corev1.Service {
	s := service(name, "")
	s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: target}
	return s
}

func servicePort(name string, number int32) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Port: number, Protocol: corev1.ProtocolTCP}
}

func slice(name, service string, ports []discoveryv1.EndpointPort, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	namespace, name, _ := strings.Cut(name, "/")
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: ports, Endpoints: endpoints,
	}
	if len(endpoints) > 0 && strings.Contains(endpoints[0].Addresses[0], ":") {
		s.AddressType = discoveryv1.AddressTypeIPv6
	}
	return s
}

func endpoint(address, host string, ready bool) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}
	if host != "" {
		e.Hostname = &host
	}
	return e
}

func endpointPort(name string, number int32) discoveryv1.EndpointPort {
	return discoveryv1.EndpointPort{Name: &name, Port: &number, Protocol: new(corev1.ProtocolTCP)}
}

// silentConn is a socket that receives nothing.
type silentConn struct{ net.PacketConn }

func (silentConn) LocalAddr() net.Addr { return &net.UDPAddr{} }
