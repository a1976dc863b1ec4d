//go:build linux

package plugins_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/cni"
	"github.com/planekit/planekit/cni/portmap"
	"golang.org/x/sys/unix"
)

// TestHostPorts: a mapped port answers from everywhere, and the server sees the
// client where the reply comes back without the host's address.
func TestHostPorts(t *testing.T) {
	onHost(t, func(h *host) {
		i, world := h.invoker(), h.outside()
		l := h.mapped("")
		a := h.mappedPod(i, l, "a", "tcp 8080 80", "udp 5353 53", "tcp 8081 80 192.0.2.1", "tcp 8082 80 127.0.0.1", "tcp 8083 80 ::", "sctp 8084 80")
		b := h.mappedPod(i, l, "b")
		h.serve(a, "tcp", "80")
		h.serve(b, "tcp", "80")
		h.serveUDP(a, "53")
		gateway, gateway6 := "10.88.0.1", "fd00:88::1"
		h.hears(world, "192.0.2.1:8080", "192.0.2.2")
		h.hears(world, "[2001:db8::1]:8080", "2001:db8::2")
		h.hears(here(), "127.0.0.1:8080", gateway)
		h.hears(here(), "192.0.2.1:8080", "192.0.2.1")
		h.hears(here(), "[2001:db8::1]:8080", "2001:db8::1")
		h.hears(b.runtime.NetNS, "192.0.2.1:8080", gateway)
		h.hears(b.runtime.NetNS, gateway+":8080", gateway)
		h.hears(b.runtime.NetNS, "[2001:db8::1]:8080", gateway6)
		h.hears(a.runtime.NetNS, "192.0.2.1:8080", gateway) // a pod that reaches itself
		h.hears(a.runtime.NetNS, "[2001:db8::1]:8080", gateway6)
		h.hears(b.runtime.NetNS, "10.88.0.2:80", "10.88.0.3") // not by way of the host

		h.hears(world, "192.0.2.1:8081", "192.0.2.2")
		h.refused(here(), "127.0.0.1:8081")
		h.refused(world, "[2001:db8::1]:8081")
		h.hears(here(), "127.0.0.1:8082", gateway)
		h.refused(world, "192.0.2.1:8082")
		h.hears(world, "[2001:db8::1]:8083", "2001:db8::2")
		h.refused(world, "192.0.2.1:8083")
		h.refused(here(), "[::1]:8080")

		for _, to := range []string{"192.0.2.1:5353", "[2001:db8::1]:5353"} {
			if said := h.flow(world, to).ask(patience); said != "a" {
				t.Errorf("UDP %s answers %q", to, said)
			}
		}
		for _, from := range []string{here(), a.runtime.NetNS, b.runtime.NetNS} {
			if said := h.flow(from, "192.0.2.1:5353").ask(patience); said != "a" {
				t.Errorf("UDP answers %q", said)
			}
		}
		if said := h.flow(here(), "127.0.0.1:5353").ask(patience); said != "a" {
			t.Errorf("UDP at 127.0.0.1 answers %q", said)
		}
		if err := errors.Join(i.Check(t.Context(), l, a.runtime), i.Check(t.Context(), l, b.runtime), i.Status(t.Context(), l)); err != nil {
			t.Error(err)
		}

		for range 2 {
			if err := i.Del(t.Context(), l, a.runtime); err != nil {
				t.Error(err)
			}
		}
		for _, address := range []string{"192.0.2.1:8080", "[2001:db8::1]:8080"} {
			h.refused(world, address)
			h.refused(b.runtime.NetNS, address)
		}
		h.refused(here(), "127.0.0.1:8080")
		if left := h.tables(); len(left) > 0 || h.routeLocalnet("map0") != "0" {
			t.Errorf("left behind: %v, route_localnet %s", left, h.routeLocalnet("map0"))
		}
	})
}

