package dns

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// exchangeWith asks a server over a network.
func exchangeWith(t testing.TB, s *Server, network string, m *dns.Msg) *dns.Msg {
	t.Helper()
	c := dns.Client{Net: network, Timeout: 30 * time.Second}
	a, _, err := c.Exchange(m, s.PacketConns[0].LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// many is a headless service with n endpoints.
func many(n int) *world {
	w := newWorld(service("default/many", "None", servicePort("http", 80)))
	for i := 0; i < n; i += 100 {
		var all []discoveryv1.Endpoint
		for j := i; j < min(n, i+100); j++ {
			all = append(all, endpoint(netip.AddrFrom4([4]byte{10, 1, byte(j >> 8), byte(j)}).String(), "", true))
		}
		w.put(slice(fmt.Sprintf("default/many-%d", i), "many", []discoveryv1.EndpointPort{endpointPort("http", 80)}, all...))
	}
	return w
}

// TestTruncation: long answers are cut to what the client takes, and are whole over TCP.
func TestTruncation(t *testing.T) {
	s := many(1000).start(t, nil)
	<-s.Ready()
	const name = "many.default.svc.cluster.local."
	for _, c := range []struct {
		size, want int
		edns       bool
	}{{0, 512, false}, {100, 512, true}, {900, 900, true}, {1232, 1232, true}, {65535, 1232, true}} {
		for _, kind := range []uint16{dns.TypeA, dns.TypeSRV} {
			m := new(dns.Msg).SetQuestion(name, kind)
			if c.edns {
				m.SetEdns0(uint16(c.size), false)
			}
			a := exchangeWith(t, s, "udp", m)
			a.Compress = true // as it came
			if a.Len() > c.want || !a.Truncated || len(a.Answer) == 0 || (a.IsEdns0() != nil) != c.edns {
				t.Errorf("size %d: length %d, %d answers, truncated %v, OPT %v", c.size, a.Len(), len(a.Answer), a.Truncated, a.IsEdns0())
			}
		}
	}
	if a := exchangeWith(t, s, "tcp", new(dns.Msg).SetQuestion(name, dns.TypeA)); a.Truncated || len(a.Answer) != 1000 {
		t.Errorf("over TCP: %d answers, truncated %v", len(a.Answer), a.Truncated)
	}
}

// TestRandomOrder: clients that take the first address are spread over all endpoints.
func TestRandomOrder(t *testing.T) {
	s := many(10).start(t, nil)
	<-s.Ready()
	first := map[string]int{}
	for range 1000 {
		first[ask(t, s, wide("many.default.svc.cluster.local.", dns.TypeA)).Answer[0].(*dns.A).A.String()]++
	}
	for a, n := range first {
		if n < 30 || n > 250 {
			t.Errorf("%s came first %d of 1000 times", a, n)
		}
	}
	if len(first) != 10 {
		t.Errorf("%d addresses came first", len(first))
	}
}

// TestRequests: what is not a question gets the right code, or nothing.
func TestRequests(t *testing.T) {
	s := exampleWorld().start(t, nil)
	<-s.Ready()
	const name = "kubernetes.default.svc.cluster.local."
	for _, c := range []struct {
		what   string
		change func(*dns.Msg)
		want   string
	}{
		{"a question", func(*dns.Msg) {}, "NOERROR"},
		{"an answer", func(m *dns.Msg) { m.Response = true }, ""},
		{"no question", func(m *dns.Msg) { m.Question = nil }, "FORMERR"},
		{"two questions", func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) }, "FORMERR"},
		{"an update", func(m *dns.Msg) { m.Opcode = dns.OpcodeUpdate }, "NOTIMP"},
		{"a notification", func(m *dns.Msg) { m.Opcode = dns.OpcodeNotify }, "NOTIMP"},
		{"class CHAOS", func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS }, "REFUSED"},
		{"a transfer", func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeAXFR }, "REFUSED"},
		{"two OPT records", func(m *dns.Msg) { m.SetEdns0(512, false).SetEdns0(512, false) }, "FORMERR"},
		{"EDNS version 1", func(m *dns.Msg) { m.SetEdns0(512, false); m.IsEdns0().SetVersion(1) }, dns.RcodeToString[dns.RcodeBadVers]},
		{"signatures", func(m *dns.Msg) { m.SetEdns0(512, true) }, "NOERROR"},
	} {
		m := new(dns.Msg).SetQuestion(name, dns.TypeA)
		c.change(m)
		a := ask(t, s, m)
		got := ""
		if a != nil {
			if got = dns.RcodeToString[a.Rcode]; a.Id != m.Id || !a.Response || a.RecursionDesired != m.RecursionDesired {
				t.Errorf("%s: header %v", c.what, a.MsgHdr)
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
	for _, packet := range [][]byte{nil, {1}, make([]byte, 11)} {
		if r := s.respond(packet, netip.Addr{}, false); r.packet != nil || r.wait != nil {
			t.Errorf("%x is answered", packet)
		}
	}
}

// TestUnsynced: until all objects are known, the cluster's names fail and are not denied.
func TestUnsynced(t *testing.T) {
	w := newWorld()
	unsynced := localcache.NewUnsynced(localcache.KeyOf[*corev1.Service])
	s := w.start(t, func(c *Config) { c.Services = unsynced })
	for _, name := range []string{"web.default.svc.cluster.local.", "1.0.96.10.in-addr.arpa."} {
		if a := ask(t, s, wide(name, dns.TypeA)); a.Rcode != dns.RcodeServerFailure || len(a.Ns) != 0 {
			t.Errorf("before: %v", a)
		}
	}
	unsynced.Put(service("default/web", "10.96.0.1", servicePort("", 80)))
	unsynced.Sync()
	<-s.Ready()
	if a := ask(t, s, wide("web.default.svc.cluster.local.", dns.TypeA)); len(a.Answer) != 1 {
		t.Errorf("after: %v", a)
	}
}

// TestSlowConnections: connections that send nothing, or little, or do not read end, and more than
// allowed are closed at once, while others are served.
func TestSlowConnections(t *testing.T) {
	const most = 8
	var refused atomic.Int32
	s := many(1000).start(t, func(c *Config) {
		c.MaxConnections, c.IdleTimeout = most, time.Second
		c.Meters.Refused = func() { refused.Add(1) }
	})
	<-s.Ready()
	address := s.Listeners[0].Addr().String()
	dial := func() net.Conn {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	var slow []net.Conn
	for range most {
		conn := dial()
		conn.Write([]byte{0, 40, 1}) // the beginning of a question
		slow = append(slow, conn)
	}
	for len(s.connections) < most {
		time.Sleep(time.Millisecond)
	}
	conn := dial()
	conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	if _, err := conn.Read(make([]byte, 1)); err == nil || refused.Load() == 0 {
		t.Errorf("a connection too many: read %v, %d refused", err, refused.Load())
	}
	if a := exchangeWith(t, s, "udp", new(dns.Msg).SetQuestion("many.default.svc.cluster.local.", dns.TypeA)); len(a.Answer) == 0 {
		t.Error("no answer over UDP")
	}
	// The slow connections end by themselves.
	for _, conn := range slow {
		conn.SetReadDeadline(time.Now().Add(60 * time.Second))
		if _, err := conn.Read(make([]byte, 1)); err != io.EOF && !strings.Contains(fmt.Sprint(err), "reset") {
			t.Errorf("a slow connection: %v", err)
		}
	}
	exchangeWith(t, s, "tcp", new(dns.Msg).SetQuestion("many.default.svc.cluster.local.", dns.TypeA))
}

// TestPipelinedQuestions: a connection may carry many questions, also the longest ones.
func TestPipelinedQuestions(t *testing.T) {
	s := exampleWorld().start(t, nil)
	<-s.Ready()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.Listeners[0].Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	m := wide("kubernetes.default.svc.cluster.local.", dns.TypeA)
	m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_PADDING{Padding: make([]byte, 60_000)}}
	packet, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	packet = append(binary.BigEndian.AppendUint16(nil, uint16(len(packet))), packet...)
	const questions = 20
	var writing sync.WaitGroup
	writing.Go(func() {
		for range questions {
			conn.Write(packet)
		}
	})
	defer writing.Wait()
	c := dns.Conn{Conn: conn}
	c.SetReadDeadline(time.Now().Add(30 * time.Second))
	for range questions {
		if a, err := c.ReadMsg(); err != nil || len(a.Answer) != 1 {
			t.Fatalf("ReadMsg() = %v, %v, want 1 record", a, err)
		}
	}
}

// TestForwardsAreBounded: while an upstream never answers, questions beyond the limit fail at once, and
// the cluster's names are answered.
func TestForwardsAreBounded(t *testing.T) {
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	var rejected atomic.Int32
	s := exampleWorld().start(t, func(c *Config) {
		c.Upstreams = []netip.AddrPort{netip.MustParseAddrPort(silent.LocalAddr().String())}
		c.MaxForwards, c.Timeout = 4, time.Second
		c.Meters.Rejected = func() { rejected.Add(1) }
	})
	<-s.Ready()
	var clients sync.WaitGroup
	for i := range 20 {
		clients.Go(func() {
			a := exchangeWith(t, s, "udp", new(dns.Msg).SetQuestion(fmt.Sprintf("n%d.example.com.", i), dns.TypeA))
			if a.Rcode != dns.RcodeServerFailure {
				t.Errorf("the answer for n%d.example.com. is %v, want SERVFAIL", i, a)
			}
		})
	}
	if a := exchangeWith(t, s, "udp", new(dns.Msg).SetQuestion("kubernetes.default.svc.cluster.local.", dns.TypeA)); len(a.Answer) != 1 {
		t.Errorf("the answer for kubernetes.default.svc.cluster.local. is %v, want 1 record", a)
	}
	clients.Wait()
	if rejected.Load() == 0 {
		t.Error("no question was rejected")
	}
}

// TestLoop: an upstream that leads back to the server is found and left out.
func TestLoop(t *testing.T) {
	relay, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := exampleWorld().start(t, func(c *Config) { c.Upstreams = []netip.AddrPort{netip.MustParseAddrPort(relay.LocalAddr().String())} })
	var relaying sync.WaitGroup
	relaying.Go(func() {
		buffer := make([]byte, 1<<16)
		for {
			n, from, err := relay.ReadFrom(buffer)
			if err != nil {
				return
			}
			m := new(dns.Msg)
			if m.Unpack(buffer[:n]) != nil {
				continue
			}
			relaying.Go(func() {
				c := dns.Client{Timeout: 5 * time.Second}
				if a, _, err := c.Exchange(m, s.PacketConns[0].LocalAddr().String()); err == nil {
					packet, _ := a.Pack()
					relay.WriteTo(packet, from)
				}
			})
		}
	})
	defer relaying.Wait()
	defer relay.Close()
	for deadline := time.Now().Add(30 * time.Second); s.forwarder.upstreams[0].state(time.Now()) != loops; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the loop was not found")
		}
	}
	if a := exchangeWith(t, s, "udp", new(dns.Msg).SetQuestion("www.example.com.", dns.TypeA)); a.Rcode != dns.RcodeServerFailure {
		t.Errorf("the answer for www.example.com. through a loop is %v, want SERVFAIL", a)
	}
}

