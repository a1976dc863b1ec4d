// Package priorities contains priorities with the formulas of the kube-scheduler's scores.
//
//	schedule.Config{Priorities: priorities.Default()}
package priorities

import "github.com/planekit/planekit/schedule"

// Default returns all priorities of this package with their weights.
func Default() []schedule.Weighted {
	return []schedule.Weighted{{Priority: LeastAllocated(), Weight: 1}}
}

// LeastAllocated prefers nodes with the largest free share of CPU and memory, so that pods spread:
// the mean of (allocatable-requested)*100/allocatable over both. Containers without requests count
// with 100m and 200Mi.
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
