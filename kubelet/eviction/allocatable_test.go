package eviction

import (
	"slices"
	"testing"
	"time"
)

// TestWithAllocatable: hard thresholds of memory count also for what all pods may use together, and no
// configuration sets that.
func TestWithAllocatable(t *testing.T) {
	memory := Threshold{Signal: MemoryAvailable, Minimum: Amount{Number: 100}, Reclaim: Amount{Number: 5}}
	soft := Threshold{Signal: MemoryAvailable, Minimum: Amount{Number: 200}, Grace: time.Minute}
	disk := Threshold{Signal: NodeFSAvailable, Minimum: Amount{Number: 1}}
	all := memory
	all.Signal = AllocatableMemoryAvailable
	if got, want := WithAllocatable([]Threshold{memory, soft, disk}), []Threshold{memory, all, soft, disk}; !slices.Equal(got, want) {
		t.Errorf("WithAllocatable = %+v, want %+v", got, want)
	}
	if got, err := Parse(Settings{Hard: map[string]string{string(AllocatableMemoryAvailable): "100Mi"}}); err == nil {
		t.Errorf("Parse of a threshold for allocatable memory = %+v, nil, want an error", got)
	}
}
