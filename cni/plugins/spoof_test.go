//go:build linux

package plugins_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/planekit/planekit/cni"
	"github.com/planekit/planekit/cni/bridge"
)

// guards returns how many tables guard against spoofed hardware addresses.
func (h *host) guards() int { return len(h.tablesOfGuards()) }

func (h *host) tablesOfGuards() []*nftables.Table {
	h.Helper()
	tables, err := new(nftables.Conn).ListTablesOfFamily(nftables.TableFamilyNetdev)
	if err != nil {
		h.Fatal(err)
	}
	return tables
}

// TestSpoofedAddress: with macspoofchk, a pod that takes another hardware address is heard no more, and
// is heard again with its own. Without, it is heard with any.
func TestSpoofedAddress(t *testing.T) {
	onHost(t, func(h *host) {
		i, _ := h.invoker(), h.outside()
		conf := func(name string, guarded bool, subnet string) *cni.List {
			return h.list(fmt.Appendf(nil, `{"cniVersion":"1.1.0","name":%q,"plugins":[{"type":"bridge","bridge":%[1]q,"isDefaultGateway":true,"macspoofchk":%t,"lockDir":%[3]q,
				"ipam":{"type":"host-local","subnet":%[4]q,"dataDir":%[3]q}}]}`, name, guarded, filepath.Join(h.bin, "..", "spoof"), subnet))
		}
		list, open := conf("pk1", true, "10.88.0.0/24"), conf("pk2", false, "10.89.0.0/24")
		a, b, free := h.pod(i, list, "a"), h.pod(i, list, "b"), h.pod(i, open, "free")
		for _, p := range []*pod{a, b, free} {
			h.serveUDP(p, "53")
		}
		if h.guards() != 2 {
			t.Errorf("%d guards of 2 pods", h.guards())
		}
		hears := func(p *pod, wait time.Duration, want string) {
			t.Helper()
			if said := h.flow(here(), p.ip.String()+":53").ask(wait); said != want {
				t.Errorf("%s says %q, want %q", p.runtime.ContainerID, said, want)
			}
		}
		spoof := func(p *pod, mac string) {
			t.Helper()
			h.run("nsenter", "--net="+p.runtime.NetNS, "ip", "link", "set", "eth0", "address", mac)
			h.run("ip", "neigh", "flush", "all") // ask again who has the address
		}
		own := a.result.Interfaces[2].Mac
		hears(a, patience, "a")
		spoof(a, "02:00:00:00:00:07")
		spoof(free, "02:00:00:00:00:08")
		hears(a, 500*time.Millisecond, "")
		hears(free, patience, "free")
		hears(b, patience, "b")
		spoof(a, own)
		hears(a, patience, "a")

		if err := i.Check(t.Context(), list, a.runtime); err != nil {
			t.Error(err)
		}
		if err := i.Del(t.Context(), list, a.runtime); err != nil || h.guards() != 1 {
			t.Errorf("after the end of one of 2: %v, %d guards", err, h.guards())
		}
		c := new(nftables.Conn)
		for _, guard := range h.tablesOfGuards() {
			c.DelTable(guard)
		}
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
		if err := i.Check(t.Context(), list, b.runtime); err == nil || !strings.Contains(err.Error(), "is lost") {
			t.Errorf("check without the guard: %v", err)
		}
		h.pod(i, list, "d")
		// Another runtime's GC, which has no records of its own.
		fresh, err := cni.New(cni.Config{Path: []string{h.bin}, Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		for n, valid := range [][]cni.Attachment{{{ContainerID: "d", IfName: "eth0"}}, {}} {
			if err := fresh.GC(t.Context(), list, valid); err != nil || h.guards() != 1-n {
				t.Errorf("GC with %d valid: %v, %d guards", 1-n, err, h.guards())
			}
		}
		h.pod(i, list, "c")
		for _, name := range []string{"pk2", "pk1"} {
			want := map[string]int{"pk2": 1, "pk1": 0}[name]
			if err := bridge.Remove(t.Context(), name); err != nil || h.guards() != want {
				t.Errorf("remove %s: %v, %d guards, want %d", name, err, h.guards(), want)
			}
		}
	})
}
