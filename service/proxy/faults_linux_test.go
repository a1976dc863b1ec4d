package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/service/proxy"
	"github.com/planekit/planekit/service/ruleset"
	"github.com/planekit/planekit/service/servicetest"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// asAgent makes the test binary a proxy in the network namespace that it is started in, whose endpoints,
// given by it, change all the time.
const asAgent = "PLANEKIT_TEST_AGENT"

func TestMain(m *testing.M) {
	if addresses := os.Getenv(asAgent); addresses != "" {
		if err := agent(strings.Fields(addresses)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// agent keeps a hundred services, of which every change replaces all endpoints, until it is killed.
func agent(addresses []string) error {
	services, slices := localcache.NewMap[*corev1.Service](), localcache.NewMap[*discoveryv1.EndpointSlice]()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
	put := func(i int, address string) {
		name := fmt.Sprint("s", i)
		slices.Put(&discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
			AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080))}},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{address}}},
		})
	}
	for i := range 100 {
		services.Put(service(func(s *corev1.Service) {
			s.Name, s.Spec.ClusterIPs = fmt.Sprint("s", i), []string{fmt.Sprint("10.65.200.", i+10)}
		}))
		put(i, addresses[0])
	}
	p, err := proxy.New(proxy.Config{Node: "node", Services: services, EndpointSlices: slices, Nodes: localcache.NewMap(node), MinPeriod: time.Nanosecond})
	if err != nil {
		return err
	}
	done := make(chan error, 1) // one answer
	go func() { done <- p.Run(context.Background()) }()
	select {
	case err := <-done:
		return err
	case <-p.Ready():
		fmt.Println("ready")
	}
	for round := 0; ; round++ {
		for i := range 100 {
			put(i, addresses[round%len(addresses)])
		}
		time.Sleep(time.Millisecond)
	}
}

