package fleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/planekit/planekit/examples/cluster/guest"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/plane/stack"
)

func TestMain(m *testing.M) {
	if guest.IsInit() {
		os.Exit(guest.Init())
	}
	os.Exit(m.Run())
}

func Example() {
	f, err := New(Config{ID: "01234567", Network: netip.MustParsePrefix("10.9.0.0/29"), Pods: netip.MustParsePrefix("10.244.0.0/16")})
	fmt.Println(err, f.Gateway(), f.Address(0), f.Address(5).IsValid())
	// Output: <nil> 10.9.0.1 10.9.0.2 false
}

// await waits until done.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after two minutes", what)
		}
	}
}

// site is where a fleet of one machine runs.
type site struct {
	fleet    *Fleet
	stack    *stack.Stack
	dir      string
	first    net.Listener
	listener net.Listener
	nodes    *localcache.Map[*corev1.Node]
}

// newSite returns a fleet that is connected. Its machine has its files in dir.
func newSite(t *testing.T, dir string) *site {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("machines need root")
		}
		t.Skip("machines need root")
	}
	f, err := New(Config{
		ID: fmt.Sprintf("%08x", os.Getpid()), Network: netip.MustParsePrefix("10.64.211.0/28"), Pods: netip.MustParsePrefix("10.64.212.0/24"),
	})
	if err != nil {
		t.Fatal(err)
	}
	w := &site{fleet: f, stack: stack.New(), dir: dir, nodes: localcache.NewMap[*corev1.Node]()}
	t.Cleanup(func() { _ = w.stack.Stop() }) // once more, if the test has failed
	if w.first, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	if w.listener, err = f.Connect(t.Context(), w.stack, w.first); err != nil {
		t.Fatal(errors.Join(err, w.first.Close()))
	}
	t.Cleanup(func() { w.listener.Close() })
	return w
}

// boot stands in for the kubelet: it makes the Node ready once in each boot.
func (w *site) boot() (changed bool) {
	data, err := os.ReadFile(filepath.Join(w.dir, "boot-id"))
	id := strings.TrimSpace(string(data))
	if node, ok := w.nodes.Get("n"); err != nil || id == "" || ok && node.Status.NodeInfo.BootID == id {
		return false
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{PodCIDR: "10.64.212.0/25"}}
	node.Status.NodeInfo.BootID = id
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: w.fleet.Address(0).String()}}
	w.nodes.Put(node)
	return true
}

// start starts the machine with the program, and boots it.
func (w *site) start(t *testing.T, program string) {
	t.Helper()
	booted := make(chan struct{})
	go func() {
		defer close(booted)
		for deadline := time.Now().Add(time.Minute); !w.boot(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Errorf("the machine has not written a new boot ID to %s within a minute", filepath.Join(w.dir, "boot-id"))
				return
			}
		}
	}()
	err := w.fleet.Start(t.Context(), w.stack, []Node{{Name: "n", Dir: w.dir, Cgroup: "/planekit-" + w.fleet.config.ID, Program: []string{"/bin/sh", "-c", program}}}, w.nodes)
	<-booted
	if err != nil {
		t.Fatal(err)
	}
}

// TestLeave: a fleet leaves its machine on, and the next one takes it over. It is ready only when the Node says so again.
func TestLeave(t *testing.T) {
	dir, leave := t.TempDir(), make(chan struct{})
	w := newSite(t, dir)
	w.stack.Leave = leave
	const program = `trap 'exit 0' USR2; while :; do sleep 0.01; done`
	w.start(t, program)
	boot := w.fleet.all[0].Boot()
	close(leave)
	if err := w.stack.Stop(); err != nil {
		t.Fatal(err)
	}
	old, _ := w.nodes.Get("n")

	next := newSite(t, dir)
	before := *old
	before.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.NewTime(time.Now().Add(-time.Minute))}}
	next.nodes.Put(&before)
	if (&nodeMachine{Machine: w.fleet.all[0].Machine, node: Node{Name: "n"}}).ready(next.nodes, time.Now()) {
		t.Error("a machine is ready by what its Node said a minute ago")
	}
	next.nodes.Delete("n")
	next.start(t, program)
	if now := next.fleet.all[0].Boot(); now != boot {
		t.Errorf("the machine was started again: boot %s, was %s", now, boot)
	}
	if err := next.stack.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := netlink.LinkByName(portName(w.fleet.config.ID, 0)); err == nil {
		t.Error("the link of a machine that was stopped is left")
	}
}

