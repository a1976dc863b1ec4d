package dns

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
)

// zoneFile is an upstream: its records by name and type.
type zoneFile struct {
	records map[string][]string
	asked   atomic.Int32
	// do changes the answers, if it is set.
	do func(ctx context.Context, m, a *dns.Msg) (*dns.Msg, error)
}

func (z *zoneFile) exchange(ctx context.Context, m *dns.Msg, to netip.AddrPort) (*dns.Msg, error) {
	if m.Question[0].Qtype == dns.TypeHINFO {
		return nil, errors.New("no loop here")
	}
	z.asked.Add(1)
	a := new(dns.Msg).SetReply(m)
	q := m.Question[0]
	lines, ok := z.records[strings.ToLower(q.Name)]
	if !ok {
		a.Rcode = dns.RcodeNameError
	}
	for _, line := range lines {
		rr, err := dns.NewRR(line)
		if err != nil {
			return nil, err
		}
		if t := rr.Header().Rrtype; t == q.Qtype || t == dns.TypeCNAME || rr.Header().Name != q.Name {
			a.Answer = append(a.Answer, rr)
		}
	}
	if len(a.Answer) == 0 {
		soa, _ := dns.NewRR("example.com. 300 IN SOA ns.example.com. h.example.com. 1 2 3 4 20")
		a.Ns = []dns.RR{soa}
	}
	if z.do != nil {
		return z.do(ctx, m, a)
	}
	return a, nil
}

// simulated makes a server in a bubble, whose upstreams are functions. It has no sockets and does not run.
func simulated(t testing.TB, w *world, change func(*Config), exchanges ...exchange) *Server {
	c := Config{Services: w.services, EndpointSlices: w.slices, Namespaces: w.namespaces, Listeners: nil}
	var byAddress = map[netip.AddrPort]exchange{}
	for i, e := range exchanges {
		a := netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}), 53)
		c.Upstreams = append(c.Upstreams, a)
		byAddress[a] = e
	}
	c.PacketConns = append(c.PacketConns, silentConn{})
	if change != nil {
		change(&c)
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	s.forwarder.exchange = func(ctx context.Context, m *dns.Msg, to netip.AddrPort) (*dns.Msg, error) {
		return byAddress[to](ctx, m, to)
	}
	w.services.Subscribe(s.index.setService)
	w.slices.Subscribe(s.index.setSlice)
	w.namespaces.Subscribe(s.index.setNamespace)
	close(s.ready)
	return s
}

func example() *zoneFile {
	return &zoneFile{records: map[string][]string{
		"www.example.com.":   {"www.example.com. 60 IN A 192.0.2.80", "www.example.com. 10 IN A 192.0.2.81"},
		"alias.example.com.": {"alias.example.com. 60 IN CNAME www.example.com."},
		"whole.example.com.": {"whole.example.com. 60 IN CNAME www.example.com.", "www.example.com. 20 IN A 192.0.2.80",
			"bank.example.com. 60 IN A 192.0.2.66"},
		"loop.example.com.":    {"loop.example.com. 60 IN CNAME loop.example.com."},
		"inside.example.com.":  {"inside.example.com. 60 IN CNAME web.default.svc.cluster.local."},
		"missing.example.com.": {"missing.example.com. 60 IN CNAME absent.example.com."},
		"zero.example.com.":    {"zero.example.com. 0 IN A 192.0.2.80"},
		"long.example.com.":    {"long.example.com. 86400 IN A 192.0.2.80"},
	}}
}

