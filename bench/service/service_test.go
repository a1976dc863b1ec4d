package service

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/service/proxy"
	"github.com/planekit/planekit/service/servicetest"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/proxy/healthcheck"
	"k8s.io/kubernetes/pkg/proxy/nftables"
	proxyutil "k8s.io/kubernetes/pkg/proxy/util"
)

// asProxy makes the test binary a proxy in the network namespace that it is started in.
const asProxy = "PLANEKIT_BENCH_PROXY"

// An order tells a proxy what to do.
type order struct {
	Services, Endpoints, Changes int
	// Scale makes each change remove an endpoint instead of replacing one.
	Scale bool
	// Backend is the address of the endpoints of the first service; empty for addresses that no host has.
	Backend string
}

// A report has what a proxy measured.
type report struct {
	// Load is the time of the first write, Changes those of single changes, and Processor the processor
	// time of all changes, with that of child processes.
	Load      time.Duration
	Changes   []time.Duration
	Processor time.Duration
}

// side is a proxy in this process.
type side interface {
	// load serves a state and returns when the kernel has it.
	load(services []*corev1.Service, slices []*discoveryv1.EndpointSlice) error
	// change replaces a slice and returns when the kernel has it.
	change(s *discoveryv1.EndpointSlice)
}

func TestMain(m *testing.M) {
	name := os.Getenv(asProxy)
	if name == "" {
		os.Exit(m.Run())
	}
	if err := work(name, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// work does one order, reports, and keeps the rules until its input ends.
func work(name string, in io.Reader, out io.Writer) error {
	input := json.NewDecoder(in)
	var o order
	if err := input.Decode(&o); err != nil {
		return err
	}
	var s side = &ours{}
	if name == "kube-proxy" {
		s = &theirs{}
	}
	services, all := state(o)
	began := time.Now()
	if err := s.load(services, all); err != nil {
		return err
	}
	r := report{Load: time.Since(began)}
	before := processorTime()
	for i := range o.Changes {
		slice := all[i%len(all)].DeepCopy()
		if o.Scale {
			slice.Endpoints = slice.Endpoints[1:]
		} else {
			slice.Endpoints[0].Addresses = []string{fmt.Sprintf("10.64.255.%d", i+1)}
		}
		slice.ResourceVersion = fmt.Sprint(i)
		began := time.Now()
		s.change(slice)
		r.Changes = append(r.Changes, time.Since(began))
		time.Sleep(10 * time.Millisecond)
	}
	r.Processor = processorTime() - before
	if err := json.NewEncoder(out).Encode(r); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, in)
	return err
}

func processorTime() time.Duration {
	var total time.Duration
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if err := syscall.Getrusage(who, &u); err != nil {
			panic(err)
		}
		total += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return total
}

// state makes services with a cluster address and a slice each.
func state(o order) ([]*corev1.Service, []*discoveryv1.EndpointSlice) {
	var services []*corev1.Service
	var all []*discoveryv1.EndpointSlice
	for i := range o.Services {
		name := fmt.Sprint("s", i)
		ip := fmt.Sprintf("10.65.%d.%d", 200+(i+1)/250, (i+1)%250+1)
		services = append(services, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: ip, ClusterIPs: []string{ip}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
				InternalTrafficPolicy: new(corev1.ServiceInternalTrafficPolicyCluster), SessionAffinity: corev1.ServiceAffinityNone,
				Ports: []corev1.ServicePort{{Name: "p", Port: 80, Protocol: corev1.ProtocolTCP}}},
		})
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports:       []discoveryv1.EndpointPort{{Name: new("p"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)}},
		}
		for e := range o.Endpoints {
			n := i*o.Endpoints + e
			slice.Endpoints = append(slice.Endpoints, endpoint(fmt.Sprintf("10.%d.%d.%d", 66+n/60000, n/250%240, n%250+1)))
		}
		if i == 0 && o.Backend != "" {
			slice.Endpoints = []discoveryv1.Endpoint{endpoint(o.Backend)}
		}
		all = append(all, slice)
	}
	return services, all
}

func endpoint(ip string) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{Addresses: []string{ip}, NodeName: new("node"),
		Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)}}
}

// ours is planekit's proxy.
type ours struct {
	slices *localcache.Map[*discoveryv1.EndpointSlice]
	synced chan struct{}
}

func (o *ours) load(services []*corev1.Service, slices []*discoveryv1.EndpointSlice) error {
	o.slices, o.synced = localcache.NewMap(slices...), make(chan struct{}, 100) // more than there are writes at a time
	p, err := proxy.New(proxy.Config{
		Node: "node", Services: localcache.NewMap(services...), EndpointSlices: o.slices,
		Nodes:     localcache.NewMap(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}),
		PodRanges: []netip.Prefix{netip.MustParsePrefix("10.64.0.0/10")}, MinPeriod: time.Nanosecond,
		Meters: proxy.Meters{Synced: func(time.Duration, bool) { o.synced <- struct{}{} }},
	})
	if err != nil {
		return err
	}
	go func() { _ = p.Run(context.Background()) }() // until the process ends
	<-o.synced
	return nil
}

func (o *ours) change(s *discoveryv1.EndpointSlice) {
	for len(o.synced) > 0 { // what was written before
		<-o.synced
	}
	o.slices.Put(s)
	<-o.synced
}

// theirs is kube-proxy's proxier of IPv4.
type theirs struct {
	*nftables.Proxier
	health *healthcheck.ProxyHealthServer
}

