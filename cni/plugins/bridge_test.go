//go:build linux

package plugins_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/cni"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// bridged returns a network of our bridge and host-local with more keys of the bridge. Each subnet has
// a bridge of its own.
func (h *host) bridged(bridge, subnet, more string) *cni.List {
	h.Helper()
	return h.list(fmt.Appendf(nil, `{"cniVersion":"1.1.0","name":%[1]q,"plugins":[{"type":"bridge","bridge":%[1]q,"isDefaultGateway":true,"lockDir":%[2]q,
		"ipam":{"type":"host-local","subnet":%[3]q,"dataDir":%[2]q}%[4]s}]}`, bridge, filepath.Join(h.bin, "..", "bridged"), subnet, more))
}

// reserved returns the addresses that a bridge's containers have on disk.
func (h *host) reserved(bridge string) []string {
	h.Helper()
	all, err := filepath.Glob(filepath.Join(h.bin, "..", "bridged", bridge, "*[.:]*[.:]*"))
	if err != nil {
		h.Fatal(err)
	}
	return all
}

// TestHardwareAddresses: a container gets the address that was asked for, by the precedence of the
// reference plugin.
func TestHardwareAddresses(t *testing.T) {
	onHost(t, func(h *host) {
		i := h.invoker()
		const args, conf, runtime = "02:00:00:00:00:01", "02:00:00:00:00:02", "02:00:00:00:00:03"
		for n, test := range []struct {
			more    string
			args    cni.Args
			runtime map[string]any
			want    string
		}{
			{`,"capabilities":{"mac":true}`, cni.Args{{Key: "MAC", Value: args}}, nil, args},
			{`,"capabilities":{"mac":true},"args":{"cni":{"mac":"` + conf + `"}}`, cni.Args{{Key: "MAC", Value: args}}, nil, conf},
			{`,"capabilities":{"mac":true},"args":{"cni":{"mac":"` + conf + `"}}`, nil, map[string]any{"mac": runtime}, runtime},
			{`,"args":{"cni":{"mac":"02:00"}}`, nil, nil, ""},
		} {
			r := cni.RuntimeConfig{ContainerID: fmt.Sprint("c", n), NetNS: h.namespace(), IfName: "eth0", Args: test.args, Capabilities: test.runtime}
			result, err := i.Add(t.Context(), h.bridged("pk62", "10.62.0.0/24", test.more), r)
			switch {
			case test.want == "":
				if err == nil || !strings.Contains(err.Error(), `mac "02:00" is not a hardware address (code 7)`) {
					t.Errorf("error %v", err)
				}
			case err != nil:
				t.Error(err)
			case result.Interfaces[2].Mac != test.want:
				t.Errorf("%d: %s, want %s", n, result.Interfaces[2].Mac, test.want)
			}
		}
	})
}

// TestIsolatedPorts: containers with isolated ports reach the gateway and others, not each other.
func TestIsolatedPorts(t *testing.T) {
	onHost(t, func(h *host) {
		i := h.invoker()
		isolated, plain := h.bridged("pk62", "10.62.0.0/24", `,"portIsolation":true`), h.bridged("pk62", "10.62.0.0/24", "")
		a, b, c := h.pod(i, isolated, "a"), h.pod(i, isolated, "b"), h.pod(i, plain, "c")
		for _, p := range []*pod{a, b, c} {
			h.serveUDP(p, "53")
		}
		hears := func(from, to *pod, wait time.Duration, want string) {
			t.Helper()
			if said := h.flow(from.runtime.NetNS, to.ip.String()+":53").ask(wait); said != want {
				t.Errorf("from %s to %s: %q, want %q", from.runtime.ContainerID, to.runtime.ContainerID, said, want)
			}
		}
		hears(a, c, patience, "c")
		hears(c, b, patience, "b")
		hears(a, b, 300*time.Millisecond, "")
	})
}

// TestForcedAddress: a bridge of an earlier subnet keeps its address, or loses it by force.
func TestForcedAddress(t *testing.T) {
	onHost(t, func(h *host) {
		i := h.invoker()
		h.run("ip", "link", "add", "pk62", "type", "bridge")
		h.run("ip", "address", "add", "10.62.9.1/24", "dev", "pk62")
		addresses := func() string {
			br, err := netlink.LinkByName("pk62")
			if err != nil {
				t.Fatal(err)
			}
			all, err := netlink.AddrList(br, unix.AF_INET)
			if err != nil {
				t.Fatal(err)
			}
			var texts []string
			for _, a := range all {
				texts = append(texts, a.IPNet.String())
			}
			slices.Sort(texts)
			return strings.Join(texts, " ")
		}
		h.pod(i, h.bridged("pk62", "10.62.0.0/24", ""), "a")
		if got := addresses(); got != "10.62.0.1/24 10.62.9.1/24" {
			t.Errorf("without force: %s", got)
		}
		h.pod(i, h.bridged("pk62", "10.62.0.0/24", `,"forceAddress":true`), "b")
		if got := addresses(); got != "10.62.0.1/24" {
			t.Errorf("with force: %s", got)
		}
	})
}

