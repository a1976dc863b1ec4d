package server

import (
	"time"

	"github.com/planekit/planekit/kubelet/internal/machine"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// machineStats returns the usage of the machine from its proc(5); nil if it has none.
func machineStats(proc string, now time.Time) (*CPUStats, *MemoryStats) {
	var cpu *CPUStats
	var memory *MemoryStats
	if busy, ok := machine.CPUTime(proc); ok {
		cpu = &CPUStats{Time: metav1.NewTime(now), UsageCoreNanoSeconds: &busy}
	}
	if m, ok := machine.Memory(proc); ok {
		memory = &MemoryStats{Time: metav1.NewTime(now), UsageBytes: &m.Used, WorkingSetBytes: &m.WorkingSet, AvailableBytes: &m.Available}
	}
	return cpu, memory
}
