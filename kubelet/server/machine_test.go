package server

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

func TestMachineStats(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	proc := t.TempDir()
	if cpu, memory := machineStats(proc, now); cpu != nil || memory != nil {
		t.Errorf("of nothing: %+v %+v", cpu, memory)
	}
	for file, text := range map[string]string{
		"stat":    "cpu  100 20 3 5000 600 7 8 9 50 50\ncpu0 1 1 1 1 1 1 1 1 1 1\n",
		"meminfo": "MemTotal:       1000 kB\nMemFree:         300 kB\nMemAvailable:    800 kB\nInactive(file):  200 kB\nHugePages_Total:       0\n",
	} {
		if err := os.WriteFile(filepath.Join(proc, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cpu, memory := machineStats(proc, now)
	if cpu == nil || *cpu.UsageCoreNanoSeconds != 1_470_000_000 {
		t.Errorf("%+v, want 147 hundredths of a second", cpu)
	}
	if memory == nil || *memory.UsageBytes != 700<<10 || *memory.WorkingSetBytes != 500<<10 || *memory.AvailableBytes != 500<<10 {
		t.Errorf("machineStats has the memory %+v, want %d bytes used, %d in the working set, %d available",
			memory, 700<<10, 500<<10, 500<<10)
	}
	if runtime.GOOS == "linux" {
		if cpu, memory := machineStats("/proc", now); cpu == nil || memory == nil || *memory.WorkingSetBytes == 0 {
			t.Errorf("of this machine: %+v %+v", cpu, memory)
		}
	}
}