// TestDuplicateAddress: with enabledad, an IPv6 address that another has is found, and nothing is left.
func TestDuplicateAddress(t *testing.T) {
	onHost(t, func(h *host) {
		i := h.invoker()
		l := h.bridged("pk62", "fd62::/64", `,"enabledad":true`)
		a := h.pod(i, l, "a") // waits until the address is its own
		h.run("ip", "address", "add", "fd62::3/64", "dev", "pk62", "nodad")
		r := cni.RuntimeConfig{ContainerID: "b", NetNS: h.namespace(), IfName: "eth0"}
		if _, err := i.Add(t.Context(), l, r); err == nil || !strings.Contains(err.Error(), "fd62::3/64 is in use by another") {
			t.Errorf("error %v", err)
		}
		if left := h.reserved("pk62"); len(left) != 1 || len(h.links("veth")) != 1 {
			t.Errorf("left behind: %v %v", left, h.links("veth"))
		}
		if err := i.Check(t.Context(), l, a.runtime); err != nil {
			t.Error(err)
		}
	})
}

// TestInterfaceThatStaysDown: the container's end exists and is down.
func TestInterfaceThatStaysDown(t *testing.T) {
	onHost(t, func(h *host) {
		i := h.invoker()
		conf := func(more string) *cni.List {
			return h.list(fmt.Appendf(nil, `{"cniVersion":"1.1.0","name":"l2","type":"bridge","bridge":"pk62","lockDir":%q,"disableContainerInterface":true%s}`, h.TempDir(), more))
		}
		r := cni.RuntimeConfig{ContainerID: "a", NetNS: h.namespace(), IfName: "eth0"}
		if _, err := i.Add(t.Context(), conf(""), r); err != nil {
			t.Fatal(err)
		}
		h.inside(r.NetNS, func() error {
			link, err := netlink.LinkByName("eth0")
			if err == nil && link.Attrs().Flags&net.FlagUp != 0 {
				err = errors.New("eth0 is up")
			}
			return err
		})
		r.ContainerID = "b"
		if _, err := i.Add(t.Context(), conf(`,"ipam":{"type":"host-local"}`), r); err == nil || !strings.Contains(err.Error(), "exclude each other (code 7)") {
			t.Errorf("with ipam: %v", err)
		}
	})
}

