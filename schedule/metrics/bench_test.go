package metrics_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/metrics"
	"github.com/planekit/planekit/schedule/predicates"
	"github.com/planekit/planekit/schedule/priorities"
	corev1 "k8s.io/api/core/v1"
)

// BenchmarkRun schedules 5,000 pods on 1,000 nodes with and without metrics.
func BenchmarkRun(b *testing.B) {
	const nodes, pods = 1000, 5000
	for _, measured := range []bool{false, true} {
		b.Run(fmt.Sprintf("metrics=%t/nodes=%d/pods=%d", measured, nodes, pods), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				all, waiting := localcache.NewMap[*corev1.Node](), localcache.NewMap[*corev1.Pod]()
				for i := range nodes {
					all.Put(node(fmt.Sprint("n", i), 110))
				}
				for i := range pods {
					waiting.Put(pod(fmt.Sprint("p", i), 0))
				}
				var bound sync.WaitGroup
				bound.Add(pods)
				config := schedule.Config{
					Predicates: predicates.Default(), Priorities: priorities.Default(), Nodes: all, Pods: waiting,
					Bind: func(context.Context, *corev1.Pod, string) error { bound.Done(); return nil },
				}
				if measured {
					config.Meters = metrics.New().Meters()
				}
				scheduler, err := schedule.New(config)
				if err != nil {
					b.Fatal(err)
				}
				ctx, cancel := context.WithCancel(b.Context())
				done := make(chan error, 1) // one answer
				b.StartTimer()
				go func() { done <- scheduler.Run(ctx) }()
				bound.Wait()
				b.StopTimer()
				cancel()
				if err := <-done; err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*pods), "ns/pod")
		})
	}
}
