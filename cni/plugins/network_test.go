//go:build linux

package plugins_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/planekit/planekit/cni"
	"github.com/planekit/planekit/cni/chain"
	"github.com/vishvananda/netlink"
)

func (h *host) network(n int, masquerade bool) chain.Network {
	return chain.Network{
		Bridge:       fmt.Sprintf("pk%d", n),
		PodCIDRs:     []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("10.244.%d.0/24", n))},
		ClusterCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")},
		Masquerade:   masquerade,
		DataDir:      filepath.Join(h.bin, "..", fmt.Sprintf("node%d", n)),
	}
}

func (h *host) conf(n chain.Network) *cni.List {
	h.Helper()
	dir := h.TempDir()
	if err := n.Write(dir); err != nil {
		h.Fatal(err)
	}
	l, err := cni.LoadDir(dir)
	if err != nil {
		h.Fatal(err)
	}
	return l
}

func TestPodsReachEachOther(t *testing.T) {
	onHost(t, func(h *host) {
		i := h.invoker()
		one, two := h.conf(h.network(1, true)), h.conf(h.network(2, true))
		a, b, c := h.pod(i, one, "a"), h.pod(i, one, "b"), h.pod(i, two, "c")
		for _, p := range []*pod{a, b, c} {
			h.serve(p, "tcp", "80")
		}
		if !a.ip.Equal(net.IPv4(10, 244, 1, 2)) || !b.ip.Equal(net.IPv4(10, 244, 1, 3)) || !c.ip.Equal(net.IPv4(10, 244, 2, 2)) {
			t.Errorf("addresses %v %v %v", a.ip, b.ip, c.ip)
		}
		// Traffic within the cluster is not masqueraded.
		h.reach(a, b.ip, a.ip.String())
		h.reach(b, a.ip, b.ip.String())
		h.reach(a, c.ip, a.ip.String())
		h.reach(c, b.ip, c.ip.String())
		h.reach(a, a.ip, a.ip.String())
		for _, p := range []*pod{a, b, c} {
			if err := i.Check(t.Context(), one, p.runtime); p != c && err != nil {
				t.Error(err)
			}
		}
		if err := i.Status(t.Context(), one); err != nil {
			t.Error(err)
		}
		ifs := a.result.Interfaces
		if len(ifs) != 3 || ifs[0].Name != "pk1" || !strings.HasPrefix(ifs[1].Name, "veth") || ifs[2].Sandbox != a.runtime.NetNS {
			t.Errorf("interfaces %+v", ifs)
		}
	})
}

func TestMasqueradeOutsideTheCluster(t *testing.T) {
	onHost(t, func(h *host) {
		i := h.invoker()
		// A pod of a network outside the cluster range plays the world. It has no
		// route back to the pods, so an answer proves the masquerade.
		world := h.network(9, false)
		world.PodCIDRs = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
		w := h.pod(i, h.conf(world), "world")
		h.serve(w, "tcp", "80")
		l := h.conf(h.network(1, true))
		a := h.pod(i, l, "a")
		b := h.pod(i, l, "b")
		h.reach(a, w.ip, "192.0.2.1")
		if rules := h.rules(); len(rules) != 1 {
			t.Errorf("rules %q, want one for all pods", rules)
		}
		for n, p := range []*pod{a, b} {
			if err := i.Del(t.Context(), l, p.runtime); err != nil {
				t.Fatal(err)
			}
			if rules := h.rules(); len(rules) != 1-n {
				t.Errorf("%d pods are left and rules are %q", 1-n, rules)
			}
		}
	})
}

func TestHostThatForwardsNothing(t *testing.T) {
	onHost(t, func(h *host) {
		h.run("iptables", "-P", "FORWARD", "DROP")
		i := h.invoker()
		one, two, three := h.network(1, true), h.network(2, true), h.network(3, false)
		a, c, d := h.pod(i, h.conf(one), "a"), h.pod(i, h.conf(two), "c"), h.pod(i, h.conf(three), "d")
		h.serve(c, "tcp", "80")
		h.reach(a, c.ip, a.ip.String())
		h.reach(d, c.ip, d.ip.String())
		if rules := h.rules(); len(rules) != 8 { // to accept 2 each, and 2 to masquerade
			t.Errorf("rules %q", rules)
		}
		if err := i.Del(t.Context(), h.conf(three), d.runtime); err != nil {
			t.Fatal(err)
		}
		if rules := h.rules(); len(rules) != 6 {
			t.Errorf("rules without the third network %q", rules)
		}
		if err := three.Remove(t.Context()); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := errors.Join(one.Remove(t.Context()), two.Remove(t.Context())); err != nil {
				t.Fatal(err)
			}
		}
		if rules, links := h.rules(), h.links("bridge"); len(rules)+len(links)+len(h.links("veth")) > 0 {
			t.Errorf("left behind: %q %q %q", rules, links, h.links("veth"))
		}
		if _, err := os.Stat(one.DataDir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("data directory: %v", err)
		}
	})
}