// TestFieldsThatAreRefused: what the bridge cannot do is refused before anything is made.
func TestFieldsThatAreRefused(t *testing.T) {
	onHost(t, func(h *host) {
		for more, want := range map[string]string{
			`,"ipMasq":true,"ipMasqBackend":"nftables"`: `ipMasqBackend "nftables" is not supported`,
			`,"vlan":4095`:                         "vlan 4095 is not from 0 to 4094",
			`,"vlan":-1`:                           "vlan -1 is not from 0 to 4094",
			`,"vlanTrunk":[{"minID":5}]`:           "vlanTrunk[0]: minID and maxID need each other",
			`,"vlanTrunk":[{"id":7},{}]`:           "vlanTrunk[1]: no id",
			`,"vlanTrunk":[{"id":0}]`:              "vlanTrunk[0]: 0 is not from 1 to 4094",
			`,"vlanTrunk":[{"minID":9,"maxID":8}]`: "vlanTrunk[0]: minID 9 is greater than maxID 8",
			`,"mtu":-1`:                            "mtu -1 is negative",
			`,"bridge":"a-very-long-name"`:         "longer than 15 bytes",
			`,"bridge":"eleven-byte","vlan":4094,"isGateway":true`: "the gateway of vlan 4094: invalid interface name",
		} {
			r := cni.RuntimeConfig{ContainerID: "a", NetNS: h.namespace(), IfName: "eth0"}
			i, err := cni.New(cni.Config{Path: []string{h.bin}, Dir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := i.Add(t.Context(), h.bridged("pk62", "10.62.0.0/24", more), r); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", more, err, want)
			}
		}
		if left := h.links("bridge"); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
}

// TestVLANs: containers of one VLAN reach each other and their gateway, not those of another. A kernel
// that cannot separate VLANs says so, and nothing is left.
func TestVLANs(t *testing.T) {
	onHost(t, func(h *host) {
		i := h.invoker()
		ten, eleven := h.bridged("pk62", "10.62.0.0/24", `,"vlan":10`), h.bridged("pk62", "10.62.0.0/24", `,"vlan":11,"isDefaultGateway":false`)
		r := cni.RuntimeConfig{ContainerID: "probe", NetNS: h.namespace(), IfName: "eth0"}
		if _, err := i.Add(t.Context(), ten, r); err != nil {
			if !strings.Contains(err.Error(), "vlan 10 of veth") && !strings.Contains(err.Error(), "VLANs") || !strings.Contains(err.Error(), "operation not supported") {
				t.Errorf("error %v", err)
			}
			if left := h.reserved("pk62"); len(left)+len(h.links("veth")) > 0 {
				t.Errorf("left behind: %v %v", left, h.links("veth"))
			}
			return
		}
		a, b, c := h.pod(i, ten, "a"), h.pod(i, ten, "b"), h.pod(i, eleven, "c")
		for _, p := range []*pod{a, b, c} {
			h.serveUDP(p, "53")
		}
		for _, test := range []struct {
			from string
			to   *pod
			wait time.Duration
			want string
		}{
			{a.runtime.NetNS, b, patience, "b"}, {here(), a, patience, "a"}, {a.runtime.NetNS, c, 300 * time.Millisecond, ""}, {here(), c, 300 * time.Millisecond, ""},
		} {
			if said := h.flow(test.from, test.to.ip.String()+":53").ask(test.wait); said != test.want {
				t.Errorf("from %s to %s: %q, want %q", test.from, test.to.runtime.ContainerID, said, test.want)
			}
		}
		if err := i.Check(t.Context(), ten, a.runtime); err != nil {
			t.Error(err)
		}
		if len(a.result.Interfaces) != 4 || a.result.Interfaces[3].Name != "pk62.10" {
			t.Errorf("interfaces %+v", a.result.Interfaces)
		}
		for _, p := range []*pod{{runtime: r}, a, b} {
			if err := i.Del(t.Context(), ten, p.runtime); err != nil {
				t.Error(err)
			}
		}
		if err := i.Del(t.Context(), eleven, c.runtime); err != nil || len(h.links("veth")) > 0 {
			t.Errorf("after the last: %v, %v", err, h.links("veth"))
		}
	})
}

// TestDNSReachesResolvConf: a resolver's file of the host goes through host-local, bridge, portmap and
// planekit-cni to the container's file; what the bridge's configuration says comes first.
func TestDNSReachesResolvConf(t *testing.T) {
	onHost(t, func(h *host) {
		i, dir := h.invoker(), h.TempDir()
		host := filepath.Join(dir, "host.conf")
		if err := os.WriteFile(host, []byte("nameserver 10.96.0.10\nsearch default.svc.cluster.local svc.cluster.local\noptions ndots:5\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for n, test := range []struct{ dns, want string }{
			{"", "nameserver 10.96.0.10\nsearch default.svc.cluster.local svc.cluster.local\noptions ndots:5\n"},
			{`,"dns":{"nameservers":["1.1.1.1"],"search":["own"]}`, "nameserver 1.1.1.1\nsearch own\n"},
		} {
			l := h.list(fmt.Appendf(nil, `{"cniVersion":"1.1.0","name":"dns","plugins":[{"type":"planekit-cni","dir":%[1]q,"delegates":[
				{"type":"bridge","bridge":"pk62","isGateway":true,"lockDir":%[1]q%[2]s,
				 "ipam":{"type":"host-local","subnet":"10.62.0.0/24","dataDir":%[1]q,"resolvConf":%[3]q}},
				{"type":"portmap","lockDir":%[1]q}]}]}`, dir, test.dns, host))
			p := h.pod(i, l, fmt.Sprint("c", n))
			if got := string(p.result.DNS.ResolvConf()); got != test.want {
				t.Errorf("%s: %q, want %q", test.dns, got, test.want)
			}
		}
	})
}

// TestAddressIsFreeAfterAFailedAdd: any runtime, even one without DEL, gets the address again.
func TestAddressIsFreeAfterAFailedAdd(t *testing.T) {
	onHost(t, func(h *host) {
		l := h.bridged("pk62", "10.62.0.0/24", `,"macspoofchk":true`)
		ns := h.namespace()
		h.run("nsenter", "--net="+ns, "ip", "link", "add", "eth0", "type", "bridge")
		i, err := cni.New(cni.Config{Dir: t.TempDir(), Path: []string{h.bin}, Executor: cni.ExecutorFunc(func(ctx context.Context, c cni.Call) ([]byte, error) {
			if c.Command == cni.CmdDel {
				return nil, nil
			}
			return cni.Processes{}.Exec(ctx, c)
		})})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := i.Add(t.Context(), l, cni.RuntimeConfig{ContainerID: "a", NetNS: ns, IfName: "eth0"}); err == nil || !strings.Contains(err.Error(), "interface eth0 exists") {
			t.Errorf("error %v", err)
		}
		if left := h.reserved("pk62"); len(left)+len(h.links("veth"))+h.guards() > 0 {
			t.Errorf("left behind: %v %v", left, h.links("veth"))
		}
		h.run("nsenter", "--net="+ns, "ip", "link", "show", "eth0") // not ours: still there
	})
}
