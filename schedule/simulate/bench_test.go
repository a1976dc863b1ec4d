package simulate_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/planekit/planekit/schedule/simulate"
)

// BenchmarkRun simulates an hour of pods that fill two thirds of the cluster, ten for each node.
func BenchmarkRun(b *testing.B) {
	for _, nodes := range []int{500, 5000} {
		w := &simulate.Workload{Nodes: simulate.Uniform(nodes, "32", "128Gi")}
		r := rand.New(rand.NewPCG(1, 1))
		for i := range 10 * nodes {
			w.Arrivals = append(w.Arrivals, simulate.Arrival{
				At:       time.Duration(r.Int64N(int64(time.Hour))),
				Duration: time.Duration(r.Int64N(int64(time.Hour))),
				Pod:      pod(fmt.Sprint("p", i), fmt.Sprint(1+r.IntN(8)), fmt.Sprint(1+r.IntN(32), "Gi")),
			})
		}
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := simulate.Run(b.Context(), w, simulate.Policy{Seed: 1}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