func TestDualStack(t *testing.T) {
	onHost(t, func(h *host) {
		i := h.invoker()
		n := h.network(1, true)
		n.PodCIDRs = append(n.PodCIDRs, netip.MustParsePrefix("fd00:1::/64"))
		n.ClusterCIDRs = append(n.ClusterCIDRs, netip.MustParsePrefix("fd00::/16"))
		l := h.conf(n)
		a, b := h.pod(i, l, "a"), h.pod(i, l, "b")
		h.serve(b, "tcp", "80")
		if len(b.result.IPs) != 2 {
			t.Fatalf("addresses %+v", b.result.IPs)
		}
		h.reach(a, b.ip, a.ip.String())
		h.reach(a, b.result.IPs[1].Address.Addr().AsSlice(), a.result.IPs[1].Address.Addr().String())
		if err := i.Check(t.Context(), l, a.runtime); err != nil {
			t.Error(err)
		}
	})
}

func TestDelOfWhatIsHalfGone(t *testing.T) {
	onHost(t, func(h *host) {
		i := h.invoker()
		n := h.network(1, false)
		l := h.conf(n)
		a, b := h.pod(i, l, "a"), h.pod(i, l, "b")
		deleteNamespace(filepath.Base(a.runtime.NetNS))
		for range 2 {
			if err := i.Del(t.Context(), l, a.runtime); err != nil {
				t.Error(err)
			}
		}
		h.run("nsenter", "--net="+b.runtime.NetNS, "ip", "link", "del", "eth0")
		if err := i.Check(t.Context(), l, b.runtime); err == nil {
			t.Error("check found nothing missing")
		}
		b.runtime.NetNS = ""
		if err := i.Del(t.Context(), l, b.runtime); err != nil {
			t.Error(err)
		}
		left, err := filepath.Glob(filepath.Join(n.DataDir, "networks", "planekit", "10.*"))
		if err != nil || len(left) > 0 {
			t.Errorf("addresses left: %v %v", left, err)
		}
	})
}

// TestLeftoversOfAReboot: after a reboot, only files are left of the containers. GC removes them, and the
// addresses are given again.
func TestLeftoversOfAReboot(t *testing.T) {
	onHost(t, func(h *host) {
		n := h.network(1, true)
		l := h.conf(n)
		for _, name := range []string{"a", "b"} {
			deleteNamespace(filepath.Base(h.pod(h.invoker(), l, name).runtime.NetNS))
		}
		h.run("ip", "link", "del", "pk1")
		h.run("iptables", "-t", "nat", "-F")
		if err := h.invoker().GC(t.Context(), l, nil); err != nil {
			t.Error(err)
		}
		for _, pattern := range []string{
			filepath.Join(n.DataDir, "networks", "planekit", "10.*"),
			filepath.Join(n.DataDir, "results", "*", "*"), filepath.Join(h.bin, "..", "outer", "results", "planekit", "*"),
		} {
			if left, err := filepath.Glob(pattern); err != nil || len(left) > 0 {
				t.Errorf("left: %v %v", left, err)
			}
		}
		h.pod(h.invoker(), l, "c")
	})
}

func TestCheckSeesALostAddress(t *testing.T) {
	onHost(t, func(h *host) {
		i := h.invoker()
		l := h.conf(h.network(1, false))
		a, b := h.pod(i, l, "a"), h.pod(i, l, "b")
		h.run("nsenter", "--net="+a.runtime.NetNS, "ip", "addr", "flush", "dev", "eth0")
		h.run("nsenter", "--net="+b.runtime.NetNS, "ip", "route", "del", "default")
		if err := i.Check(t.Context(), l, a.runtime); err == nil || !strings.Contains(err.Error(), "lost its address") {
			t.Errorf("error %v", err)
		}
		if err := i.Check(t.Context(), l, b.runtime); err == nil || !strings.Contains(err.Error(), "route to 0.0.0.0/0 is lost") {
			t.Errorf("error %v", err)
		}
	})
}

