package dns

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	discoveryv1 "k8s.io/api/discovery/v1"
)

func record(t testing.TB, line string) dns.RR {
	t.Helper()
	rr, err := dns.NewRR(line)
	if err != nil {
		t.Fatal(err)
	}
	return rr
}

// poison makes an upstream whose answers also have records that belong to others.
func poison(t *testing.T) *zoneFile {
	z := example()
	z.do = func(_ context.Context, m, a *dns.Msg) (*dns.Msg, error) {
		for _, line := range []string{
			"web.default.svc.cluster.local. 300 IN A 192.0.2.66", "bank.example.com. 300 IN A 192.0.2.66",
			"1.0.96.10.in-addr.arpa. 300 IN PTR evil.example.com.",
		} {
			a.Answer = append(a.Answer, record(t, line))
			a.Extra = append(a.Extra, record(t, line))
			a.Ns = append(a.Ns, record(t, line))
		}
		a.Ns = append(a.Ns, record(t, "example.com. 300 IN NS ns.evil.example."), record(t, "cluster.local. 300 IN SOA ns.evil.example. h.evil.example. 1 2 3 4 86400"),
			record(t, "other.example. 300 IN SOA ns.evil.example. h.evil.example. 1 2 3 4 86400"))
		return a, nil
	}
	z.records["ptr.example.com."] = []string{"ptr.example.com. 60 IN CNAME 1.0.96.10.in-addr.arpa."}
	z.records["ages.example.com."] = []string{"ages.example.com. 2147483647 IN A 192.0.2.80"}
	z.records["past.example.com."] = []string{"past.example.com. 4294967295 IN A 192.0.2.80"}
	return z
}

// TestPoison: an upstream decides about the names that it is asked, and about no others: not those of the cluster at the end of
// a chain, and nothing beside the answer. No record lives longer than the cache.
func TestPoison(t *testing.T) {
	z := poison(t)
	s := simulated(t, newWorld(service("default/web", "10.96.0.20", servicePort("http", 80))), func(c *Config) {
		c.ReverseRanges = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	}, z.exchange)
	const web = "web.default.svc.cluster.local. A 10.96.0.20"
	for _, dnssec := range []bool{false, true} {
		for _, c := range []struct {
			name string
			kind uint16
			want string
		}{
			{"inside.example.com.", dns.TypeA, "NOERROR; inside.example.com. CNAME web.default.svc.cluster.local.; " + web},
			{"web.default.svc.cluster.local.", dns.TypeA, "NOERROR; " + web},
			{"www.example.com.", dns.TypeA, "NOERROR; www.example.com. A 192.0.2.80; www.example.com. A 192.0.2.81"},
			{"absent.example.com.", dns.TypeA, "NXDOMAIN"},
			{"ptr.example.com.", dns.TypePTR, "NXDOMAIN; ptr.example.com. CNAME 1.0.96.10.in-addr.arpa."},
			{"bank.example.com.", dns.TypeA, "NXDOMAIN; bank.example.com. A 192.0.2.66"}, // which was asked, and says so
		} {
			for range 2 { // the second answer is remembered
				a := ask(t, s, new(dns.Msg).SetQuestion(c.name, c.kind).SetEdns0(MaxUDPSize, dnssec))
				if got := rendered(a); got != c.want {
					t.Errorf("%s, DNSSEC %v:\n got %s\nwant %s", c.name, dnssec, got, c.want)
				}
				for _, rr := range append(a.Ns, a.Extra...) {
					h := rr.Header()
					if strings.Contains(rr.String(), "evil") || h.Rrtype == dns.TypeA || h.Rrtype == dns.TypeNS {
						t.Errorf("%s, DNSSEC %v: the answer has %v", c.name, dnssec, rr)
					}
				}
			}
		}
	}
	for name, most := range map[string]uint32{"ages.example.com.": uint32(DefaultMaxCacheTTL / time.Second), "past.example.com.": 0} {
		if a := ask(t, s, wide(name, dns.TypeA)); len(a.Answer) != 1 || a.Answer[0].Header().Ttl > most {
			t.Errorf("%s: %v, want a TTL of at most %d", name, a.Answer, most)
		}
	}
}

// TestSpoofedAnswers: false answers at the right port do not count, though they come first: with other IDs, other letters of the
// name, other names, truncated, or broken. What has the ID makes the server ask over TCP.
func TestSpoofedAnswers(t *testing.T) {
	const truth, lie = "192.0.2.80", "192.0.2.66"
	lies := map[string]func(m *dns.Msg) []byte{
		"another ID":     func(m *dns.Msg) []byte { m.Id++; return packed(m) },
		"small letters":  func(m *dns.Msg) []byte { m.Question[0].Name = strings.ToLower(m.Question[0].Name); return packed(m) },
		"another name":   func(m *dns.Msg) []byte { m.Question[0].Name = "bank.example.com."; return packed(m) },
		"two questions":  func(m *dns.Msg) []byte { m.Question = append(m.Question, m.Question[0]); return packed(m) },
		"no question":    func(m *dns.Msg) []byte { m.Question = nil; return packed(m) },
		"truncated":      func(m *dns.Msg) []byte { m.Truncated = true; return packed(m) },
		"no response":    func(m *dns.Msg) []byte { m.Response = false; return packed(m) },
		"half a message": func(m *dns.Msg) []byte { b := packed(m); return b[:len(b)-3] },
	}
	// The letters are in the name so often that they are never all small.
	name := strings.Repeat("letters.", 8) + "example.com."
	for what, spoof := range lies {
		t.Run(what, func(t *testing.T) {
			var overTCP atomic.Bool
			u := upstreamOf(t, func(w dns.ResponseWriter, m *dns.Msg) {
				good := new(dns.Msg).SetReply(m)
				good.Answer = []dns.RR{record(t, m.Question[0].Name+" 60 IN A "+truth)}
				if _, tcp := w.RemoteAddr().(*net.TCPAddr); tcp {
					overTCP.Store(true)
				} else {
					bad := good.Copy()
					bad.Answer = []dns.RR{record(t, m.Question[0].Name+" 60 IN A "+lie)}
					if _, err := w.Write(spoof(bad)); err != nil {
						t.Error(err)
					}
				}
				if err := w.WriteMsg(good); err != nil {
					t.Error(err)
				}
			})
			s := newWorld().start(t, func(c *Config) { c.Upstreams = []netip.AddrPort{u} })
			a := ask(t, s, wide(name, dns.TypeA))
			if want := "NOERROR; " + name + " A " + truth; rendered(a) != want {
				t.Errorf("got %s, want %s", rendered(a), want)
			}
			if want := what != "another ID"; overTCP.Load() != want {
				t.Errorf("asked over TCP: %v, want %v", overTCP.Load(), want)
			}
		})
	}
}