// TestUpstreamOverNetwork: real resolvers are asked over UDP, and over TCP for what is truncated.
func TestUpstreamOverNetwork(t *testing.T) {
	upstream := many(500).start(t, func(c *Config) { c.Domain = "upstream.test" })
	<-upstream.Ready()
	var forwarded atomic.Int32
	s := newWorld().start(t, func(c *Config) {
		c.Upstreams = []netip.AddrPort{netip.MustParseAddrPort(upstream.PacketConns[0].LocalAddr().String())}
		c.Meters.Forwarded = func(netip.AddrPort, string, time.Duration) { forwarded.Add(1) }
	})
	for range 2 {
		a := exchangeWith(t, s, "tcp", new(dns.Msg).SetQuestion("many.default.svc.upstream.test.", dns.TypeA))
		if len(a.Answer) != 500 || a.Authoritative {
			t.Errorf("%d answers, header %v", len(a.Answer), a.MsgHdr)
		}
		a = exchangeWith(t, s, "udp", new(dns.Msg).SetQuestion("Many.default.svc.upstream.test.", dns.TypeA))
		if !a.Truncated || len(a.Answer) == 0 || a.Question[0].Name != "Many.default.svc.upstream.test." {
			t.Errorf("over UDP: %d answers, truncated %v", len(a.Answer), a.Truncated)
		}
	}
	if forwarded.Load() != 1 {
		t.Errorf("%d exchanges", forwarded.Load())
	}
}