func (k *theirs) load(services []*corev1.Service, slices []*discoveryv1.EndpointSlice) (err error) {
	k.health = healthcheck.NewProxyHealthServer("", time.Minute, nil)
	k.Proxier, err = nftables.NewProxier(context.Background(), corev1.IPv4Protocol, time.Hour, 0, false, 14,
		proxyutil.NewDetectLocalByCIDR("10.64.0.0/10"), "node", net.ParseIP("10.65.100.1"), nil, k.health, []string{"10.65.100.1/32"}, false)
	if err != nil {
		return err
	}
	for _, s := range services {
		k.OnServiceAdd(s)
	}
	for _, s := range slices {
		k.OnEndpointSliceAdd(s)
	}
	k.OnServiceSynced()
	k.OnEndpointSlicesSynced() // which writes
	go k.SyncLoop()
	return nil
}

// pollPeriod is how often kube-proxy is asked whether it has written: it reports that to no caller.
const pollPeriod = 200 * time.Microsecond

func (k *theirs) change(s *discoveryv1.EndpointSlice) {
	began := time.Now()
	k.OnEndpointSliceUpdate(nil, s)
	for k.health.Health().LastUpdated.Before(began) {
		time.Sleep(pollPeriod)
	}
}

// begin starts a proxy in a namespace, in one of its own if start is nil, and returns its report. The
// proxy ends with the test.
func begin(b testing.TB, name string, o order, start func(*exec.Cmd) error) report {
	b.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), asProxy+"="+name)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if start == nil {
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		start = (*exec.Cmd).Start
	}
	if err := start(c); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.Close()
		_ = c.Wait() // it ends with its input
	})
	if err := json.NewEncoder(in).Encode(o); err != nil {
		b.Fatal(err)
	}
	var r report
	if err := json.NewDecoder(bufio.NewReader(out)).Decode(&r); err != nil {
		b.Fatalf("decode the report of the process %s: %v", name, err)
	}
	return r
}

var sides = []string{"planekit", "kube-proxy"}

// BenchmarkChange measures the change of one endpoint of one service of many: one that is replaced, and
// one that is removed.
func BenchmarkChange(b *testing.B) {
	needsRoot(b)
	for _, services := range []int{100, 1000, 5000} {
		for _, name := range sides {
			for _, scale := range []bool{false, true} {
				kind := map[bool]string{false: "replaced", true: "removed"}[scale]
				b.Run(fmt.Sprintf("services=%d/%s/%s", services, kind, name), func(b *testing.B) {
					o := order{Services: services, Endpoints: 20, Changes: 20, Scale: scale}
					if name == "kube-proxy" && services > 1000 {
						o.Changes = 5 // which take seconds each
					}
					for b.Loop() {
						measure(b, begin(b, name, o, nil))
					}
				})
			}
		}
	}
}

func measure(b *testing.B, r report) {
	slices.Sort(r.Changes)
	b.ReportMetric(float64(r.Changes[len(r.Changes)/2].Microseconds())/1000, "ms/change")
	b.ReportMetric(float64(r.Changes[len(r.Changes)-1].Microseconds())/1000, "ms/slowest")
	b.ReportMetric(float64(r.Processor.Microseconds())/1000/float64(len(r.Changes)), "cpu-ms/change")
	b.ReportMetric(r.Load.Seconds()*1000, "ms/load")
}

// BenchmarkConnections measures connections to a service, one after the other, and the flow of data.
func BenchmarkConnections(b *testing.B) {
	needsRoot(b)
	for _, services := range []int{1, 5000} {
		for _, name := range append([]string{"none"}, sides...) {
			b.Run(fmt.Sprintf("services=%d/%s", services, name), func(b *testing.B) {
				n := servicetest.NewNetwork(b)
				client, server := n.Pod("client"), n.Pod("server")
				server.Serve("tcp", 8080)
				to := server.IP4.String() + ":8080"
				if name != "none" {
					to = "10.65.200.2:80"
					begin(b, name, order{Services: services, Endpoints: 20, Backend: server.IP4.String()}, func(c *exec.Cmd) error { return n.Node.Try(c.Start) })
				}
				connect(b, client, to)
			})
		}
	}
}

const (
	connections = 3000
	volume      = 512 << 20 // bytes
)

func connect(b *testing.B, client *servicetest.Host, to string) {
	for b.Loop() {
		began := time.Now()
		client.Inside(func() error {
			for range connections {
				c, err := net.Dial("tcp", to)
				if err != nil {
					return err
				}
				if err := c.(*net.TCPConn).SetLinger(0); err != nil { // so that ports are free again
					return err
				}
				c.Close()
			}
			return nil
		})
		b.ReportMetric(connections/time.Since(began).Seconds(), "connections/s")
		c, err := client.Dial("tcp", to, time.Minute)
		if err != nil {
			b.Fatal(err)
		}
		began = time.Now()
		go func() {
			chunk := make([]byte, 64<<10)
			for range volume / len(chunk) {
				if _, err := c.Write(chunk); err != nil {
					return
				}
			}
			_ = c.(*net.TCPConn).CloseWrite()
		}()
		copied, err := io.Copy(io.Discard, c) // the server sends all back
		if err != nil || copied < volume {
			b.Fatalf("%d bytes came back: %v", copied, err)
		}
		b.ReportMetric(float64(copied)/1e6/time.Since(began).Seconds(), "MB/s")
		c.Close()
	}
}

func needsRoot(b testing.TB) {
	if os.Getuid() != 0 {
		b.Skip("network namespaces need root")
	}
}

// TestSides runs both in a short form. It checks no times.
func TestSides(t *testing.T) {
	needsRoot(t)
	for _, name := range sides {
		r := begin(t, name, order{Services: 3, Endpoints: 2, Changes: 2}, nil)
		if r.Load <= 0 || len(r.Changes) != 2 {
			t.Errorf("begin(%s) = %+v, want a Load above 0 and 2 Changes", name, r)
		}
	}
}