func packed(m *dns.Msg) []byte {
	b, err := m.Pack()
	if err != nil {
		panic(err)
	}
	return b
}

// upstreamOf runs a resolver at both protocols until the test ends.
func upstreamOf(t *testing.T, answer dns.HandlerFunc) netip.AddrPort {
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
	for _, one := range []*dns.Server{{Listener: l, Handler: answer}, {PacketConn: conn, Handler: answer}} {
		started, ended := make(chan struct{}), make(chan struct{})
		one.NotifyStartedFunc = func() { close(started) }
		go func() { defer close(ended); one.ActivateAndServe() }()
		<-started
		t.Cleanup(func() { one.Shutdown(); <-ended })
	}
	return netip.MustParseAddrPort(l.Addr().String())
}

// TestPortsAndLetters: each question to an upstream comes from another port, with another ID and other letters, so that an
// answer must guess all of them.
func TestPortsAndLetters(t *testing.T) {
	seen := make(chan string, 64) // as many as are asked
	u := upstreamOf(t, func(w dns.ResponseWriter, m *dns.Msg) {
		if m.Question[0].Qtype == dns.TypeA {
			seen <- fmt.Sprint(w.RemoteAddr().(*net.UDPAddr).Port, " ", m.Id, " ", strings.Map(func(r rune) rune {
				if r >= '0' && r <= '9' {
					return -1
				}
				return r
			}, m.Question[0].Name))
		}
		if err := w.WriteMsg(new(dns.Msg).SetReply(m)); err != nil {
			t.Error(err)
		}
	})
	s := newWorld().start(t, func(c *Config) { c.Upstreams = []netip.AddrPort{u} })
	ports, ids, letters := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i := range cap(seen) {
		ask(t, s, wide(fmt.Sprintf("a-name-of-many-letters-%d.example.com.", i), dns.TypeA))
		parts := strings.Fields(<-seen)
		ports[parts[0]], ids[parts[1]], letters[parts[2]] = true, true, true
	}
	if len(ports) < 48 || len(ids) < 60 || len(letters) < 60 {
		t.Errorf("64 questions came from %d ports with %d IDs and %d spellings", len(ports), len(ids), len(letters))
	}
}

// TestStrangersGetNothing: a client that is not allowed gets no packet, and its connection is closed.
func TestStrangersGetNothing(t *testing.T) {
	var stranger atomic.Bool
	s := newWorld(service("default/web", "10.96.0.20", servicePort("http", 80))).start(t, func(c *Config) {
		c.Clients = func(a netip.Addr) bool { return !a.IsLoopback() || !stranger.Load() }
	})
	<-s.Ready()
	at := s.Listeners[0].Addr().String()
	asks := func(network string) error {
		c := dns.Client{Net: network, Timeout: 30 * time.Second}
		if stranger.Load() && network == "udp" {
			c.Timeout = 100 * time.Millisecond
		}
		_, _, err := c.Exchange(new(dns.Msg).SetQuestion("web.default.svc.cluster.local.", dns.TypeA), at)
		return err
	}
	for _, strange := range []bool{false, true} {
		stranger.Store(strange)
		for _, network := range []string{"udp", "tcp"} {
			if err := asks(network); (err != nil) != strange {
				t.Errorf("%s, a stranger %v: error %v", network, strange, err)
			}
		}
	}
}

// TestManyNamesOfAnAddress: the answer about an address costs what fits in it, however many names users give the address.
func TestManyNamesOfAnAddress(t *testing.T) {
	w := newWorld(service("default/many", "None"))
	const hosts = 20_000
	var all []discoveryv1.Endpoint
	for i := range hosts {
		all = append(all, endpoint("10.0.0.9", fmt.Sprint("host", i), true))
	}
	w.put(slice("default/many-a", "many", nil, all...))
	s := simulated(t, w, nil)
	q := wide("9.0.0.10.in-addr.arpa.", dns.TypePTR)
	if a := ask(t, s, q); !a.Truncated && len(a.Answer) == 0 {
		t.Fatalf("answer %v", a)
	}
	names := s.index.names(netip.MustParseAddr("10.0.0.9"), 10)
	if len(names) != 10 {
		t.Errorf("names(10.0.0.9, 10) has %d names, want 10", len(names))
	}
	if made := testing.AllocsPerRun(5, func() { ask(t, s, q) }); made > hosts/10 {
		t.Errorf("an answer makes %v allocations, of %d names", made, hosts)
	}
}