// TestConfig: bad values are refused by name.
func TestConfig(t *testing.T) {
	w := newWorld()
	conn := silentConn{}
	own := netip.MustParseAddr("10.96.0.10")
	base := Config{Services: w.services, EndpointSlices: w.slices, PacketConns: []net.PacketConn{conn}, Addresses: []netip.Addr{own}}
	for field, change := range map[string]func(*Config){
		"Services":      func(c *Config) { c.Services = nil },
		"Domain":        func(c *Config) { c.Domain = "Cluster.Local" },
		"PacketConns":   func(c *Config) { c.PacketConns = nil },
		"ReverseRanges": func(c *Config) { c.ReverseRanges = []netip.Prefix{netip.MustParsePrefix("10.0.0.1/8")} },
		"TTL":           func(c *Config) { c.TTL = time.Millisecond },
		"CacheBytes":    func(c *Config) { c.CacheBytes = -1 },
		"Upstreams":     func(c *Config) { c.Upstreams = []netip.AddrPort{netip.AddrPortFrom(own, 53)} },
	} {
		c := base
		change(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("New() with a wrong %s: %v, want an error that names the field", field, err)
		}
	}
}

// TestRunEndsWithItsSocket: a socket that another part closes is an error.
func TestRunEndsWithItsSocket(t *testing.T) {
	w := newWorld()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Services: w.services, EndpointSlices: w.slices, PacketConns: []net.PacketConn{conn}})
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if err := s.Run(context.Background()); err == nil {
		t.Error("no error")
	}
	if w.services.Subscriptions()+w.slices.Subscriptions() != 0 {
		t.Error("subscriptions are left")
	}
}

