package planetest_test

import (
	"context"
	"testing"
	"time"

	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/planetest"
)

// BenchmarkStart measures the time until a control plane is ready, without nodes and with three, and
// the time until it has stopped.
func BenchmarkStart(b *testing.B) {
	for name, options := range map[string][]planetest.Option{"nodes=0": nil, "nodes=3": {planetest.Nodes(3)}} {
		b.Run(name, func(b *testing.B) {
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
