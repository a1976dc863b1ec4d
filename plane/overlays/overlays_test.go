//go:build linux

package overlays_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/planekit/planekit/cni/overlay"
	"github.com/planekit/planekit/cni/overlay/leases"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/plane/overlays"
	"github.com/planekit/planekit/storage/memstore"
)

// node returns a Node with podCIDRs and an address.
func node(n int) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", n), CreationTimestamp: metav1.Unix(int64(1000-n), 0)},
		Spec:       corev1.NodeSpec{PodCIDRs: []string{fmt.Sprintf("10.64.%d.0/24", n), fmt.Sprintf("fd63:64:%x::/64", n)}},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeHostName, Address: "n"}, {Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.63.0.%d", n)},
			{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("fd63::%x", n)},
		}},
	}
}

// server applies patches to a cache.
type server struct {
	*localcache.Map[*corev1.Node]
	patches int
	broken  error
}

func (s *server) Patch(_ context.Context, _, name string, kind types.PatchType, data []byte, _ ...string) (*corev1.Node, error) {
	if s.broken != nil {
		return nil, s.broken
	}
	old, ok := s.Get(name)
	if !ok || kind != types.MergePatchType {
		return nil, errors.New("not found")
	}
	updated := old.DeepCopy()
	if err := json.Unmarshal(data, updated); err != nil {
		return nil, err
	}
	s.patches++
	s.Put(updated)
	return updated, nil
}

