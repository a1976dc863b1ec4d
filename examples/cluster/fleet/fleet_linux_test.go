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

// TestFleet starts a machine whose program ends when a file is there. The API server listens for it, the fleet is ready
// once the Node is, the machine is started again at once by a hangup, and nothing is left of it.
func TestFleet(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("machines need root")
		}
		t.Skip("machines need root")
	}
	id := fmt.Sprintf("%08x", os.Getpid())
	f, err := New(Config{ID: id, Network: netip.MustParsePrefix("10.64.211.0/28"), Pods: netip.MustParsePrefix("10.64.212.0/24")})
	if err != nil {
		t.Fatal(err)
	}
	s, dir, stopped := stack.New(), t.TempDir(), false
	defer func() {
		if !stopped { // the test has failed
			_ = s.Stop()
		}
	}()
	first, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener, err := f.Connect(t.Context(), s, first)
	if err != nil {
		t.Fatal(errors.Join(err, first.Close()))
	}
	defer listener.Close()
	all := localcache.NewMap[*corev1.Node]()
	// boot stands in for the kubelet: it makes the Node ready.
	boot := func() (changed bool) {
		data, err := os.ReadFile(filepath.Join(dir, "boot-id"))
		id := strings.TrimSpace(string(data))
		if node, ok := all.Get("n"); err != nil || id == "" || ok && node.Status.NodeInfo.BootID == id {
			return false
		}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{PodCIDR: "10.64.212.0/25"}}
		node.Status.NodeInfo.BootID = id
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: f.Address(0).String()}}
		all.Put(node)
		return true
	}
	booted, end := make(chan struct{}), filepath.Join(dir, "end")
	go func() {
		defer close(booted)
		for deadline := time.Now().Add(time.Minute); !boot() && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		}
	}()
	err = f.Start(t.Context(), s, []Node{{Name: "n", Dir: dir, Cgroup: "/planekit-" + id, Program: []string{
		"/bin/sh", "-c", "until [ -e " + end + " ]; do sleep 0.05; done; echo it is over",
	}}}, all)
	<-booted
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if c, err := net.Dial("tcp", netip.AddrPortFrom(f.Gateway(), first.Addr().(*net.TCPAddr).AddrPort().Port()).String()); err == nil {
			c.Close()
		}
	}()
	if c, err := listener.Accept(); err != nil {
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
		return boot()
	})
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	stopped = true
	if on := f.waitingFor(); on != "" {
		t.Errorf("machine %s is on", on)
	}
	await(t, "the links are gone", func() bool {
		_, err := netlink.LinkByName("pk" + id + "-0")
		return err != nil
	})
}

// TestRoutesTo: routes lead to the pods of machines, and to no others.
func TestRoutesTo(t *testing.T) {
	node := func(name, pods, address string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDR: pods}}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}, {Type: corev1.NodeInternalIP, Address: address}}
		return n
	}
	all := localcache.NewMap(
		node("good", "10.244.1.0/24", "10.199.0.2"), node("elsewhere", "10.244.2.0/24", "192.0.2.1"),
		node("foreign", "10.9.0.0/24", "10.199.0.3"), node("new", "", "10.199.0.4"), node("odd", "10.244.3.7/24", "10.199.0.5"),
	)
	got := routesTo(all, netip.MustParsePrefix("10.199.0.0/24"), netip.MustParsePrefix("10.244.0.0/16"))
	if want := "map[10.244.1.0/24:10.199.0.2 10.244.3.0/24:10.199.0.5]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
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
	if err := f.awaitReady(ctx, stack.New(), localcache.NewMap[*corev1.Node]()); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
