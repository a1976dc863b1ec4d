package dns

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	miekg "github.com/miekg/dns"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/compat/stock"
	"github.com/planekit/planekit/plane/caches"
	"github.com/planekit/planekit/service/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// patience limits the wait for an expected answer.
const patience = 2 * time.Minute

// objects are services of every type, with endpoints of every kind.
func objects() ([]*corev1.Service, []*discoveryv1.EndpointSlice) {
	services := []*corev1.Service{
		service("web", "10.96.0.20", corev1.ServicePort{Name: "http", Port: 80}, corev1.ServicePort{Name: "https", Port: 443}),
		service("udp", "10.96.0.21", corev1.ServicePort{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}, corev1.ServicePort{Name: "dns-tcp", Port: 53}),
		service("unnamed", "10.96.0.22", corev1.ServicePort{Port: 8080}),
		service("db", "None", corev1.ServicePort{Name: "sql", Port: 5432}, corev1.ServicePort{Name: "admin", Port: 9000}),
		service("portless", "None"), service("none-ready", "None", corev1.ServicePort{Name: "sql", Port: 5432}),
		{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "ext"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "web.default.svc.cluster.local"}},
	}
	sql := []discoveryv1.EndpointPort{endpointPort("sql", 5432), endpointPort("admin", 9000)}
	return services, []*discoveryv1.EndpointSlice{
		slice("web-1", "web", []discoveryv1.EndpointPort{endpointPort("http", 8080), endpointPort("https", 8443)}, endpoint("10.244.1.2", "", true), endpoint("10.244.2.2", "", true)),
		slice("db-1", "db", sql, endpoint("10.244.1.3", "db-0", true), endpoint("10.244.2.3", "db-1", true), endpoint("10.244.3.3", "", true), endpoint("10.244.3.9", "late", false)),
		slice("db-2", "db", sql, endpoint("fd00::1:2", "db-0", true), endpoint("fd00::1:0", "", true)),
		slice("portless-1", "portless", nil, endpoint("10.244.1.4", "", true)),
		slice("none-ready-1", "none-ready", sql, endpoint("10.244.1.5", "", false)),
		slice("orphan-1", "orphan", sql, endpoint("10.244.1.6", "", true)),
	}
}

func service(name, ip string, ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.ServiceSpec{ClusterIP: ip, Ports: ports}}
}

func slice(name, service string, ports []discoveryv1.EndpointPort, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: ports, Endpoints: endpoints,
	}
	if strings.Contains(endpoints[0].Addresses[0], ":") {
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

// names are those to ask about: of everything that exists, and of what is beside it.
func names() []string {
	all := []string{
		"cluster.local.", "dns-version.cluster.local.", "svc.cluster.local.", "pod.cluster.local.", "default.svc.cluster.local.", "absent.svc.cluster.local.",
		"kube-system.svc.cluster.local.", "10-1-2-3.default.pod.cluster.local.", "fd00--1.default.pod.cluster.local.", "10-1-2.default.pod.cluster.local.",
		"10-1-2-3.absent.pod.cluster.local.", "www.example.com.cluster.local.", "www.example.com.svc.cluster.local.", "www.example.com.default.svc.cluster.local.",
	}
	for _, s := range []string{"web", "WEB", "udp", "unnamed", "db", "portless", "none-ready", "ext", "orphan", "absent"} {
		own := s + ".default.svc.cluster.local."
		all = append(all, own, "x."+own, "a.b.c."+own)
		for _, p := range []string{"http", "https", "dns", "dns-tcp", "sql", "admin", "absent"} {
			all = append(all, "_"+p+"._tcp."+own, "_"+p+"._udp."+own)
		}
		for _, h := range []string{"db-0", "DB-1", "late", "10-244-3-3", "10-244-1-2", "fd00--1-0"} {
			all = append(all, h+"."+own)
		}
	}
	for _, a := range []string{"10.96.0.20", "10.96.0.99", "10.244.1.2", "10.244.1.3", "10.244.3.3", "10.244.3.9", "10.244.1.6", "fd00::1:2", "fd00::9"} {
		reverse, _ := miekg.ReverseAddr(a) // they are addresses
		all = append(all, reverse)
	}
	return all
}

// differs explains where the answers are not alike on purpose. In all cases planekit says what RFC 1034 and RFC 2308
// do.
func differs(name string, kind uint16) string {
	lower := strings.ToLower(name)
	switch {
	case lower == "cluster.local." && (kind == miekg.TypeNS || kind == miekg.TypeSOA):
		return "the zone's own records name another server and another time"
	case kind == miekg.TypeSOA:
		return "CoreDNS answers a question about the SOA record of a name that does not exist as if the name existed"
	case kind == miekg.TypeTXT && slices.Contains([]string{"cluster.local.", "svc.cluster.local.", "pod.cluster.local.", "default.svc.cluster.local.", "kube-system.svc.cluster.local."}, lower):
		return "CoreDNS denies names that exist if the question is about TXT records"
	case lower == "dns-version.cluster.local." && kind != miekg.TypeTXT:
		return "CoreDNS denies the name if the question is about another type"
	case strings.HasSuffix(lower, ".arpa.") && kind != miekg.TypePTR:
		return "CoreDNS denies reverse names that exist if the question is about another type"
	case lower == "6.1.244.10.in-addr.arpa.":
		return "CoreDNS names an endpoint of a service that does not exist"
	case strings.HasSuffix(lower, ".pod.cluster.local.") && kind == miekg.TypeSRV:
		return "CoreDNS makes a SRV record with port 0 for a pod"
	case lower == "ext.default.svc.cluster.local." && kind != miekg.TypeA && kind != miekg.TypeCNAME:
		return "CoreDNS leaves a CNAME record out if its target has no record of the type"
	}
	return ""
}

func TestAnswers(t *testing.T) {
	program, err := stock.BuildCoreDNS(t.Context()) // minutes, the first time
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	server := apiservertest.Start(t, apiservertest.WithResources(kube.Resources()...))
	cable := &cable{}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(server.CA)
	api, err := client.New(client.Config{Server: server.URL, BearerToken: server.Token, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots}, DialContext: cable.dial,
	}})
	if err != nil {
		t.Fatal(err)
	}
	fill(ctx, t, api)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, server.Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	theirs := stock.NewCoreDNS(t, program, kubeconfig)
	ours := serve(ctx, t, api)
	await(ctx, t, theirs)
	compared, alike := 0, map[string]string{}
	for _, name := range names() {
		for _, kind := range kinds {
			if differs(name, kind) != "" {
				continue
			}
			compared++
			want, got := ask(t, theirs, name, kind), ask(t, ours, name, kind)
			alike[name] = got
			if got != want {
				t.Errorf("%s %s\n planekit %s\n  CoreDNS %s", name, miekg.TypeToString[kind], got, want)
			}
		}
	}
	t.Logf("%d questions", compared)

	// Without the API server the answers stay.
	cable.cut()
	for name, want := range alike {
		if got := ask(t, ours, name, kinds[len(kinds)-1]); got != want && differs(name, kinds[len(kinds)-1]) == "" {
			t.Errorf("%s without the API server: %s, was %s", name, got, want)
		}
	}
}