// TestFleet starts a machine whose program ends when a file is there. The API server listens for it, the fleet is ready
// once the Node is, the machine is started again at once by a hangup, and nothing is left of it.
func TestFleet(t *testing.T) {
	w := newSite(t, t.TempDir())
	f, s, end := w.fleet, w.stack, filepath.Join(w.dir, "end")
	w.start(t, "until [ -e "+end+" ]; do sleep 0.05; done; echo it is over")
	go func() {
		if c, err := net.Dial("tcp", netip.AddrPortFrom(f.Gateway(), w.first.Addr().(*net.TCPAddr).AddrPort().Port()).String()); err == nil {
			c.Close()
		}
	}()
	if c, err := w.listener.Accept(); err != nil {
		t.Error(err)
	} else {
		c.Close()
	}
	await(t, "a route to pods", func() bool {
		routes, err := netlink.RouteGet(net.IPv4(10, 64, 212, 9))
		return err == nil && len(routes) > 0 && routes[0].Gw.String() == f.Address(0).String()
	})
	m := f.all[0]
	if err := os.WriteFile(end, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	await(t, "the machine is off", func() bool { return f.waitingFor() == "" })
	if last := lastLine(m.Log()); last != "it is over" {
		t.Errorf("the log ends with %q", last)
	}
	if err := os.Remove(end); err != nil {
		t.Fatal(err)
	}
	await(t, "the machine is on again", func() bool {
		if f.waitingFor() == "" { // the first hangup may come before the fleet has noticed the end
			if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
		}
		return w.boot()
	})
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	if on := f.waitingFor(); on != "" {
		t.Errorf("machine %s is on", on)
	}
	await(t, "the links are gone", func() bool {
		_, err := netlink.LinkByName(portName(f.config.ID, 0))
		return err != nil
	})
}

// TestRoutesTo: routes lead to the pods of machines, and to no others, and to services by a machine that is ready.
func TestRoutesTo(t *testing.T) {
	node := func(name, pods, address string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDR: pods}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		if name == "good" {
			n.Status.Conditions[0].Status = corev1.ConditionUnknown
		}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}, {Type: corev1.NodeInternalIP, Address: address}}
		return n
	}
	all := localcache.NewMap(
		node("good", "10.244.1.0/24", "10.199.0.2"), node("elsewhere", "10.244.2.0/24", "192.0.2.1"),
		node("foreign", "10.9.0.0/24", "10.199.0.3"), node("new", "", "10.199.0.4"), node("odd", "10.244.3.7/24", "10.199.0.5"),
		node("even", "10.244.4.0/24", "10.199.0.6"),
	)
	f := &Fleet{config: Config{Network: netip.MustParsePrefix("10.199.0.0/24"), Pods: netip.MustParsePrefix("10.244.0.0/16")}}
	const pods = "10.244.1.0/24:10.199.0.2 10.244.3.0/24:10.199.0.5 10.244.4.0/24:10.199.0.6"
	if got, want := fmt.Sprint(f.routesTo(all)), "map["+pods+"]"; got != want {
		t.Errorf("routes %s, want %s", got, want)
	}
	f.routed = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}
	if got, want := fmt.Sprint(f.routesTo(all)), "map[10.96.0.0/12:10.199.0.5 "+pods+"]"; got != want {
		t.Errorf("routes with those to services %s, want %s", got, want)
	}
}

// TestServicesBesideOtherRoutes: services are reached from here unless this machine has another route into their range.
func TestServicesBesideOtherRoutes(t *testing.T) {
	network := netip.MustParsePrefix("10.64.211.0/28")
	for services, want := range map[string]bool{"198.19.248.0/24": true, "10.64.211.0/24": false, "10.64.211.8/30": false, "fd00::/112": false} {
		w := newSite(t, t.TempDir()) // with a route to network
		w.fleet.config.Services = []netip.Prefix{netip.MustParsePrefix(services)}
		if err := w.fleet.chooseRoutes(); err != nil {
			t.Fatal(err)
		}
		if got := w.fleet.LeadsToServices(); got != want {
			t.Errorf("services %s lead to a machine: %v, want %v, with a route to %v", services, got, want, network)
		}
		if err := w.stack.Stop(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAwaitReadyEnds: Start returns when its context ends, also if no machine gets ready.
func TestAwaitReadyEnds(t *testing.T) {
	network, err := guest.NewNetwork(guest.NetworkConfig{Bridge: "none", Prefix: netip.MustParsePrefix("10.9.0.0/29")})
	if err != nil {
		t.Fatal(err)
	}
	one, err := guest.New(guest.Config{Name: "n", Port: "p", Dir: t.TempDir(), Network: network, Address: network.Address(0), Program: []string{"/bin/true"}})
	if err != nil {
		t.Fatal(err)
	}
	f := &Fleet{all: []*nodeMachine{{Machine: one, node: Node{Name: "n"}}}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.awaitReady(ctx, stack.New(), localcache.NewMap[*corev1.Node](), time.Now()); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
