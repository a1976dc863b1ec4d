//go:build linux

package overlay

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/planekit/planekit/cni/overlay"
	"github.com/planekit/planekit/cni/overlay/overlaytest"
)

const port = 8080

// TestHandMadeVXLAN joins one machine of ours and one made by hand, and compares ours with a third that
// is made by hand for the same peers.
func TestHandMadeVXLAN(t *testing.T) {
	lab := overlaytest.New(t, overlaytest.Config{Machines: 3})
	ours, peer, twin := lab.Machines[0], lab.Machines[1], lab.Machines[2]
	set := overlay.NewSet(overlay.Member{
		Name: peer.Name, Address: peer.Address, Address6: peer.Address6, Subnets: peer.Subnets, Backend: overlay.VXLAN,
		Data: overlay.Data{MAC: peer.HandMadeMAC(), VNI: 1, Port: 8472},
	})
	published := make(chan overlay.Member, 10) // more than there are changes
	o, err := overlay.New(overlay.Config{
		Local:    overlay.Member{Name: ours.Name, Subnets: ours.Subnets},
		Underlay: ours.Underlay, NetNS: ours.Path, Members: set,
		Publish: func(_ context.Context, m overlay.Member) error { published <- m; return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	lab.Start(ours, o)
	self := <-published
	for _, m := range []*overlaytest.Machine{peer, twin} {
		must(t, m.HandMadeVXLAN("pkvx.1", o.MTU()))
		must(t, m.SetPodMTU(o.MTU()))
	}
	must(t, peer.HandMadePeer("pkvx.1", ours, self.Data.MAC.String()))
	must(t, twin.HandMadePeer("pkvx.1", peer, overlay.MAC(peer.HandMadeMAC()).String()))
	lab.Machines = lab.Machines[:2]
	for _, m := range lab.Machines {
		m.Serve(lab, m.PodAddress, port)
		m.Serve(lab, m.PodAddress6, port)
	}
	for _, size := range []int{0, 300_000} {
		lab.Reachable(port, size, overlaytest.Pod4)
		lab.Reachable(port, size, overlaytest.Pod6)
	}
	must(t, ours.SendWhole(t.Context(), peer.PodAddress, port, o.MTU()))
	compareKernels(t, ours, twin)
	compareFrames(t, lab, ours, peer, self.Data.MAC)

	if _, err := ours.Command("ip", "link", "del", "pkvx.1"); err != nil {
		t.Fatal(err)
	}
	lab.Reachable(port, 1000, overlaytest.Pod4)
	compareKernels(t, ours, twin)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// compareKernels compares what iproute2 shows of two machines.
func compareKernels(t *testing.T, ours, twin *overlaytest.Machine) {
	t.Helper()
	for name, args := range map[string][]string{
		"device":     {"ip", "-j", "-d", "link", "show", "dev", "pkvx.1"},
		"fdb":        {"bridge", "-j", "fdb", "show", "dev", "pkvx.1"},
		"neighbours": {"ip", "-j", "-4", "neigh", "show", "dev", "pkvx.1", "nud", "permanent"},
		"routes":     {"ip", "-j", "-4", "route", "show", "dev", "pkvx.1"},
	} {
		a, b := shown(t, ours, args), shown(t, twin, args)
		if len(a) == 0 || !reflect.DeepEqual(a, b) {
			t.Errorf("%s:\n%v\nof the hand-made:\n%v", name, a, b)
		}
	}
}

// shown returns what a command shows, without what differs between any two machines.
func shown(t *testing.T, m *overlaytest.Machine, args []string) []map[string]any {
	t.Helper()
	out, err := m.Command(args[0], args[1:]...)
	must(t, err)
	var all []map[string]any
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatalf("json.Unmarshal of what %v prints: %v: %s", args, err, out)
	}
	for _, entry := range all {
		// The index, hardware address and link-local address are the machine's own; a route's protocol
		// says who made it.
		for _, key := range []string{"ifindex", "address", "protocol", "inet6_addr_gen_mode"} {
			delete(entry, key)
		}
		if info, ok := entry["linkinfo"].(map[string]any); ok {
			delete(info["info_data"].(map[string]any), "local")
		}
	}
	return all
}

// compareFrames looks at the underlay while both machines send, and checks the headers of their frames.
func compareFrames(t *testing.T, lab *overlaytest.Lab, ours, peer *overlaytest.Machine, mac overlay.MAC) {
	t.Helper()
	seen := map[netip.Addr]bool{}
	capture(t, lab, func(frame []byte) bool {
		src, vxlan, ok := encapsulated(frame)
		if !ok {
			return false
		}
		macs := map[netip.Addr][2]overlay.MAC{ours.Address: {peer.HandMadeMAC(), mac}, peer.Address: {mac, peer.HandMadeMAC()}}[src]
		if want := []byte{8, 0, 0, 0, 0, 0, 1, 0}; !bytes.Equal(vxlan[:8], want) {
			t.Errorf("from %v: VXLAN header %x, want %x", src, vxlan[:8], want)
		}
		if !bytes.Equal(vxlan[8:14], macs[0][:]) || !bytes.Equal(vxlan[14:20], macs[1][:]) {
			t.Errorf("from %v: frame to %x from %x, want %v", src, vxlan[8:14], vxlan[14:20], macs)
		}
		seen[src] = true
		return len(seen) == 2
	}, func() {
		if _, err := ours.Get(t.Context(), peer.PodAddress, port, 10); err != nil {
			t.Error(err)
		}
	})
}

// encapsulated returns the sender and the payload of a VXLAN datagram.
func encapsulated(frame []byte) (src netip.Addr, vxlan []byte, ok bool) {
	const udp = 14 + 20
	if len(frame) < udp+8+8+14+20 || binary.BigEndian.Uint16(frame[12:]) != 0x0800 || frame[14] != 0x45 || frame[14+9] != 17 {
		return src, nil, false
	}
	if binary.BigEndian.Uint16(frame[udp+2:]) != 8472 {
		return src, nil, false
	}
	return netip.AddrFrom4([4]byte(frame[26:30])), frame[udp+8:], true
}

// capture gives the frames of the underlay to a function until it returns true, while send runs.
func capture(t *testing.T, lab *overlaytest.Lab, enough func([]byte) bool, send func()) {
	t.Helper()
	all := uint16(syscall.ETH_P_ALL)<<8 | uint16(syscall.ETH_P_ALL)>>8
	var fd int
	must(t, lab.Router.Inside(func() (err error) {
		fd, err = syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, int(all))
		return err
	}))
	defer syscall.Close(fd)
	must(t, syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &syscall.Timeval{Sec: 1}))
	send()
	buffer := make([]byte, 1<<16)
	for deadline := time.Now().Add(overlaytest.Patience); time.Now().Before(deadline); {
		n, _, err := syscall.Recvfrom(fd, buffer, 0)
		if errors.Is(err, syscall.EAGAIN) {
			send()
			continue
		}
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		must(t, err)
		if enough(buffer[:n]) {
			return
		}
	}
	t.Error("the frames are not seen")
}

// TestNothingIsLearned checks what iproute2 shows after traffic: entries are permanent, and there are
// no others.
func TestNothingIsLearned(t *testing.T) {
	lab := overlaytest.New(t, overlaytest.Config{Machines: 2})
	set := overlay.NewSet()
	for _, m := range lab.Machines {
		o, err := overlay.New(overlay.Config{
			Local: overlay.Member{Name: m.Name, Subnets: m.Subnets}, Underlay: m.Underlay, NetNS: m.Path, Members: set, Publish: set.Put,
		})
		must(t, err)
		lab.Start(m, o)
		m.Serve(lab, m.PodAddress, port)
	}
	lab.Reachable(port, 100, overlaytest.Pod4)
	for _, m := range lab.Machines {
		out, err := m.Command("bridge", "fdb", "show", "dev", "pkvx.1")
		must(t, err)
		lines := slices.DeleteFunc(strings.Split(out, "\n"), func(s string) bool { return strings.TrimSpace(s) == "" })
		if len(lines) != 1 || !strings.Contains(lines[0], "self permanent") {
			t.Errorf("%s: FDB %q", m.Name, lines)
		}
		details, err := m.Command("ip", "-d", "link", "show", "pkvx.1")
		must(t, err)
		for _, want := range []string{"vxlan id 1 ", "dstport 8472", "nolearning", "mtu 1450"} {
			if !strings.Contains(details, want) {
				t.Errorf("%s: no %q in %s", m.Name, want, details)
			}
		}
	}
}
