//go:build linux

package plugins_test

import (
	"fmt"
	"testing"

	"github.com/planekit/planekit/cni"
	"github.com/planekit/planekit/cni/plugins"
)

// BenchmarkVersion is the cost of a process of the built program that does next
// to nothing.
func BenchmarkVersion(b *testing.B) {
	bin := b.TempDir()
	if err := plugins.Install(bin, program); err != nil {
		b.Fatal(err)
	}
	i, err := cni.New(cni.Config{Path: []string{bin}, Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := i.Version(b.Context(), "bridge"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAddDel attaches and detaches one pod, through planekit-cni, bridge
// and host-local.
func BenchmarkAddDel(b *testing.B) {
	for _, masquerade := range []bool{false, true} {
		b.Run(fmt.Sprintf("masquerade=%v", masquerade), func(b *testing.B) {
			onHost(b, func(h *host) {
				i, l := h.invoker(), h.conf(h.network(1, masquerade))
				r := cni.RuntimeConfig{ContainerID: "a", NetNS: h.namespace(), IfName: "eth0"}
				for b.Loop() {
					if _, err := i.Add(b.Context(), l, r); err != nil {
						b.Fatal(err)
					}
					if err := i.Del(b.Context(), l, r); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}