// TestForward: answers of upstreams, with CNAME chains that they leave open.
func TestForward(t *testing.T) {
	w := newWorld(service("default/web", "10.96.0.20", servicePort("http", 80)), external("default/ext", "alias.example.com"), external("default/gone", "absent.example.com"))
	s := simulated(t, w, nil, example().exchange)
	for _, c := range []struct{ name, want string }{
		{"www.example.com.", "NOERROR; www.example.com. A 192.0.2.80; www.example.com. A 192.0.2.81"},
		{"WWW.example.com.", "NOERROR; WWW.example.com. A 192.0.2.80; WWW.example.com. A 192.0.2.81"},
		{"absent.example.com.", "NXDOMAIN"},
		{"alias.example.com.", "NOERROR; alias.example.com. CNAME www.example.com.; www.example.com. A 192.0.2.80; www.example.com. A 192.0.2.81"},
		// The record that belongs to no question is left out.
		{"whole.example.com.", "NOERROR; whole.example.com. CNAME www.example.com.; www.example.com. A 192.0.2.80"},
		{"loop.example.com.", "SERVFAIL"},
		{"inside.example.com.", "NOERROR; inside.example.com. CNAME web.default.svc.cluster.local.; web.default.svc.cluster.local. A 10.96.0.20"},
		{"missing.example.com.", "NXDOMAIN; missing.example.com. CNAME absent.example.com."},
		{"ext.default.svc.cluster.local.", "NOERROR; alias.example.com. CNAME www.example.com.; ext.default.svc.cluster.local. CNAME alias.example.com.; " +
			"www.example.com. A 192.0.2.80; www.example.com. A 192.0.2.81"},
		{"gone.default.svc.cluster.local.", "NXDOMAIN; gone.default.svc.cluster.local. CNAME absent.example.com."},
	} {
		for range 2 { // the second answer is remembered
			a := ask(t, s, wide(c.name, dns.TypeA))
			if got := rendered(a); got != c.want {
				t.Errorf("%s\n got %s\nwant %s", c.name, got, c.want)
			}
			if a.Rcode == dns.RcodeNameError && (len(a.Ns) != 1 || a.Ns[0].Header().Rrtype != dns.TypeSOA) {
				t.Errorf("%s: authority %v", c.name, a.Ns)
			}
			if !a.RecursionAvailable || a.IsEdns0() == nil {
				t.Errorf("%s: header %v, OPT %v", c.name, a.MsgHdr, a.IsEdns0())
			}
		}
	}
}

// TestCacheTimes: TTLs are counted down, and each kind of answer is asked for again when its time is over.
func TestCacheTimes(t *testing.T) {
	for _, c := range []struct {
		name string
		kept time.Duration
	}{
		{"www.example.com.", 10 * time.Second},
		{"long.example.com.", 30 * time.Second},
		{"zero.example.com.", 0},
		{"absent.example.com.", 20 * time.Second},
		{"broken.example.com.", FailureTTL},
	} {
		synctest.Test(t, func(t *testing.T) {
			z := example()
			z.do = func(_ context.Context, m, a *dns.Msg) (*dns.Msg, error) {
				if m.Question[0].Name == "broken.example.com." {
					return nil, errors.New("broken")
				}
				return a, nil
			}
			s := simulated(t, newWorld(), nil, z.exchange)
			first := ask(t, s, wide(c.name, dns.TypeA))
			if c.kept > 0 {
				time.Sleep(c.kept - time.Second)
				again := ask(t, s, wide(c.name, dns.TypeA))
				if z.asked.Load() != 1 {
					t.Fatalf("%s: asked %d times within its TTL", c.name, z.asked.Load())
				}
				for i, rr := range again.Answer {
					if want := first.Answer[i].Header().Ttl - uint32((c.kept-time.Second)/time.Second); rr.Header().Ttl != want {
						t.Errorf("%v: want TTL %d", rr, want)
					}
				}
				time.Sleep(time.Second)
			}
			ask(t, s, wide(c.name, dns.TypeA))
			if z.asked.Load() != 2 {
				t.Errorf("%s: asked %d times, want 2", c.name, z.asked.Load())
			}
		})
	}
}

var distinctNames = flag.Int("names", 50_000, "how many names TestCacheIsBounded stores")

// TestCacheIsBounded: many names take no more memory than is allowed, and the last names stay.
func TestCacheIsBounded(t *testing.T) {
	names := *distinctNames
	const most = 1 << 20
	c := newCache(most, Meters{})
	now := time.Now()
	for i := range names {
		k := cacheKey{name: fmt.Sprintf("n%d.example.com.", i), kind: dns.TypeA}
		c.put(&remembered{key: k, packet: make([]byte, 40), stored: now, until: now.Add(time.Minute)})
		if c.size > most {
			t.Fatalf("%d bytes", c.size)
		}
	}
	if c.get(cacheKey{name: fmt.Sprintf("n%d.example.com.", names-1), kind: dns.TypeA}, now) == nil || len(c.entries) != c.order.Len() || c.order.Len() < 1000 {
		t.Errorf("%d entries, the last one missing", len(c.entries))
	}
}