// TestLocalhostIsGuarded: with route_localnet, a pod that sends packets to
// 127.0.0.1 over the bridge would reach what listens there alone.
func TestLocalhostIsGuarded(t *testing.T) {
	onHost(t, func(h *host) {
		i := h.invoker()
		h.outside()
		l := h.mapped("")
		a := h.mappedPod(i, l, "a", "tcp 8080 80")
		b := h.mappedPod(i, l, "b", "tcp 9090 80")
		private, err := net.ListenPacket("udp", "127.0.0.1:7777")
		if err != nil {
			t.Fatal(err)
		}
		defer private.Close()
		// In the pod, 127.0.0.1 is behind the bridge.
		in := []string{"--net=" + a.runtime.NetNS, "ip"}
		h.run("nsenter", append(in, "address", "flush", "dev", "lo")...)
		h.run("nsenter", "--net="+a.runtime.NetNS, "sh", "-c", "echo 1 >/proc/sys/net/ipv4/conf/eth0/route_localnet")
		h.run("nsenter", append(in, "route", "add", "127.0.0.1/32", "via", "10.88.0.1", "dev", "eth0", "src", "10.88.0.2")...)
		send := func(text string) {
			h.inside(a.runtime.NetNS, func() error {
				c, err := net.Dial("udp", "127.0.0.1:7777")
				if err != nil {
					return err
				}
				defer c.Close()
				_, err = c.Write([]byte(text))
				return err
			})
		}
		send("guarded")
		for _, p := range []*pod{b, a} {
			if h.routeLocalnet("map0") != "1" {
				t.Error("route_localnet is off, and a pod is left")
			}
			if p == b {
				if err := i.Del(t.Context(), l, p.runtime); err != nil {
					t.Fatal(err)
				}
			}
		}
		send("guarded")
		if err := portmap.Remove(t.Context(), "mapped"); err != nil || h.routeLocalnet("map0") != "0" {
			t.Errorf("%v, route_localnet %s after the last pod", err, h.routeLocalnet("map0"))
		}
		// Without the guard, the next one arrives, and it is the first that does.
		if err := os.WriteFile("/proc/sys/net/ipv4/conf/map0/route_localnet", []byte("1"), 0o644); err != nil {
			t.Fatal(err)
		}
		data := make([]byte, 10)
		for end := time.Now().Add(patience); time.Now().Before(end); {
			send("bare")
			_ = private.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			n, _, err := private.ReadFrom(data)
			if err == nil {
				if said := string(data[:n]); said != "bare" {
					t.Errorf("a pod reached what listens at 127.0.0.1 alone: %q", said)
				}
				return
			}
		}
		t.Error("no packet arrives without the guard: the test shows nothing")
	})
}

// TestStaleFlows: a client that has sent to the port before the pod was there
// reaches it, and not its predecessor.
func TestStaleFlows(t *testing.T) {
	onHost(t, func(h *host) {
		i, world := h.invoker(), h.outside()
		l := h.mapped("")
		client := h.flow(world, "192.0.2.1:5353")
		if said := client.ask(200 * time.Millisecond); said != "" {
			t.Errorf("with no pod, %q answers", said)
		}
		for _, name := range []string{"first", "second"} {
			p := h.mappedPod(i, l, name, "udp 5353 53")
			h.serveUDP(p, "53")
			if said := client.ask(patience); said != name {
				t.Errorf("%q answers, want %s", said, name)
			}
			if err := i.Del(t.Context(), l, p.runtime); err != nil {
				t.Fatal(err)
			}
			if said := client.ask(200 * time.Millisecond); said != "" {
				t.Errorf("after its end, %q answers", said)
			}
		}
	})
}

// TestSamePort: of several containers with one host port, the last has it, and the one before has it
// again after its end.
func TestSamePort(t *testing.T) {
	onHost(t, func(h *host) {
		i, world := h.invoker(), h.outside()
		l := h.mapped("")
		var all []*pod
		answers := func(want string) {
			t.Helper()
			if said := h.flow(world, "192.0.2.1:5353").ask(patience); said != want {
				t.Errorf("%q answers, want %s", said, want)
			}
		}
		for _, name := range []string{"a", "b", "c"} {
			p := h.mappedPod(i, l, name, "udp 5353 53")
			h.serveUDP(p, "53")
			answers(name)
			all = append(all, p)
		}
		for n := len(all) - 1; n > 0; n-- {
			if err := i.Del(t.Context(), l, all[n].runtime); err != nil {
				t.Fatal(err)
			}
			answers(all[n-1].runtime.ContainerID)
		}
	})
}

