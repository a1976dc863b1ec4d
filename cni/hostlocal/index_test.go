package hostlocal

import (
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/planekit/planekit/cni"
)

// fill allocates count addresses as the reference plugin does.
func fill(t testing.TB, dir string, count int) netip.Addr {
	t.Helper()
	addr := netip.MustParseAddr("10.62.0.2")
	for n := range count {
		if err := os.WriteFile(filepath.Join(dir, addr.String()), fmt.Appendf(nil, "%064d\r\neth0", n), 0o600); err != nil {
			t.Fatal(err)
		}
		addr = addr.Next()
	}
	return addr
}

func large(t testing.TB, dir string) *network {
	t.Helper()
	sets, err := newSets([][]Range{{{Subnet: netip.MustParsePrefix("10.62.0.0/16")}}})
	if err != nil {
		t.Fatal(err)
	}
	return &network{sets: sets, pool: pool{dir: dir, indexFrom: indexFrom}}
}

// TestThousandsOfReservations: with many addresses, a call reads the index in place of their files, and
// the files after any change by another program.
func TestThousandsOfReservations(t *testing.T) {
	dir := t.TempDir()
	next := fill(t, dir, 2_000)
	add := func(id string) netip.Addr {
		t.Helper()
		n, result := large(t, dir), new(cni.Result)
		if err := n.locked(t.Context(), func() error { return n.add(cni.Attachment{ContainerID: id, IfName: "eth0"}, result) }); err != nil {
			t.Fatal(err)
		}
		return result.IPs[0].Address.Addr()
	}
	if got := add("a"); got != next {
		t.Errorf("got %v, want %v", got, next)
	}
	fresh := func() bool { return large(t, dir).loadIndex() != nil }
	if !fresh() {
		t.Error("there is no index after the first call")
	}
	if err := os.Remove(filepath.Join(dir, "10.62.0.9")); err != nil {
		t.Fatal(err)
	}
	if fresh() {
		t.Error("the index is believed after another program freed an address")
	}
	if add("b"); !fresh() {
		t.Error("the index was not written again")
	}
	n := large(t, dir)
	if err := n.locked(t.Context(), func() error { return n.keep([]cni.Attachment{{ContainerID: "b", IfName: "eth0"}}) }); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "10.*")); len(left) != 1 {
		t.Errorf("after GC: %v", left)
	}
}

// TestFilesOfOldVersions: early versions of the reference plugin wrote the container alone, editors end
// files with a newline, and a call that was killed leaves an empty file.
func TestFilesOfOldVersions(t *testing.T) {
	for data, want := range map[string]bool{"a": true, "a\n": true, " a\r\neth0\r\n": true, "a\r\neth1": false, "b": false, "": true} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "10.62.0.7"), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		n := large(t, dir)
		if err := n.locked(t.Context(), func() error { return n.release(cni.Attachment{ContainerID: "a", IfName: "eth0"}) }); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(dir, "10.62.0.7")); os.IsNotExist(err) != want {
			t.Errorf("%q: freed %v, want %v", data, !want, want)
		}
	}
}

func FuzzIndex(f *testing.F) {
	f.Add("1700000000123456789\n10.62.0.2 a eth0\nfd62::2 b eth0\n")
	f.Add("1\n10.62.0.2  \n")
	f.Add("1\n10.62.0.2 a eth0")
	f.Fuzz(func(t *testing.T, data string) {
		stamp, owners := parseIndex(data)
		if owners == nil {
			return
		}
		text, ok := formatIndex(stamp, owners)
		if !ok {
			t.Fatalf("%q cannot be written again", data)
		}
		if s, again := parseIndex(text); s != stamp || !maps.Equal(owners, again) {
			t.Errorf("%q became %q", data, text)
		}
	})
}

// FuzzReservation: whatever is in an address's file, its owner alone frees it, or GC.
func FuzzReservation(f *testing.F) {
	f.Add("a\r\neth0")
	f.Add("a")
	f.Add("\r\n\r\n")
	f.Fuzz(func(t *testing.T, data string) {
		a := parseOwner(data)
		if owns(cni.Attachment{ContainerID: "x", IfName: "eth0"}, a) && a.ContainerID != "x" {
			t.Errorf("%q belongs to x", data)
		}
		text, ok := formatIndex(1, map[netip.Addr]cni.Attachment{netip.IPv6Unspecified(): a})
		if !ok {
			return
		}
		_, owners := parseIndex(text)
		if got := slices.Collect(maps.Values(owners)); owners != nil && !slices.Equal(got, []cni.Attachment{a}) {
			t.Errorf("%q became %v", data, got)
		}
	})
}

// BenchmarkReservations is an ADD and a DEL beside other addresses.
func BenchmarkReservations(b *testing.B) {
	for _, count := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("addresses=%d", count), func(b *testing.B) {
			dir := b.TempDir()
			fill(b, dir, count)
			who := cni.Attachment{ContainerID: "a", IfName: "eth0"}
			for b.Loop() {
				n := large(b, dir)
				if err := n.locked(b.Context(), func() error { return n.add(who, new(cni.Result)) }); err != nil {
					b.Fatal(err)
				}
				n = large(b, dir)
				if err := n.locked(b.Context(), func() error { return n.release(who) }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
