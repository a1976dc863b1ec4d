package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/planekit/planekit/authz"
)

// TestFlat: with 10000 bindings, planekit is fifty times as fast as stock, no slower than with ten
// apart from noise, and allocates nothing for an allowed request.
func TestFlat(t *testing.T) {
	median := map[int]time.Duration{}
	for _, n := range []int{10, 10_000} {
		c, err := newComparison(n)
		if err != nil {
			t.Fatal(err)
		}
		own, stock, err := c.measure(2000, 300*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		median[n] = quantile(own, 0.5)
		if n == 10_000 && quantile(stock, 0.5) < 50*median[n] {
			t.Errorf("stock takes %v, planekit %v", quantile(stock, 0.5), median[n])
		}
		ctx := context.Background()
		if allocations := testing.AllocsPerRun(100, func() {
			for _, q := range c.requests {
				if d, _, _ := c.own.Authorize(ctx, q); d != authz.Allow {
					t.Error(d)
				}
			}
		}); allocations != 0 {
			t.Errorf("%d bindings: %v allocations", n, allocations)
		}
		c.stop()
	}
	if median[10_000] > 4*median[10]+time.Microsecond {
		t.Errorf("not flat: %v", median)
	}
}

func BenchmarkDecision(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000, 50_000} {
		c, err := newComparison(n)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("planekit/bindings=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				_, _, _ = c.own.Authorize(b.Context(), c.requests[i%len(c.requests)])
			}
		})
		b.Run(fmt.Sprintf("stock/bindings=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				_, _, _ = c.stock.Authorize(b.Context(), c.asStock[i%len(c.asStock)])
			}
		})
		c.stop()
	}
}