// TestLies: answers to other questions, broken ones and silence lead to the next upstream.
func TestLies(t *testing.T) {
	lies := map[string]func(ctx context.Context, m, a *dns.Msg) (*dns.Msg, error){
		"another question": func(_ context.Context, _, a *dns.Msg) (*dns.Msg, error) {
			a.Question[0].Name = "bank.example.com."
			return a, nil
		},
		"another type": func(_ context.Context, _, a *dns.Msg) (*dns.Msg, error) {
			a.Question[0].Qtype = dns.TypeMX
			return a, nil
		},
		"another ID": func(_ context.Context, _, a *dns.Msg) (*dns.Msg, error) { a.Id++; return a, nil },
		"a question": func(_ context.Context, _, a *dns.Msg) (*dns.Msg, error) { a.Response = false; return a, nil },
		"nothing":    func(ctx context.Context, _, _ *dns.Msg) (*dns.Msg, error) { <-ctx.Done(); return nil, ctx.Err() },
		"failure": func(_ context.Context, _, a *dns.Msg) (*dns.Msg, error) {
			a.Rcode = dns.RcodeServerFailure
			return a, nil
		},
		"refusal": func(_ context.Context, _, a *dns.Msg) (*dns.Msg, error) { a.Rcode = dns.RcodeRefused; return a, nil },
	}
	for name, lie := range lies {
		synctest.Test(t, func(t *testing.T) {
			bad, good := example(), example()
			bad.do = lie
			s := simulated(t, newWorld(), nil, bad.exchange, good.exchange)
			a := ask(t, s, wide("www.example.com.", dns.TypeA))
			if want := "NOERROR; www.example.com. A 192.0.2.80; www.example.com. A 192.0.2.81"; rendered(a) != want {
				t.Errorf("%s: the answer is %s, want %s", name, rendered(a), want)
			}
			began := time.Now()
			alone := simulated(t, newWorld(), nil, bad.exchange)
			a = ask(t, alone, wide("www.example.com.", dns.TypeA))
			if a.Rcode == dns.RcodeSuccess || time.Since(began) > DefaultTimeout {
				t.Errorf("%s alone: %s after %v", name, rendered(a), time.Since(began))
			}
		})
	}
}

// TestSilentUpstreamIsAskedLast: after silence of the first, questions go to the second at once.
func TestSilentUpstreamIsAskedLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent, good := example(), example()
		silent.do = func(ctx context.Context, _, _ *dns.Msg) (*dns.Msg, error) { <-ctx.Done(); return nil, ctx.Err() }
		s := simulated(t, newWorld(), nil, silent.exchange, good.exchange)
		ask(t, s, wide("www.example.com.", dns.TypeA))
		began := time.Now()
		ask(t, s, wide("long.example.com.", dns.TypeA))
		if silent.asked.Load() != 1 || time.Since(began) != 0 {
			t.Errorf("the silent upstream was asked %d times, the second answer took %v", silent.asked.Load(), time.Since(began))
		}
		time.Sleep(restPeriod)
		ask(t, s, wide("alias.example.com.", dns.TypeA))
		if silent.asked.Load() < 2 {
			t.Error("the upstream was not asked again")
		}
	})
}

// TestEqualQuestionsAreSentOnce: many clients that ask the same share one exchange.
func TestEqualQuestionsAreSentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := example()
		z.do = func(_ context.Context, _, a *dns.Msg) (*dns.Msg, error) { time.Sleep(time.Second); return a, nil }
		s := simulated(t, newWorld(), nil, z.exchange)
		packet, err := wide("www.example.com.", dns.TypeA).Pack()
		if err != nil {
			t.Fatal(err)
		}
		for range 100 {
			go func() { s.respond(packet, netip.Addr{}, false).wait(t.Context()) }()
		}
		synctest.Wait()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if z.asked.Load() != 1 {
			t.Errorf("asked %d times", z.asked.Load())
		}
	})
}

// TestSearchListsAreFast: the names that search lists make below the cluster's domain never go out.
func TestSearchListsAreFast(t *testing.T) {
	z := example()
	s := simulated(t, newWorld(), nil, z.exchange)
	for _, suffix := range []string{"default.svc.cluster.local.", "svc.cluster.local.", "cluster.local."} {
		if a := ask(t, s, wide("www.example.com."+suffix, dns.TypeA)); a.Rcode != dns.RcodeNameError || len(a.Ns) != 1 {
			t.Errorf("the answer for www.example.com.%s is %v, want NXDOMAIN with 1 record of authority", suffix, a)
		}
	}
	if z.asked.Load() != 0 {
		t.Errorf("upstreams were asked %d times", z.asked.Load())
	}
}