// TestConditions: the conditions, the mark and a mapping without SNAT do what they say.
func TestConditions(t *testing.T) {
	onHost(t, func(h *host) {
		i, world := h.invoker(), h.outside()
		a := h.mappedPod(i, h.mapped(`,"conditionsV4":["-s","192.0.2.0/24","!","-i","nosuch"],"conditionsV6":["!","-s","2001:db8::2"],"markMasqBit":31`), "a", "tcp 8080 80")
		b := h.mappedPod(i, h.mapped(`,"snat":false`), "b", "tcp 9090 80")
		h.serve(a, "tcp", "80")
		h.serve(b, "tcp", "80")
		h.hears(world, "192.0.2.1:8080", "192.0.2.2")
		h.refused(world, "[2001:db8::1]:8080")
		h.refused(b.runtime.NetNS, "192.0.2.1:8080") // its source is another
		h.hears(b.runtime.NetNS, "[2001:db8::1]:8080", "fd00:88::1")
		h.hears(world, "192.0.2.1:9090", "192.0.2.2")
		h.refused(here(), "127.0.0.1:9090")
		c := h.mappedPod(i, h.mapped(`,"masqAll":true`), "c", "tcp 7070 80")
		h.serve(c, "tcp", "80")
		h.hears(world, "192.0.2.1:7070", "10.88.0.1")
		h.hears(world, "[2001:db8::1]:7070", "fd00:88::1")
	})
}

// TestManyPortsOfOnePod: as many mappings as there may be fit into one transaction.
func TestManyPortsOfOnePod(t *testing.T) {
	onHost(t, func(h *host) {
		i, world := h.invoker(), h.outside()
		l := h.mapped("")
		var all []string
		for port := range 2000 {
			all = append(all, fmt.Sprintf("tcp %d 80", 20000+port))
		}
		a := h.mappedPod(i, l, "a", all...)
		h.serve(a, "tcp", "80")
		h.hears(world, "192.0.2.1:20000", "192.0.2.2")
		h.hears(world, "[2001:db8::1]:21999", "2001:db8::2")
		if err := i.Check(t.Context(), l, a.runtime); err != nil {
			t.Error(err)
		}
		if err := i.Del(t.Context(), l, a.runtime); err != nil || len(h.tables()) > 0 {
			t.Errorf("%v, left behind %v", err, h.tables())
		}
	})
}

// TestCheckOfPorts: CHECK sees that a table, a rule or route_localnet is gone.
func TestCheckOfPorts(t *testing.T) {
	onHost(t, func(h *host) {
		i := h.invoker()
		h.outside()
		l := h.mapped("")
		a := h.mappedPod(i, l, "a", "tcp 8080 80")
		complains := func(want string) {
			t.Helper()
			if err := i.Check(t.Context(), l, a.runtime); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("check: %v, want %q", err, want)
			}
		}
		if err := os.WriteFile("/proc/sys/net/ipv4/conf/map0/route_localnet", []byte("0"), 0o644); err != nil {
			t.Fatal(err)
		}
		complains("route_localnet of map0 is off")
		changed := a.runtime
		changed.Capabilities = ports("tcp 8080 81")
		if err := i.Check(t.Context(), l, changed); err == nil || !strings.Contains(err.Error(), "has other rules in mappings") {
			t.Errorf("check of other ports: %v", err)
		}
		if err := portmap.Remove(t.Context(), "mapped"); err != nil {
			t.Fatal(err)
		}
		complains("is lost")
		if err := i.Del(t.Context(), l, a.runtime); err != nil {
			t.Error(err)
		}
	})
}