// kinds are the types to ask about.
var kinds = []uint16{
	miekg.TypeTXT, miekg.TypeCNAME, miekg.TypeMX, miekg.TypeSOA, miekg.TypeNS, miekg.TypePTR, miekg.TypeSRV, miekg.TypeAAAA, miekg.TypeA,
}

// cable carries connections until it is cut.
type cable struct {
	mu    sync.Mutex
	conns []net.Conn
	isCut bool
}

func (c *cable) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isCut {
		return nil, errors.New("the cable is cut")
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		c.conns = append(c.conns, conn)
	}
	return conn, err
}

func (c *cable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isCut = true
	for _, conn := range c.conns {
		_ = conn.Close() // it may be closed
	}
}

// fill creates the objects.
func fill(ctx context.Context, t *testing.T, api *client.Client) {
	t.Helper()
	services, all := objects()
	for _, n := range []string{"default", "kube-system"} {
		if _, err := typed.Namespaces(api).Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range services {
		if _, err := typed.Services(api).Create(ctx, s); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range all {
		if _, err := typed.EndpointSlices(api).Create(ctx, s); err != nil {
			t.Fatal(err)
		}
	}
}

// serve runs planekit's server until the test ends and returns its address.
func serve(ctx context.Context, t *testing.T, api *client.Client) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	services, err1 := caches.Of(typed.Services(api), logr.Discard())
	slices, err2 := caches.Of(typed.EndpointSlices(api), logr.Discard())
	namespaces, err3 := caches.Of(typed.Namespaces(api), logr.Discard())
	s, err4 := dns.New(dns.Config{
		Services: services, EndpointSlices: slices, Namespaces: namespaces, PacketConns: []net.PacketConn{conn},
		ReverseRanges: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")},
	})
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			t.Fatal(err)
		}
	}
	runCtx, stop := context.WithCancel(context.Background())
	runs := []func(context.Context) error{services.Run, slices.Run, namespaces.Run, s.Run}
	done := make(chan error, len(runs)) // one answer of each
	for _, run := range runs {
		go func() { done <- run(runCtx) }()
	}
	t.Cleanup(func() {
		stop()
		for range runs {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
	select {
	case <-s.Ready():
	case <-ctx.Done():
		t.Fatal(ctx.Err())
	}
	return conn.LocalAddr().String()
}

// await waits until CoreDNS knows the objects.
func await(ctx context.Context, t *testing.T, address string) {
	t.Helper()
	for {
		c := miekg.Client{Timeout: time.Second}
		a, _, err := c.ExchangeContext(ctx, new(miekg.Msg).SetQuestion("db-0.db.default.svc.cluster.local.", miekg.TypeAAAA), address)
		if err == nil && len(a.Answer) == 1 {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal("CoreDNS did not answer: ", err, a)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// ask returns an answer as text: its code, its records without weights, and whether it has a SOA record.
func ask(t *testing.T, address, name string, kind uint16) string {
	t.Helper()
	c := miekg.Client{Timeout: 30 * time.Second, UDPSize: 1232}
	a, _, err := c.Exchange(new(miekg.Msg).SetQuestion(name, kind).SetEdns0(1232, false), address)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, rr := range slices.Concat(a.Answer, a.Extra) {
		switch rr := rr.(type) {
		case *miekg.SRV:
			rr.Weight = 0
		case *miekg.OPT:
			continue
		}
		lines = append(lines, strings.Join(strings.Fields(rr.String()), " "))
	}
	slices.Sort(lines)
	negative := ""
	if len(a.Ns) == 1 {
		soa, _ := a.Ns[0].(*miekg.SOA)
		if soa != nil {
			negative = fmt.Sprintf(" (SOA of %s for %d s)", soa.Hdr.Name, min(soa.Hdr.Ttl, soa.Minttl))
		}
	}
	return miekg.RcodeToString[a.Rcode] + negative + " " + strings.Join(lines, "; ")
}
