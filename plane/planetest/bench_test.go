package planetest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/planetest"
)

// BenchmarkStart measures the time until a control plane is ready, and the time until it has
// stopped.
func BenchmarkStart(b *testing.B) {
	for _, nodes := range []int{0, 1, 3} {
		options := []planetest.Option{planetest.Nodes(nodes)}
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				config := plane.Config{}
				for _, option := range options {
					option(b, &config)
				}
				now := make(chan struct{})
				close(now)
				config.StopNow = now
				b.StartTimer()
				made, err := plane.New(config)
				if err != nil {
					b.Fatal(err)
				}
				ctx, cancel := context.WithCancel(b.Context())
				ended := make(chan error, 1)
				go func() { ended <- made.Run(ctx) }()
				<-made.Ready()
				b.StopTimer()
				begin := time.Now()
				cancel()
				if err := <-ended; err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(time.Since(begin).Milliseconds()), "ms-to-stop")
				b.StartTimer()
			}
		})
	}
}