// TestGCOfPorts: GC removes the tables of what is not valid, and those of no
// other network.
func TestGCOfPorts(t *testing.T) {
	onHost(t, func(h *host) {
		i := h.invoker()
		l, other := h.mapped(""), h.mapped(`,"scope":"mapped-2"`)
		for n, list := range []*cni.List{l, l, other} {
			h.mappedPod(i, list, string(rune('a'+n)), "tcp "+strconv.Itoa(8080+n)+" 80")
		}
		// Another runtime's GC, which has no records of its own.
		fresh, err := cni.New(cni.Config{Path: []string{h.bin}, Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		if err := fresh.GC(t.Context(), l, []cni.Attachment{{ContainerID: "b", IfName: "eth0"}, {ContainerID: "c", IfName: "eth0"}}); err != nil {
			t.Fatal(err)
		}
		if left := h.tables(); len(left) != 2 {
			t.Errorf("after GC: %v", left)
		}
		scopes, err := portmap.Scopes()
		if want := "[mapped mapped-2]"; err != nil || fmt.Sprint(scopes) != want {
			t.Errorf("scopes %v, %v, want %s", scopes, err, want)
		}
		for _, scope := range append(scopes, "none") {
			if err := portmap.Remove(t.Context(), scope); err != nil {
				t.Error(err)
			}
		}
		if left := h.tables(); len(left) > 0 || h.routeLocalnet("map0") != "0" {
			t.Errorf("after Remove: %v, route_localnet %s", left, h.routeLocalnet("map0"))
		}
	})
}

// TestReferencePortmap: the plugin which Debian ships and ours answer alike from
// everywhere, each after our bridge.
func TestReferencePortmap(t *testing.T) {
	const reference = "/usr/lib/cni/portmap"
	if _, err := os.Stat(reference); err != nil {
		t.Skip("no reference plugins on this machine")
	}
	seen := map[bool]string{}
	for _, theirs := range []bool{true, false} {
		onHost(t, func(h *host) {
			dir := t.TempDir()
			if theirs {
				if err := os.Symlink(reference, filepath.Join(dir, "portmap")); err != nil {
					t.Fatal(err)
				}
			}
			i, err := cni.New(cni.Config{Path: []string{dir, h.bin}, Dir: t.TempDir(), Timeout: patience})
			if err != nil {
				t.Fatal(err)
			}
			seen[theirs] = h.survey(i)
		})
	}
	if seen[true] != seen[false] {
		t.Errorf("the reference:\n%s\nours:\n%s", seen[true], seen[false])
	}
}

// survey writes down what answers where, with and without a pod. It calls no CHECK: the reference's
// finds its own rules missing where a pod has addresses of both families.
func (h *host) survey(i *cni.Invoker) string {
	h.Helper()
	world, l := h.outside(), h.mappedAs("1.0.0", "")
	a := h.mappedPod(i, l, "a", "tcp 8080 80", "tcp 8081 80 192.0.2.1", "tcp 8082 80 127.0.0.1", "tcp 8083 80 ::", "tcp 8084 80 0.0.0.0", "udp 5353 53")
	b := h.mappedPod(i, l, "b", "tcp 9090 80")
	h.serve(a, "tcp", "80")
	h.serve(b, "tcp", "80")
	h.serveUDP(a, "53")
	var out strings.Builder
	ask := func() {
		for _, from := range []struct{ name, path string }{{"world", world}, {"host", here()}, {"a", a.runtime.NetNS}, {"b", b.runtime.NetNS}} {
			for _, address := range []string{"192.0.2.1", "2001:db8::1", "10.88.0.1", "127.0.0.1"} {
				if address == "127.0.0.1" && from.name != "host" || address == "10.88.0.1" && from.name == "world" {
					continue
				}
				for _, port := range []string{"8080", "8081", "8082", "8083", "8084", "9090"} {
					said, err := h.dial(from.path, net.ParseIP(address), port)
					fmt.Fprintln(&out, from.name, address, port, said, errors.Is(err, unix.ECONNREFUSED), err == nil)
				}
			}
		}
	}
	ask()
	fmt.Fprintln(&out, "udp", h.flow(world, "192.0.2.1:5353").ask(patience), h.flow(here(), "127.0.0.1:5353").ask(patience))
	fmt.Fprintln(&out, "del", i.Del(h.Context(), l, a.runtime), i.Del(h.Context(), l, a.runtime))
	ask()
	return out.String()
}
