package machine

import (
	"os"
	"testing"
)

func TestThisMachine(t *testing.T) {
	if running, most, err := Processes("/proc"); err != nil || running < 1 || most < running {
		t.Errorf("%d of %d processes: %v", running, most, err)
	}
	if _, _, err := Processes(t.TempDir()); err == nil {
		t.Error("processes of nothing")
	}
	a, err := FileSystemOf(t.TempDir())
	if err != nil || a.Available <= 0 || a.Capacity < a.Available || a.Inodes < a.InodesFree {
		t.Errorf("FileSystemOf a directory = %+v, %v, want 0 < Available <= Capacity and InodesFree <= Inodes", a, err)
	}
	if b, err := FileSystemOf(os.TempDir()); err != nil || a.ID != b.ID {
		t.Errorf("%+v and %+v: %v", a, b, err)
	}
	if _, err := FileSystemOf("/none"); err == nil {
		t.Error("a file system of nothing")
	}
	if _, err := FileSystemOf("/proc"); err != nil {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("cpu  1 2 3 4 5 6 7 8", "MemTotal: 5 kB\nMemFree: 3 kB\nInactive(file): 9 kB\n")
	f.Add("cpu 1 2 3 4 5 6 18446744073709551615", "MemTotal: 18446744073709551615 kB")
	f.Fuzz(func(t *testing.T, stat, meminfo string) {
		busyTime(stat)
		if m, ok := memoryUse(meminfo); ok && (m.WorkingSet > m.Used || m.Available+m.WorkingSet < m.Used) {
			t.Errorf("memoryUse(%q) = %+v, want WorkingSet <= Used <= Available + WorkingSet", meminfo, m)
		}
	})
}
