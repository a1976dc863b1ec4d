package server

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// machineStats returns the usage of the machine from its proc(5); nil if it has none.
func machineStats(proc string, now time.Time) (*CPUStats, *MemoryStats) {
	var cpu *CPUStats
	var memory *MemoryStats
	// A missing file has no contents to parse.
	stat, _ := os.ReadFile(filepath.Join(proc, "stat"))
	if busy, ok := busyTime(string(stat)); ok {
		cpu = &CPUStats{Time: metav1.NewTime(now), UsageCoreNanoSeconds: &busy}
	}
	info, _ := os.ReadFile(filepath.Join(proc, "meminfo"))
	if used, workingSet, available, ok := memoryUse(string(info)); ok {
		memory = &MemoryStats{Time: metav1.NewTime(now), UsageBytes: &used, WorkingSetBytes: &workingSet, AvailableBytes: &available}
	}
	return cpu, memory
}

// tick is the unit of /proc/stat, USER_HZ, which is 100 a second everywhere.
const tick = uint64(time.Second / 100)

// busyTime returns how long the CPUs were not idle, in nanoseconds, from the first line of
// /proc/stat: cpu user nice system idle iowait irq softirq steal guest guest_nice. The times of
// guests are included in user and nice.
func busyTime(stat string) (uint64, bool) {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) < 8 || fields[0] != "cpu" {
		return 0, false
	}
	var ticks uint64
	for i, field := range fields[1:min(len(fields), 9)] {
		n, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return 0, false
		}
		if idle := i == 3 || i == 4; !idle {
			ticks += n
		}
	}
	return ticks * tick, true
}

// memoryUse parses /proc/meminfo. As for a cgroup, the working set is the used memory without the
// pages of files that were not used recently.
func memoryUse(meminfo string) (used, workingSet, available uint64, ok bool) {
	values := map[string]uint64{}
	for line := range strings.Lines(meminfo) {
		name, rest, _ := strings.Cut(line, ":")
		number, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
		if kib, err := strconv.ParseUint(number, 10, 64); err == nil {
			values[name] = kib << 10
		}
	}
	total, free := values["MemTotal"], values["MemFree"]
	if total == 0 || free > total {
		return 0, 0, 0, false
	}
	used = total - free
	workingSet = used - min(used, values["Inactive(file)"])
	return used, workingSet, total - workingSet, true
}