// TestKilledAgent kills the proxy in the middle of its writes. A service always leads to an endpoint.
func TestKilledAgent(t *testing.T) {
	c := newCluster(t)
	client, one, two := c.Pod("client"), c.server("one", c.Pod), c.server("two", c.Pod)
	r := rand.New(rand.NewPCG(1, 1))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for round := range 6 {
		a := exec.Command(os.Args[0])
		a.Env, a.Stderr = append(os.Environ(), asAgent+"="+one.IP4.String()+" "+two.IP4.String()), os.Stderr
		out, err := a.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		c.Node.Inside(a.Start)
		if n, err := out.Read(make([]byte, 10)); n == 0 {
			t.Fatal("the agent does not start: ", err)
		}
		for i := 0; round == 0 && i < 3; i++ {
			wg.Go(func() {
				for n := i; ctx.Err() == nil; n++ {
					if _, err := client.Ask("tcp", fmt.Sprint("10.65.200.", n%100+10, ":80")); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		time.Sleep(time.Duration(r.IntN(60)) * time.Millisecond)
		if err := a.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = a.Wait() // which says that it was killed
	}
}

func TestRulesFlushedByHand(t *testing.T) {
	c := newCluster(t)
	client, near := c.Pod("client"), c.server("near", c.Pod)
	c.services.Put(service())
	// A service with another address has chains of its own.
	c.services.Put(service(func(s *corev1.Service) {
		s.Name, s.Spec.ClusterIPs, s.Spec.ExternalIPs = "shop", []string{"10.65.200.11"}, []string{"10.65.202.11"}
	}))
	c.slices.Put(slice("shop", discoveryv1.AddressTypeIPv4, near))
	c.endpoints(near)
	c.start()
	const table = "planekit-services"
	want := c.listing()
	for _, damage := range [][]string{
		{"flush", "ruleset"},
		{"delete", "table", "inet", table},
		{"flush", "chain", "inet", table, "translate"},
		{"flush", "map", "inet", table, "services4"},
		{"flush chain inet " + table + " cluster/default/shop/http/tcp-4; flush chain inet " + table + " choose4-1"},
		{"add", "rule", "inet", table, "translate-prerouting", "drop"},
		{"add", "element", "inet", table, "no-endpoints4", "{ 10.65.200.10 . tcp . 80 : drop }"},
		{"flush map inet " + table + " " + mapOf("cluster/default/shop/http/tcp-4") + "; flush map inet " + table + " endpoints4"},
		{"add table inet x; delete table inet " + table + "; add table inet " + table + "; add chain inet " + table +
			" translate { type filter hook prerouting priority 0; }; delete table inet x"},
	} {
		c.Node.Run("nft", damage...)
		c.eventually(func() error {
			if have := c.listing(); have != want {
				return fmt.Errorf("after nft %s the rules are\n%s\nwant\n%s", strings.Join(damage, " "), have, want)
			}
			return nil
		})
		c.reach(client, "tcp 10.65.200.10:80", "near")
		c.reach(client, "tcp 10.65.200.11:80", "near")
	}
	c.endpoints()
	c.reach(client, "tcp 10.65.200.10:80", "refused")
}

// mapOf returns the map that has the endpoints of a chain.
func mapOf(chain string) string {
	return fmt.Sprintf("endpoints4-%02d", ruleset.EndpointKey(chain, 0)[0]%64)
}

// listing returns the table as nft lists it, with lines in a fixed order: that of elements and of
// chains varies.
func (c *cluster) listing() string {
	out := c.Node.Run("nft", "-s", "list", "ruleset")
	var lines []string
	for word := range strings.FieldsSeq(out) {
		lines = append(lines, strings.Trim(word, ","))
	}
	// Words alone are compared: nft wraps elements as they come.
	counts := map[string]int{}
	for _, l := range lines {
		counts[l]++
	}
	return fmt.Sprint(counts)
}

func TestRestartKeepsConnections(t *testing.T) {
	c := newCluster(t)
	client, near, far := c.Pod("client"), c.server("near", c.Pod), c.server("far", c.Remote)
	c.services.Put(service())
	c.endpoints(near, far)
	c.start()
	conn, err := client.Dial("tcp", "10.65.200.10:80", patience)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := servicetest.Question(conn, "tcp", patience); err != nil {
		t.Fatal(err)
	}
	echo := func() {
		t.Helper()
		if _, err := io.WriteString(conn, "still there\n"); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 12)
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, buf); err != nil {
			t.Fatal(err)
		}
	}
	before := c.listing()
	generation := c.generation()
	c.stop()
	echo()
	c.reach(client, "tcp 10.65.200.10:80", "near", "far") // without a proxy
	c.start()
	echo()
	if after := c.listing(); after != before || c.generation() != generation {
		t.Errorf("a restart that found everything right wrote:\n%s\nafter\n%s", after, before)
	}
	c.stop()
	// What changed in between is written by the next start.
	c.slices.Put(slice("web", "IPv4"))
	c.start()
	echo()
	c.reach(client, "tcp 10.65.200.10:80", "refused")
}

// generation returns the generation of the node's tables.
func (c *cluster) generation() (g uint32) {
	c.Helper()
	c.Node.Inside(func() error {
		k, err := ruleset.NewKernel("planekit-services", "node")
		if err == nil {
			g, err = k.Generation(c.Context())
		}
		return err
	})
	return g
}

// TestRemove: the rules are removed only by the process that may keep them, and can be written again.
func TestRemove(t *testing.T) {
	c := newCluster(t)
	client, near := c.Pod("client"), c.server("near", c.Pod)
	c.services.Put(service())
	c.endpoints(near)
	c.start()
	c.reach(client, "tcp 10.65.200.10:80", "near")
	if err := c.proxy.Remove(t.Context()); !errors.Is(err, ruleset.ErrOwned) {
		t.Errorf("while Run runs: %v, want ErrOwned", err)
	}
	c.reach(client, "tcp 10.65.200.10:80", "near")
	c.stop()
	for range 2 {
		if err := c.proxy.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if conn, err := client.Dial("tcp", "10.65.200.10:80", time.Second); err == nil {
		conn.Close()
		t.Error("the service answers without rules")
	}
	c.start()
	c.reach(client, "tcp 10.65.200.10:80", "near")
}

func TestTwoOwners(t *testing.T) {
	c := newCluster(t)
	c.start()
	p, err := proxy.New(c.config)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Run(t.Context()); !errors.Is(err, ruleset.ErrOwned) {
		t.Errorf("a second proxy of the table: %v", err)
	}
	c.stop()
	// Another node's name in the table, and no process.
	other := c.config
	other.Node = "other"
	before := c.generation()
	if p, err = proxy.New(other); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := p.Run(ctx); err != nil {
		t.Error(err)
	}
	select {
	case <-p.Ready():
		t.Error("a proxy took over the table of another node")
	default:
	}
	if after := c.generation(); after != before {
		t.Error("a proxy changed the table of another node")
	}
}

func TestUDPFollowsEndpoints(t *testing.T) {
	c := newCluster(t)
	client, near, far := c.Pod("client"), c.server("near", c.Pod), c.server("far", c.Remote)
	c.services.Put(service())
	c.endpoints(near)
	c.start()
	// One socket, hence one flow of the kernel.
	conn, err := client.Dial("udp", "10.65.200.10:53", patience)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ask := func(want string) {
		t.Helper()
		c.eventually(func() error {
			a, err := servicetest.Question(conn, "udp", silence)
			if err == nil && a.Server != want {
				err = fmt.Errorf("%s answers, want %s", a.Server, want)
			}
			return err
		})
	}
	ask("near")
	c.endpoints(far)
	ask("far")
	c.endpoints()
	c.eventually(func() error {
		if a, err := servicetest.Question(conn, "udp", silence); err == nil {
			return fmt.Errorf("%s still answers", a.Server)
		}
		return nil
	})
	c.endpoints(near)
	ask("near")
}

func TestRollingChangeUnderLoad(t *testing.T) {
	c := newCluster(t)
	client := c.Pod("client")
	var servers []*servicetest.Host
	for i := range 4 {
		servers = append(servers, c.server(fmt.Sprint("server", i), c.Pod))
	}
	c.services.Put(service())
	c.endpoints(servers...)
	c.start()
	var asked, failed atomic.Int64
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if _, err := client.Ask("tcp", "10.65.200.10:80"); err != nil {
					failed.Add(1)
					t.Error(err)
				}
				asked.Add(1)
			}
		})
	}
	for round := 0; round < 60 || asked.Load() < 100; round++ {
		var some []*servicetest.Host
		for i, s := range servers {
			if i != round%4 {
				some = append(some, s)
			}
		}
		c.endpoints(some...)
		time.Sleep(5 * time.Millisecond)
	}
	cancel()
	wg.Wait()
	if failed.Load() > 0 {
		t.Errorf("%d of %d connections failed", failed.Load(), asked.Load())
	}
}

