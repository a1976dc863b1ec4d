package dns

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	miekg "github.com/miekg/dns"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/bench/peer"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/plane/caches"
	"github.com/planekit/planekit/service/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// asServer makes the test binary planekit's server, for the cluster of a kubeconfig.
const asServer = "PLANEKIT_BENCH_DNS"

func TestMain(m *testing.M) {
	if os.Getenv(asServer) == "" {
		os.Exit(m.Run())
	}
	if err := serve(context.Background(), os.Getenv(asServer), os.Getenv(asServer+"_ADDRESS")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve runs planekit's server, or miekg's alone, which answers every question with one record.
func serve(ctx context.Context, path, address string) error {
	conn, err := net.ListenPacket("udp", address)
	if err != nil {
		return err
	}
	if path == "bare" {
		handler := miekg.HandlerFunc(func(w miekg.ResponseWriter, r *miekg.Msg) {
			m := new(miekg.Msg).SetReply(r)
			m.Answer = []miekg.RR{&miekg.A{
				Hdr: miekg.RR_Header{Name: r.Question[0].Name, Rrtype: miekg.TypeA, Class: miekg.ClassINET, Ttl: 5}, A: net.IPv4(10, 96, 0, 1).To4(),
			}}
			_ = w.WriteMsg(m) // the client notices
		})
		return (&miekg.Server{PacketConn: conn, Handler: handler}).ActivateAndServe()
	}
	api, err := kubeconfig.Connect(path)
	if err != nil {
		return err
	}
	services, err1 := caches.Of(typed.Services(api), logr.Discard())
	all, err2 := caches.Of(typed.EndpointSlices(api), logr.Discard())
	s, err3 := dns.New(dns.Config{Services: services, EndpointSlices: all, PacketConns: []net.PacketConn{conn}})
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	failed := make(chan error)
	for _, run := range []func(context.Context) error{services.Run, all.Run, s.Run} {
		go func() { failed <- run(ctx) }()
	}
	return <-failed
}

const corefile = `.:%s {
    bind 127.0.0.1
    errors
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        kubeconfig %s
        pods insecure
    }
    %s
}
`

// side is a server under measurement.
type side struct {
	name, address string
	process       *peer.Process
	rates         []float64
	p50, p99, cpu []time.Duration
}

// BenchmarkQueries asks each server for the addresses of 1,000 services, in turns.
func BenchmarkQueries(b *testing.B) {
	const count, endpoints = 1000, 3
	dir := b.TempDir()
	server := apiservertest.Start(b, apiservertest.WithResources(kube.Resources()...))
	path := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(path, server.Kubeconfig(), 0o600); err != nil {
		b.Fatal(err)
	}
	fill(b, server, count, endpoints)
	program := filepath.Join(dir, "coredns")
	if err := peer.Build(b.Context(), dir, filepath.Join("..", "cmd", "coredns"), "."); err != nil {
		b.Fatal(err)
	}
	sides := []*side{
		start(b, dir, "planekit", path, ""), start(b, dir, "CoreDNS", path, program),
		start(b, dir, "CoreDNS with its cache", path, program), start(b, dir, "miekg's server alone", "bare", ""),
	}
	for _, kind := range []struct{ name, format string }{
		{"service", "svc-%d.default.svc.cluster.local."}, {"headless", "db-%d.default.svc.cluster.local."}, {"absent", "absent-%d.default.svc.cluster.local."},
	} {
		for range b.N {
			for round := range 7 {
				for _, s := range sides {
					s.measure(b, kind.format, count, round > 0)
				}
			}
		}
		for _, s := range sides {
			b.Logf("%-9s %-24s %7.0f queries/s, p50 %v, p99 %v, %v of processor time a query", kind.name, s.name, median(s.rates),
				median(s.p50).Round(time.Microsecond), median(s.p99).Round(10*time.Microsecond), median(s.cpu).Round(100*time.Nanosecond))
			s.rates, s.p50, s.p99, s.cpu = nil, nil, nil, nil
		}
	}
}

// fill creates services and their endpoints.
func fill(b *testing.B, server *apiservertest.Server, count, endpoints int) {
	b.Helper()
	api, err := client.New(client.Config{Server: server.URL, Transport: server.Client().Transport})
	if err != nil {
		b.Fatal(err)
	}
	ctx := b.Context()
	if _, err := typed.Namespaces(api).Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}); err != nil {
		b.Fatal(err)
	}
	for i := range count {
		for kind, ip := range map[string]string{"svc": fmt.Sprintf("10.96.%d.%d", 1+i/250, 1+i%250), "db": "None"} {
			name := fmt.Sprintf("%s-%d", kind, i)
			_, err := typed.Services(api).Create(ctx, &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.ServiceSpec{ClusterIP: ip, Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
			})
			if err != nil {
				b.Fatal(err)
			}
			s := &discoveryv1.EndpointSlice{
				ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
				AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(80))}},
			}
			for j := range endpoints {
				s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.244.%d.%d", i/80, 1+i%80*endpoints+j)}})
			}
			if _, err := typed.EndpointSlices(api).Create(ctx, s); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// start starts a server: CoreDNS if program is not empty.
