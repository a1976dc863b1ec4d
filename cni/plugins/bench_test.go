//go:build linux

package plugins_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/planekit/planekit/cni"
	"github.com/planekit/planekit/cni/plugins"
	"golang.org/x/sys/unix"
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

// BenchmarkNeighbours is a stream between two pods of a node, and messages of one byte to and fro: routed by
// the host, and forwarded by the bridge, where pods may send from any address.
func BenchmarkNeighbours(b *testing.B) {
	for _, bridged := range []bool{false, true} {
		onHost(b, func(h *host) {
			n := h.network(1, false)
			n.AnySource = bridged
			i, l := h.invoker(), h.conf(n)
			from, to := h.pod(i, l, "a"), h.pod(i, l, "b")
			b.Run(fmt.Sprintf("bridged=%v/stream", bridged), func(b *testing.B) {
				here, there := h.connection(from, to)
				data := make([]byte, 1<<20)
				b.SetBytes(int64(len(data)))
				read := make(chan error, 1) // the one result
				go func() {
					_, err := io.Copy(io.Discard, there)
					read <- err
				}()
				before := used()
				for b.Loop() {
					if _, err := here.Write(data); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(used()-before)/float64(b.N), "cpu-ns/op")
				here.Close()
				if err := <-read; err != nil {
					b.Error(err)
				}
			})
			b.Run(fmt.Sprintf("bridged=%v/message", bridged), func(b *testing.B) {
				here, there := h.connection(from, to)
				done := make(chan struct{})
				go func() {
					defer close(done)
					_, _ = io.Copy(there, plainReader(there)) // until the other end closes
				}()
				one := make([]byte, 1)
				before := used()
				for b.Loop() {
					_, err := here.Write(one)
					if _, err2 := io.ReadFull(here, one); errors.Join(err, err2) != nil {
						b.Fatal(err, err2)
					}
				}
				b.ReportMetric(float64(used()-before)/float64(b.N), "cpu-ns/op")
				here.Close()
				<-done
			})
		})
	}
}

// used returns the processor time of this process, which other processes disturb least.
func used() int64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// plainReader hides that a connection can be spliced to itself.
func plainReader(c net.Conn) io.Reader { return struct{ io.Reader }{c} }

// connection returns both ends of a connection between pods.
func (h *host) connection(from, to *pod) (here, there net.Conn) {
	h.Helper()
	var l net.Listener
	h.inside(to.runtime.NetNS, func() (err error) {
		l, err = net.Listen("tcp", ":0")
		return err
	})
	defer l.Close()
	h.inside(from.runtime.NetNS, func() (err error) {
		here, err = net.Dial("tcp", fmt.Sprintf("%v:%d", to.ip, l.Addr().(*net.TCPAddr).Port))
		return err
	})
	there, err := l.Accept()
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { here.Close(); there.Close() })
	return here, there
}
