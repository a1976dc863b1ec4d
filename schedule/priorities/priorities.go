// Package priorities has the priorities of a Kubernetes cluster, each with the
// formula of the kube-scheduler's score of the same purpose.
//
//	schedule.Config{Priorities: priorities.Default()}
package priorities

import "github.com/planekit/planekit/schedule"

// Default returns all priorities of this package with their weights.
func Default() []schedule.Weighted {
	return []schedule.Weighted{{Priority: LeastAllocated(), Weight: 1}}
}

// LeastAllocated prefers nodes with the largest part of their CPU and memory
// left, so that pods spread: the mean of (allocatable-requested)*100/allocatable
// over both. Pods without requests count with 100m and 200Mi a container.
func LeastAllocated() schedule.Priority {
	return schedule.PriorityFunc("LeastAllocated", func(p *schedule.PodInfo, n *schedule.NodeInfo) int64 {
		var sum, weights int64
		for _, r := range [...]struct{ all, taken int64 }{
			{n.Allocatable.MilliCPU, n.NonZero.MilliCPU + p.NonZero.MilliCPU},
			{n.Allocatable.Memory, n.NonZero.Memory + p.NonZero.Memory},
		} {
			if r.all == 0 {
				continue
			}
			weights++
			if r.taken < r.all {
				sum += (r.all - r.taken) * schedule.MaxScore / r.all
			}
		}
		if weights == 0 {
			return 0
		}
		return sum / weights
	})
}