// TestPromiscuousMode: the bridge is in it, CHECK sees when it is not, and hairpin mode excludes it.
func TestPromiscuousMode(t *testing.T) {
	onHost(t, func(h *host) {
		i := h.invoker()
		conf := func(more string) *cni.List {
			return h.list(fmt.Appendf(nil, `{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"bridge","bridge":"pk1","promiscMode":true,"mtu":1400,"lockDir":%[1]q,
				"ipam":{"type":"host-local","subnet":"10.88.0.0/24","dataDir":%[1]q}%[2]s}]}`, filepath.Join(h.bin, "..", "promiscuous"), more))
		}
		a, b := h.pod(i, conf(""), "a"), h.pod(i, conf(""), "b")
		h.serve(b, "tcp", "80")
		h.reach(a, b.ip, a.ip.String())
		if err := i.Check(t.Context(), conf(""), a.runtime); err != nil {
			t.Error(err)
		}
		if mtu := a.result.Interfaces[2].MTU; mtu != 0 && mtu != 1400 {
			t.Errorf("MTU %d", mtu)
		}
		br, err := netlink.LinkByName("pk1")
		if err != nil {
			t.Fatal(err)
		}
		if br.Attrs().Promisc != 1 || br.Attrs().MTU != 1400 {
			t.Errorf("promiscuous %d, MTU %d", br.Attrs().Promisc, br.Attrs().MTU)
		}
		if err := netlink.SetPromiscOff(br); err != nil {
			t.Fatal(err)
		}
		if err := i.Check(t.Context(), conf(""), a.runtime); err == nil || !strings.Contains(err.Error(), "pk1 is not in promiscuous mode") {
			t.Errorf("check: %v", err)
		}
		r := cni.RuntimeConfig{ContainerID: "c", NetNS: h.namespace(), IfName: "eth0"}
		if _, err := i.Add(t.Context(), conf(`,"hairpinMode":true`), r); err == nil || !strings.Contains(err.Error(), "exclude each other (code 7)") {
			t.Errorf("with hairpin mode: %v", err)
		}
	})
}

