package main

import (
	"testing"

	"go.uber.org/goleak"
)

// TestConstructed: a server is ready on either store, and leaves nothing behind.
func TestConstructed(t *testing.T) {
	before := goleak.IgnoreCurrent()
	for _, k := range constructedKinds {
		took, err := constructed(t.Context(), k, t.TempDir())
		if err != nil || took <= 0 {
			t.Errorf("constructed(%s) = %v, %v, want more than 0 and no error", k, took, err)
		}
	}
	goleak.VerifyNone(t, before)
}

// BenchmarkReady is the time from the constructor to the first answer over TLS,
// in this process, on either store side by side. An operation is one server on
// an empty store; its end is no part of ms/ready.
func BenchmarkReady(b *testing.B) {
	for _, store := range []struct {
		name string
		kind kind
	}{{"memory", planekitMemory}, {"embedded", planekitInside}} {
		b.Run("store="+store.name, func(b *testing.B) {
			b.ReportAllocs()
			total, n := 0.0, 0
			for b.Loop() {
				took, err := constructed(b.Context(), store.kind, b.TempDir())
				if err != nil {
					b.Fatal(err)
				}
				total += took.Seconds() * 1000
				n++
			}
			b.ReportMetric(total/float64(n), "ms/ready")
		})
	}
}