// TestManyServices: the index of 50,000 services takes a change without looking at the others.
func TestManyServices(t *testing.T) {
	x := newIndex(false)
	add := func(i int) {
		ip := netip.AddrFrom4([4]byte{10, byte(100 + i>>16), byte(i >> 8), byte(i)}).String()
		name := fmt.Sprintf("svc-%d", i)
		x.setService(nil, service(fmt.Sprintf("ns-%d/%s", i%500, name), ip, servicePort("http", 80)))
		x.setSlice(nil, slice(fmt.Sprintf("ns-%d/%s-1", i%500, name), name, []discoveryv1.EndpointPort{endpointPort("http", 80)},
			endpoint(netip.AddrFrom4([4]byte{10, byte(200 + i>>16), byte(i >> 8), byte(i)}).String(), "", true)))
	}
	const count = 50_000
	for i := range count {
		add(i)
	}
	built := 0
	for i := range count {
		k := key{fmt.Sprintf("ns-%d", i%500), fmt.Sprintf("svc-%d", i)}
		if r := x.find(k); r == nil || len(r.addrs) != 1 {
			t.Fatalf("find(%v) = %+v, want 1 address", k, r)
		}
	}
	x.setService(nil, service("ns-1/svc-1", "10.99.0.1"))
	for _, e := range x.services {
		if e.records.Load() != nil {
			built++
		}
	}
	if built != count-1 {
		t.Errorf("a change of one service left the records of %d of %d", built, count)
	}
}