func TestSecondAddIsRefused(t *testing.T) {
	onHost(t, func(h *host) {
		l := h.conf(h.network(1, false))
		a := h.pod(h.invoker(), l, "a")
		// Another runtime, which knows nothing of the first one's records.
		other, err := cni.New(cni.Config{Path: []string{h.bin}, Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		a.runtime.NetNS = h.namespace()
		if _, err := other.Add(t.Context(), l, a.runtime); err == nil || !strings.Contains(err.Error(), "attachment exists") {
			t.Errorf("error %v", err)
		}
	})
}

func TestFailedAddLeavesNothing(t *testing.T) {
	onHost(t, func(h *host) {
		n := h.network(1, true)
		conf, err := n.ConfList()
		if err != nil {
			t.Fatal(err)
		}
		broken := strings.Replace(string(conf), `"delegates": [`, `"delegates": [{"type":"loopback"},`, 1)
		broken = strings.Replace(broken, `"delegates": [{"type":"loopback"},`, `"delegates": [{"type":"loopback"},{"type":"bridge","bridge":"lo"},`, 1)
		r := cni.RuntimeConfig{ContainerID: "a", NetNS: h.namespace(), IfName: "eth0"}
		_, err = h.invoker().Add(t.Context(), h.list([]byte(broken)), r)
		if err == nil || !strings.Contains(err.Error(), "not a bridge") {
			t.Errorf("error %v", err)
		}
		if len(h.links("veth"))+len(h.links("bridge"))+len(h.rules()) > 0 {
			t.Errorf("left behind: %q %q %q", h.links("veth"), h.links("bridge"), h.rules())
		}
	})
}

func TestManyPodsAtOnce(t *testing.T) {
	onHost(t, func(h *host) {
		n := h.network(1, true)
		l, i := h.conf(n), h.invoker()
		var mu sync.Mutex
		seen := make(map[netip.Prefix]bool)
		var rs []cni.RuntimeConfig
		for n := range 12 {
			rs = append(rs, cni.RuntimeConfig{ContainerID: fmt.Sprint("pod", n), NetNS: h.namespace(), IfName: "eth0"})
		}
		self := fmt.Sprintf("/proc/self/task/%d/ns/net", thread())
		var wg sync.WaitGroup
		for _, r := range rs {
			wg.Go(func() {
				h.inside(self, func() error { // on the host that plays ours
					result, err := i.Add(context.Background(), l, r)
					if err != nil {
						return err
					}
					mu.Lock()
					defer mu.Unlock()
					if seen[result.IPs[0].Address] {
						return fmt.Errorf("address %v was given twice", result.IPs[0].Address)
					}
					seen[result.IPs[0].Address] = true
					return nil
				})
			})
		}
		wg.Wait()
		if len(seen) != len(rs) || len(h.rules()) != 1 || !slices.Equal(h.links("bridge"), []string{"pk1"}) {
			t.Errorf("%d pods, rules %q, bridges %q", len(seen), h.rules(), h.links("bridge"))
		}
		if err := i.GC(t.Context(), l, []cni.Attachment{{ContainerID: "pod0", IfName: "eth0"}}); err != nil {
			t.Fatal(err)
		}
		left, err := filepath.Glob(filepath.Join(n.DataDir, "networks", "planekit", "10.*"))
		if err != nil || len(left) != 1 || len(h.links("veth")) != 1 {
			t.Errorf("after gc: addresses %v, interfaces %q, %v", left, h.links("veth"), err)
		}
	})
}

func TestLoopback(t *testing.T) {
	onHost(t, func(h *host) {
		r := cni.RuntimeConfig{ContainerID: "a", NetNS: h.namespace()}
		if result := h.loopback(r); len(result.IPs) == 0 || result.IPs[0].Address != netip.MustParsePrefix("127.0.0.1/8") {
			t.Errorf("loopback = %+v, want the address 127.0.0.1/8 first", result)
		}
		h.inside(r.NetNS, func() error {
			lo, err := netlink.LinkByName("lo")
			if err == nil && lo.Attrs().Flags&net.FlagUp == 0 {
				err = errors.New("lo is down")
			}
			return err
		})
	})
}

// The plugins which Debian ships, driven by our invoker, alone and mixed with
// ours.
func TestReferencePlugins(t *testing.T) {
	const dir = "/usr/lib/cni"
	if _, err := os.Stat(filepath.Join(dir, "bridge")); err != nil {
		t.Skip("no reference plugins on this machine")
	}
	onHost(t, func(h *host) {
		data := t.TempDir()
		conf := func(bridge, ipam string) *cni.List {
			return h.list(fmt.Appendf(nil, `{"cniVersion":"1.0.0","name":"ref","plugins":[
				{"type":%q,"bridge":"ref0","isDefaultGateway":true,"hairpinMode":true,
				 "ipam":{"type":%q,"ranges":[[{"subnet":"10.88.0.0/24"}]],"dataDir":%q}},
				{"type":"portmap","capabilities":{"portMappings":true},"snat":true},
				{"type":"tuning","sysctl":{"net.core.somaxconn":"500"}}]}`, bridge, ipam, data))
		}
		reference, err := cni.New(cni.Config{Path: []string{dir}, Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		theirs, mixed := conf("bridge", "host-local"), conf("bridge", "host-local")
		a := h.pod(reference, theirs, "theirs")
		h.serve(a, "tcp", "80")
		ours := h.invoker(dir) // our bridge and host-local on the same bridge and addresses
		b := h.pod(ours, mixed, "ours")
		h.reach(b, a.ip, b.ip.String())
		for _, test := range []struct {
			i *cni.Invoker
			p *pod
		}{{reference, a}, {ours, b}} {
			if err := test.i.Check(t.Context(), theirs, test.p.runtime); err != nil {
				t.Error(err)
			}
			if err := test.i.Del(t.Context(), theirs, test.p.runtime); err != nil {
				t.Error(err)
			}
		}
		versions, err := reference.Version(t.Context(), "bridge")
		if err != nil || !slices.Contains(versions, "1.0.0") {
			t.Errorf("versions %q %v", versions, err)
		}
	})
}