func TestFlappingIsBounded(t *testing.T) {
	c := newCluster(t)
	near := c.server("near", c.Pod)
	c.services.Put(service())
	c.endpoints(near)
	var writes atomic.Int64
	c.config.MinPeriod = 200 * time.Millisecond
	c.config.Meters.Synced = func(time.Duration, bool) { writes.Add(1) }
	c.start()
	began, before := time.Now(), writes.Load()
	for i := range 100 {
		if i%2 == 0 {
			c.endpoints()
		} else {
			c.endpoints(near)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if n, most := writes.Load()-before, int64(time.Since(began)/(200*time.Millisecond))+2; n > most {
		t.Errorf("%d writes, want at most %d", n, most)
	}
	c.reach(c.Node, "tcp 10.65.200.10:80", "near")
}

// TestLargest has a service with thousands of endpoints, and thousands of services that go at once.
func TestLargest(t *testing.T) {
	c := newCluster(t)
	var all []*corev1.Service
	for i := range 1500 {
		all = append(all, service(func(s *corev1.Service) {
			s.Name, s.Spec.ClusterIPs = fmt.Sprint("s", i), []string{fmt.Sprintf("10.65.%d.%d", 201+i/250, i%250+1)}
		}))
	}
	large := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: "large", Labels: map[string]string{discoveryv1.LabelServiceName: "s7"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080))}},
	}
	for i := range 4000 {
		large.Endpoints = append(large.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.64.%d.%d", i/250, i%250+1)}})
	}
	c.services.Replace(all...)
	c.slices.Put(large)
	c.start()
	if list := c.Node.Run("nft", "list", "map", "inet", "planekit-services", mapOf("cluster/default/s7/http/tcp-4")); strings.Count(list, ". 8080") != 4000 {
		t.Errorf("the map of 4000 endpoints has %d", strings.Count(list, ". 8080"))
	}
	c.services.Replace()
	c.eventually(func() error {
		chains := c.Node.Run("nft", "list", "chains", "inet")
		if elements := c.Node.Run("nft", "list", "map", "inet", "planekit-services", "no-endpoints4"); strings.Contains(elements, "10.65.") || strings.Contains(chains, "cluster/") {
			return errors.New("rules of services that are gone are left")
		}
		return nil
	})
}
