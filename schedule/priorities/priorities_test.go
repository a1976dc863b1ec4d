package priorities_test

import (
	"fmt"
	"testing"

	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/priorities"
)

func node(cpu, memory, takenCPU, takenMemory int64) *schedule.NodeInfo {
	return &schedule.NodeInfo{
		Allocatable: schedule.Resources{MilliCPU: cpu, Memory: memory},
		NonZero:     schedule.Resources{MilliCPU: takenCPU, Memory: takenMemory},
	}
}

func pod(cpu, memory int64) *schedule.PodInfo {
	return &schedule.PodInfo{NonZero: schedule.Resources{MilliCPU: cpu, Memory: memory}}
}

// The first cases are worked out with upstream's formula by hand.
func TestLeastAllocated(t *testing.T) {
	for _, test := range []struct {
		name string
		pod  *schedule.PodInfo
		node *schedule.NodeInfo
		want int64
	}{
		// ((4000-3000)*100/4000 + (10000-5000)*100/10000) / 2
		{"part of it", pod(3000, 5000), node(4000, 10000, 0, 0), 37},
		{"with others", pod(1000, 2000), node(10000, 20000, 5000, 3000), 57},
		{"nothing", pod(0, 0), node(4000, 10000, 0, 0), 100},
		{"all of one", pod(4000, 0), node(4000, 10000, 0, 0), 50},
		{"more than there is", pod(9000, 20000), node(4000, 10000, 0, 0), 0},
		{"no memory there", pod(1000, 0), node(4000, 0, 0, 0), 75},
		{"nothing there", pod(1000, 1), node(0, 0, 0, 0), 0},
	} {
		if got := priorities.LeastAllocated().Score(test.pod, test.node); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}

func Example() {
	busy, idle := node(4000, 8<<30, 3000, 6<<30), node(4000, 8<<30, 0, 0)
	web := pod(500, 1<<30)
	for _, w := range priorities.Default() {
		fmt.Println(w.Name(), w.Score(web, busy), w.Score(web, idle))
	}
	// Output: LeastAllocated 12 87
}
