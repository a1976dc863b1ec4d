//go:build linux

package overlay

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/cni/overlay/overlaytest"
)

// BenchmarkConverge measures a first reconciliation of a number of members with the kernel, and one
// that finds nothing to change.
func BenchmarkConverge(b *testing.B) {
	for _, n := range []int{100, 1000, 5000} {
		b.Run(fmt.Sprintf("members=%d/first", n), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				r := machineWith(b, n)
				b.StartTimer()
				convergeOnce(b, r)
			}
		})
		b.Run(fmt.Sprintf("members=%d/again", n), func(b *testing.B) {
			r := machineWith(b, n)
			convergeOnce(b, r)
			b.ResetTimer()
			for b.Loop() {
				convergeOnce(b, r)
			}
		})
	}
}

func convergeOnce(b *testing.B, r *run) {
	b.Helper()
	if ready, err := r.converge(); err != nil || !ready {
		b.Fatal(ready, err)
	}
	if n := len(r.o.Refused()); n > 0 {
		b.Fatal(r.o.Refused())
	}
}

// machineWith returns a run on a fresh machine with members that do not exist.
func machineWith(b *testing.B, n int) *run {
	b.Helper()
	m := overlaytest.New(b, overlaytest.Config{Machines: 1}).Machines[0]
	local := Member{Name: m.Name, Subnets: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("fd64::/64")}}
	o, err := New(Config{Local: local, Underlay: m.Underlay, NetNS: m.Path, Members: NewSet(), Log: logr.Discard()})
	if err != nil {
		b.Fatal(err)
	}
	k, err := openKernel(&o.c)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(k.close)
	r := &run{o: o, c: &o.c, kernel: k, wake: make(chan struct{}, 1), publish: make(chan Member, 1), known: true}
	for i := 1; i <= n; i++ {
		name := fmt.Sprintf("n%d", i)
		r.members = append(r.members, Member{
			Name: name, Address: netip.AddrFrom4([4]byte{172, 16, byte(i >> 8), byte(i)}), Backend: VXLAN,
			Data: Data{MAC: deriveMAC(name), VNI: 1, Port: DefaultVXLANPort},
			Subnets: []netip.Prefix{
				netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24),
				netip.MustParsePrefix(fmt.Sprintf("fd64:0:0:%x::/64", i)),
			},
		})
	}
	return r
}