func start(b *testing.B, dir, name, path, program string) *side {
	b.Helper()
	port, err := peer.FreePort()
	if err != nil {
		b.Fatal(err)
	}
	s := &side{name: name, address: net.JoinHostPort("127.0.0.1", port)}
	log := filepath.Join(dir, name+".log")
	if program == "" {
		b.Setenv(asServer, path)
		b.Setenv(asServer+"_ADDRESS", s.address)
		s.process, err = peer.Launch(log, os.Args[0])
	} else {
		cache := ""
		if name != "CoreDNS" {
			cache = "cache 30"
		}
		config := filepath.Join(dir, name+".Corefile")
		if err := os.WriteFile(config, fmt.Appendf(nil, corefile, port, path, cache), 0o600); err != nil {
			b.Fatal(err)
		}
		s.process, err = peer.Launch(log, program, "-conf", config)
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.process.End() }) // it has no end of its own
	err = peer.Poll(b.Context(), func() (bool, error) {
		c := miekg.Client{Timeout: time.Second}
		a, _, err := c.Exchange(new(miekg.Msg).SetQuestion("svc-0.default.svc.cluster.local.", miekg.TypeA), s.address)
		return err == nil && len(a.Answer) == 1, nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// measure asks for a second with 16 clients, each of which waits for its answer.
func (s *side) measure(b *testing.B, format string, names int, counts bool) {
	b.Helper()
	const clients, length = 16, time.Second
	runtime.GC()
	before, err := s.process.CPU()
	if err != nil {
		b.Fatal(err)
	}
	times := make([][]time.Duration, clients)
	errs := make([]error, clients)
	began := time.Now()
	var running sync.WaitGroup
	for i := range clients {
		running.Go(func() { times[i], errs[i] = ask(s.address, format, names, began.Add(length)) })
	}
	running.Wait()
	took := time.Since(began)
	after, err := s.process.CPU()
	if err := errors.Join(append(errs, err)...); err != nil {
		b.Fatal(err)
	}
	all := slices.Concat(times...)
	slices.Sort(all)
	if !counts {
		return // warm now
	}
	s.rates = append(s.rates, float64(len(all))/took.Seconds())
	s.p50, s.p99 = append(s.p50, all[len(all)/2]), append(s.p99, all[len(all)*99/100])
	s.cpu = append(s.cpu, (after-before)/time.Duration(len(all)))
}

// ask asks until a time, and returns how long each answer took.
func ask(address, format string, names int, until time.Time) ([]time.Duration, error) {
	conn, err := net.Dial("udp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	var packets [][]byte
	for range 50 {
		packet, err := new(miekg.Msg).SetQuestion(fmt.Sprintf(format, rand.IntN(names)), miekg.TypeA).SetEdns0(1232, false).Pack()
		if err != nil {
			return nil, err
		}
		packets = append(packets, packet)
	}
	if err := conn.SetDeadline(until.Add(30 * time.Second)); err != nil {
		return nil, err
	}
	buffer := make([]byte, 4096)
	var times []time.Duration
	for i := 0; ; i++ {
		began := time.Now()
		if began.After(until) {
			return times, nil
		}
		if _, err := conn.Write(packets[i%len(packets)]); err != nil {
			return nil, err
		}
		n, err := conn.Read(buffer)
		if err != nil {
			return nil, err
		}
		if n < 12 || buffer[0] != packets[i%len(packets)][0] || buffer[1] != packets[i%len(packets)][1] {
			return nil, fmt.Errorf("%x is no answer", buffer[:n])
		}
		times = append(times, time.Since(began))
	}
}

func median[T int64 | float64 | time.Duration](all []T) T {
	slices.Sort(all)
	return all[len(all)/2]
}