// TestResolvers reads what resolv.conf files have.
func TestResolvers(t *testing.T) {
	all, err := ParseResolvers(strings.NewReader("# x\nsearch a b\nnameserver 192.0.2.1\n\nnameserver fd00::1 # y\nnameserver\noptions ndots:5\nnameserver 192.0.2.3\nnameserver 192.0.2.4\n"))
	if err != nil || fmt.Sprint(all) != "[192.0.2.1:53 [fd00::1]:53 192.0.2.3:53]" {
		t.Errorf("ParseResolvers() = %v, %v, want [192.0.2.1:53 [fd00::1]:53 192.0.2.3:53]", all, err)
	}
	if _, err := ParseResolvers(strings.NewReader("nameserver here")); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("ParseResolvers(nameserver here): %v, want an error about line 1", err)
	}
}

// TestProgrammed: the delay of endpoints is measured for headless services.
func TestProgrammed(t *testing.T) {
	w := newWorld(service("default/db", "None"))
	var seen atomic.Int32
	s := w.start(t, func(c *Config) { c.Meters.Programmed = func(time.Duration) { seen.Add(1) } })
	<-s.Ready()
	one := slice("default/db-1", "db", nil)
	one.Annotations = map[string]string{corev1.EndpointsLastChangeTriggerTime: time.Now().Format(time.RFC3339Nano)}
	w.put(one)
	headless := one.DeepCopy()
	metav1.SetMetaDataLabel(&headless.ObjectMeta, corev1.IsHeadlessService, "")
	w.put(headless)
	if seen.Load() != 1 {
		t.Errorf("%d delays", seen.Load())
	}
}

// FuzzRespond: no packet stops the server, and what it answers can be read.
func FuzzRespond(f *testing.F) {
	s := simulated(f, exampleWorld(), nil, example().exchange)
	for _, m := range []*dns.Msg{
		wide("kubernetes.default.svc.cluster.local.", dns.TypeA), wide("_https._tcp.headless.default.svc.cluster.local.", dns.TypeSRV),
		wide("www.example.com.", dns.TypeA), wide("100.0.3.10.in-addr.arpa.", dns.TypePTR), wide("foo.default.svc.cluster.local.", dns.TypeMX),
	} {
		packet, err := m.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(packet, false)
		f.Add(packet, true)
	}
	f.Fuzz(func(t *testing.T, packet []byte, tcp bool) {
		r := s.respond(packet, netip.Addr{}, tcp)
		if r.wait != nil {
			r.packet = r.wait(t.Context())
		}
		if r.packet == nil {
			return
		}
		var a dns.Msg
		if err := a.Unpack(r.packet); err != nil {
			t.Fatalf("Unpack(%x): %v", r.packet, err)
		}
		if a.Id != binary.BigEndian.Uint16(packet) || !a.Response || !tcp && len(r.packet) > MaxUDPSize {
			t.Fatalf("respond(%x, tcp %t) = %v in %d bytes, want a response with ID %d, without TCP of at most %d bytes",
				packet, tcp, &a, len(r.packet), binary.BigEndian.Uint16(packet), MaxUDPSize)
		}
	})
}

// FuzzUpstream: no answer of an upstream stops the server.
func FuzzUpstream(f *testing.F) {
	z := example()
	a, err := z.exchange(f.Context(), wide("whole.example.com.", dns.TypeA), netip.AddrPort{})
	if err != nil {
		f.Fatal(err)
	}
	packet, err := a.Pack()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(packet)
	f.Fuzz(func(t *testing.T, packet []byte) {
		s := simulated(t, newWorld(), nil, func(_ context.Context, m *dns.Msg, _ netip.AddrPort) (*dns.Msg, error) {
			a := new(dns.Msg)
			if err := a.Unpack(packet); err != nil {
				return nil, err
			}
			a.Id, a.Question, a.Response = m.Id, m.Question, true
			return a, nil
		})
		for range 2 {
			if a := ask(t, s, wide("whole.example.com.", dns.TypeA)); a == nil || a.Len() > MaxUDPSize {
				t.Fatalf("the answer for whole.example.com. is %v, want at most %d bytes", a, MaxUDPSize)
			}
		}
	})
}
