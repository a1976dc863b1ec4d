package machine_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/cni"
	"github.com/planekit/planekit/cni/portmap"
	"github.com/planekit/planekit/examples/cluster/machine"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// inNamespace runs f in a network namespace of its own.
func inNamespace(t *testing.T, f func()) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("network namespaces need root")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with f
		namespace, err := netns.New()
		if err != nil {
			t.Error(err)
			return
		}
		defer namespace.Close()
		f()
	}()
	<-done
}

// addLink makes a link with an address.
func addLink(t *testing.T, l netlink.Link, address string) {
	t.Helper()
	if err := netlink.LinkAdd(l); err != nil {
		t.Error(err)
		return
	}
	parsed, err := netlink.ParseAddr(address)
	if err != nil {
		t.Error(err)
		return
	}
	if err := netlink.AddrAdd(l, parsed); err != nil {
		t.Error(err)
	}
	if err := netlink.LinkSetUp(l); err != nil {
		t.Error(err)
	}
}

func addBridge(t *testing.T, id, address string) {
	t.Helper()
	addLink(t, &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: machine.Bridge(id, 1)}}, address)
}

func hasLink(name string) bool {
	_, err := netlink.LinkByName(name)
	return err == nil
}

const (
	own     = "00000001"
	killed  = "00000002" // its data directory is there
	gone    = "00000003" // its data directory is not
	unknown = "00000004" // never recorded
	running = "00000005" // its record is held
	torn    = "00000006" // its record cannot be read
	bare    = "00000007" // has nothing left but the rules of a mapped port
)

func TestSweep(t *testing.T) {
	inNamespace(t, func() {
		dir, data := t.TempDir(), t.TempDir()
		if err := os.WriteFile(filepath.Join(data, "id"), []byte(killed+"\n"), 0o600); err != nil {
			t.Error(err)
		}
		for i, id := range []string{own, killed, gone, unknown, running, torn} {
			addBridge(t, id, netip.AddrFrom4([4]byte{10, byte(244 + i), 0, 1}).String()+"/24")
		}
		addLink(t, &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "other"}}, "10.254.0.1/24")
		for _, id := range []string{own, killed, gone, running, bare} {
			mapPort(t, machine.Bridge(id, 1))
		}
		mapPort(t, "other")
		// What a process that has ended had claimed is on disk, and not locked.
		earlier := open(t, dir)
		for id, of := range map[string]string{killed: data, gone: filepath.Join(data, "none")} {
			text := `{"dataDir":"` + of + `","podCIDR":"10.253.0.0/16"}`
			if err := os.WriteFile(filepath.Join(dir, "clusters", id), []byte(text), 0o600); err != nil {
				t.Error(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "clusters", torn), []byte(`{"dataD`), 0o600); err != nil {
			t.Error(err)
		}
		record := machine.Record{DataDir: filepath.Join(data, "elsewhere"), PodCIDR: netip.MustParsePrefix("10.248.0.0/16")}
		if err := earlier.Claim(running, record); err != nil {
			t.Error(err)
		}
		r := open(t, dir)
		swept, err := r.Sweep(t.Context(), own)
		if want := []string{gone, unknown, torn, bare}; err != nil || !slices.Equal(swept, want) {
			t.Errorf("swept %v, %v, want %v", swept, err, want)
		}
		for id, want := range map[string]bool{own: true, killed: true, gone: false, unknown: false, running: true, torn: false} {
			if hasLink(machine.Bridge(id, 1)) != want {
				t.Errorf("bridge of %s there: %v, want %v", id, !want, want)
			}
		}
		scopes, err := portmap.Scopes()
		if want := []string{"other", machine.Bridge(own, 1), machine.Bridge(killed, 1), machine.Bridge(running, 1)}; err != nil || !slices.Equal(scopes, want) {
			t.Errorf("mapped ports of %v, %v, want %v", scopes, err, want)
		}
		checkTaken(t, r, data)
	})
}

// mapPort maps a port of a pod whose network has the scope.
func mapPort(t *testing.T, scope string) {
	t.Helper()
	_, err := portmap.Plugin().Exec(t.Context(), cni.Call{
		Command: cni.CmdAdd, ContainerID: "c", NetNS: "/ns", IfName: "eth0",
		Stdin: fmt.Appendf(nil, `{"cniVersion":"1.0.0","name":"n","type":"portmap","scope":%q,"snat":false,"lockDir":%q,
			"runtimeConfig":{"portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"tcp"}]},
			"prevResult":{"cniVersion":"1.0.0","ips":[{"address":"10.9.9.9/24"}]}}`, scope, t.TempDir()),
	}, nil)
	if err != nil {
		t.Error(err)
	}
}

// checkTaken compares what Taken returns after TestSweep's sweep.
func checkTaken(t *testing.T, r *machine.Registry, data string) {
	t.Helper()
	taken, err := r.Taken(own)
	if err != nil {
		t.Error(err)
	}
	var by []string
	for _, other := range taken {
		by = append(by, other.By)
	}
	for _, want := range []string{
		"link other (address 10.254.0.1/24)",
		"link pk" + killed + "-1 of the cluster in " + data + " (address 10.245.0.1/24)",
		"link pk" + running + "-1 of the cluster in " + filepath.Join(data, "elsewhere") + " (address 10.248.0.1/24)",
		"the cluster in " + data,
		"link other (route to 10.254.0.0/24)",
	} {
		if !slices.Contains(by, want) {
			t.Errorf("%q is not among what is taken:\n%s", want, strings.Join(by, "\n"))
		}
	}
	if free := netip.MustParsePrefix("10.244.0.0/16"); machine.InTheWay(free, taken) != nil {
		t.Errorf("%s is in the way of its own cluster", machine.InTheWay(free, taken).By)
	}
	if freed := netip.MustParsePrefix("10.246.0.0/16"); machine.InTheWay(freed, taken) != nil {
		t.Errorf("%s is in the way of what was swept", machine.InTheWay(freed, taken).By)
	}
}