// Two nodes: the local one is published.
func Example() {
	cache := &server{Map: localcache.NewMap(node(1), node(2))} // in a program: a cache and typed.Nodes(api)
	nodes, err := overlays.New(overlays.Config{Node: "n1", Nodes: cache, Writer: cache})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	local, err := nodes.Local(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(local.Name, local.Address, local.Subnets)
	local.Backend, local.Data = overlay.VXLAN, overlay.Data{MAC: overlay.MAC{2, 0, 0, 0, 0, 1}, VNI: 1, Port: 8472}
	if err := nodes.Publish(ctx, local); err != nil { // overlay.Overlay does
		log.Fatal(err)
	}
	n1, _ := cache.Get("n1")
	fmt.Println(n1.Annotations[overlays.DataAnnotation])
	// Output:
	// n1 10.63.0.1 [10.64.1.0/24 fd63:64:1::/64]
	// {"mac":"02:00:00:00:00:01","vni":1,"port":8472}
}

// follow returns a function that waits for members.
func follow(t *testing.T, source overlay.Source) (await func(what string, ok func(all []overlay.Member) bool)) {
	ctx, cancel := context.WithCancel(context.Background())
	seen := make(chan []overlay.Member, 100) // more than there are changes
	done := make(chan error, 1)
	go func() { done <- source.Follow(ctx, func(all []overlay.Member) { seen <- all }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return func(what string, ok func(all []overlay.Member) bool) {
		t.Helper()
		var last []overlay.Member
		for {
			select {
			case last = <-seen:
				if ok(last) {
					return
				}
			case <-time.After(time.Minute):
				t.Fatalf("no sign of %s within a minute, the last members are %+v", what, last)
			}
		}
	}
}

func TestFollow(t *testing.T) {
	cache := &server{Map: localcache.NewMap(node(1), node(2))}
	nodes, err := overlays.New(overlays.Config{Node: "n1", Nodes: cache, Writer: cache})
	if err != nil {
		t.Fatal(err)
	}
	await := follow(t, nodes)
	await("the older first", func(all []overlay.Member) bool { return len(all) == 2 && all[0].Name == "n2" })
	local, err := nodes.Local(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	local.Backend, local.Address = overlay.HostGW, netip.MustParseAddr("10.63.0.77")
	if err := nodes.Publish(t.Context(), local); err != nil {
		t.Fatal(err)
	}
	published := func(all []overlay.Member) bool { return len(all) == 2 && reflect.DeepEqual(all[1], local) }
	await("the published", published)
	if err := nodes.Publish(t.Context(), local); err != nil || cache.patches != 1 {
		t.Errorf("%d patches, %v", cache.patches, err)
	}
	cache.Put(node(1)) // without annotations
	await("the restored", published)
	cache.Delete("n2")
	await("the leaver", func(all []overlay.Member) bool { return len(all) == 1 })
	if err := nodes.Publish(t.Context(), overlay.Member{Name: "n2"}); err == nil {
		t.Error("another node is published")
	}
}

// TestLocalWaits checks that Local waits for podCIDRs.
func TestLocalWaits(t *testing.T) {
	fresh := node(1)
	fresh.Spec.PodCIDRs = nil
	cache := &server{Map: localcache.NewMap(fresh)}
	nodes, err := overlays.New(overlays.Config{Node: "n1", Nodes: cache, Writer: cache})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := nodes.Local(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Local: %v", err)
	}
	found := make(chan overlay.Member, 1)
	go func() {
		m, err := nodes.Local(t.Context())
		if err != nil {
			t.Error(err)
		}
		found <- m
	}()
	older := node(1)
	older.Spec.PodCIDRs, older.Spec.PodCIDR = nil, "10.64.9.0/24"
	cache.Put(older)
	if m := <-found; len(m.Subnets) != 1 || m.Subnets[0].String() != "10.64.9.0/24" {
		t.Errorf("Local: %+v", m)
	}
}

// TestHostileNodes checks that what a node writes about itself is refused by name, and never takes a
// range of another member.
func TestHostileNodes(t *testing.T) {
	annotate := func(key, value string) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Annotations = map[string]string{overlays.BackendAnnotation: "vxlan", key: value}
		}
	}
	for name, test := range map[string]struct {
		change func(n *corev1.Node)
		want   string
	}{
		"garbage":           {annotate(overlays.DataAnnotation, "\x00\xff"), "backend-data"},
		"a list":            {annotate(overlays.DataAnnotation, "[1]"), "not a JSON object"},
		"a number":          {annotate(overlays.DataAnnotation, `{"mac":7}`), "mac"},
		"a command":         {annotate(overlays.DataAnnotation, `{"mac":"$(reboot)"}`), "no hardware address"},
		"another field":     {annotate(overlays.DataAnnotation, `{"subnets":["10.64.2.0/24"]}`), `unknown field "subnets"`},
		"huge":              {annotate(overlays.DataAnnotation, `{"mac":"`+strings.Repeat("0", 1<<18)+`"}`), "bytes, more than 512"},
		"a group":           {annotate(overlays.DataAnnotation, `{"mac":"ff:ff:ff:ff:ff:ff"}`), "group address"},
		"huge backend":      {annotate(overlays.BackendAnnotation, strings.Repeat("x", 1<<18)), "bytes, more than 32"},
		"empty backend":     {annotate(overlays.BackendAnnotation, ""), "missing or empty"},
		"no address":        {annotate(overlays.AddressesAnnotation, "; ip link del eth0"), "is no address"},
		"huge addresses":    {annotate(overlays.AddressesAnnotation, strings.Repeat("10.0.0.1,", 1<<15)), "bytes, more than 100"},
		"two addresses":     {annotate(overlays.AddressesAnnotation, "10.0.0.1,10.0.0.2"), "two addresses of one family"},
		"podCIDRs":          {func(n *corev1.Node) { n.Spec.PodCIDRs = []string{"10.64.2.7/24"} }, "spec.podCIDRs[0]"},
		"many podCIDRs":     {func(n *corev1.Node) { n.Spec.PodCIDRs = make([]string, 3) }, "3 ranges"},
		"InternalIP":        {func(n *corev1.Node) { n.Status.Addresses[1].Address = "localhost" }, "status.addresses[1]"},
		"loopback":          {annotate(overlays.AddressesAnnotation, "127.0.0.1"), "is special"},
		"multicast":         {annotate(overlays.AddressesAnnotation, "224.0.0.5"), "is special"},
		"range of another":  {func(n *corev1.Node) { n.Spec.PodCIDRs = []string{"10.64.1.0/25"} }, "overlaps one of n1"},
		"everything":        {func(n *corev1.Node) { n.Spec.PodCIDRs = []string{"0.0.0.0/0"} }, "special range"},
		"address of a host": {annotate(overlays.AddressesAnnotation, "10.64.1.9"), "in a subnet of n1"},
	} {
		hostile := node(200)
		test.change(hostile)
		refused, good := refusal(t, hostile)
		if refused == nil || !strings.Contains(refused.Error(), test.want) || len(refused.Error()) > 300 {
			t.Errorf("%s: refused with %v", name, refused)
		}
		if good != nil {
			t.Errorf("%s: the honest node is refused: %v", name, good)
		}
	}
}

// refusal returns why the overlay of n3 refuses a node that came after n1, and n1. The overlay's machine
// has no network, so it is asked to admit members without a change of the kernel.
func refusal(t *testing.T, hostile *corev1.Node) (err, honest error) {
	t.Helper()
	hostile.CreationTimestamp = metav1.Unix(5000, 0)
	n1 := node(1)
	cache := &server{Map: localcache.NewMap(n1, hostile, node(3))}
	nodes, err := overlays.New(overlays.Config{Node: "n3", Nodes: cache, Writer: cache})
	if err != nil {
		t.Fatal(err)
	}
	var members []overlay.Member
	follow(t, nodes)("all", func(all []overlay.Member) bool { members = all; return len(all) == 3 })
	local, err := nodes.Local(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	refused, err := overlay.Check(overlay.Config{Backend: overlay.HostGW, Local: local, Members: nodes}, members)
	if err != nil {
		t.Fatal(err)
	}
	return refused[hostile.Name], refused[n1.Name]
}

// FuzzAnnotations checks that no annotation makes the source fail, and that what it accepts is valid.
func FuzzAnnotations(f *testing.F) {
	f.Add("vxlan", `{"mac":"02:00:00:00:00:01","vni":1,"port":8472}`, "10.63.0.1,fd63::1")
	f.Add("", "{}", "")
	f.Add("udp", `{"port":99999}`, ",")
	f.Fuzz(func(t *testing.T, backend, data, addresses string) {
		n := node(2)
		n.Annotations = map[string]string{overlays.BackendAnnotation: backend, overlays.DataAnnotation: data, overlays.AddressesAnnotation: addresses}
		cache := &server{Map: localcache.NewMap(n)}
		nodes, err := overlays.New(overlays.Config{Node: "n1", Nodes: cache, Writer: cache})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		err = nodes.Follow(ctx, func(all []overlay.Member) {
			cancel()
			m := all[0]
			if m.Invalid != nil {
				if len(m.Invalid.Error()) > 2000 || len(m.Subnets) > 0 {
					t.Errorf("the invalid member is %+v, want an error of at most 2000 bytes and no subnets", m)
				}
				return
			}
			if !slices.Equal(m.Subnets, []netip.Prefix{netip.MustParsePrefix("10.64.2.0/24"), netip.MustParsePrefix("fd63:64:2::/64")}) || m.Backend != backend {
				t.Errorf("the member is %+v, want the subnets 10.64.2.0/24 and fd63:64:2::/64, and the backend %q", m, backend)
			}
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// TestLeasesInStore joins leases with a store.
func TestLeasesInStore(t *testing.T) {
	store := memstore.New()
	ranges := []leases.Range{{Network: netip.MustParsePrefix("10.64.0.0/16"), Bits: 24}}
	acquire := func(name string) (*leases.Leases, []netip.Prefix) {
		l, err := leases.New(leases.Config{Store: overlays.LeaseStore(store), Name: name, Ranges: ranges})
		if err != nil {
			t.Fatal(err)
		}
		subnets, err := l.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return l, subnets
	}
	a, subnets := acquire("a")
	if _, again := acquire("a"); !slices.Equal(again, subnets) {
		t.Errorf("after a restart: %v, want %v", again, subnets)
	}
	b, other := acquire("b")
	if slices.Equal(other, subnets) {
		t.Errorf("%v is leased twice", other)
	}
	await := follow(t, b)
	await("both", func(all []overlay.Member) bool { return len(all) == 2 })
	// Another process of the same name has renewed the lease meanwhile.
	if err := a.Publish(t.Context(), overlay.Member{Name: "a", Subnets: subnets, Backend: overlay.UDP}); err != nil {
		t.Fatal(err)
	}
	await("the backend", func(all []overlay.Member) bool {
		return slices.ContainsFunc(all, func(m overlay.Member) bool { return m.Name == "a" && m.Backend == overlay.UDP })
	})
	if err := a.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	await("the leaver", func(all []overlay.Member) bool { return len(all) == 1 })
}
