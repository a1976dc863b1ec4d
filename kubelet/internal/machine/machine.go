// Package machine reads what a machine uses and has left: processor time, memory, processes and the
// space of file systems.
package machine

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// CPUTime returns how long the CPUs were not idle, in nanoseconds, from the directory proc of
// proc(5). It reports whether that is known.
func CPUTime(proc string) (uint64, bool) {
	// A missing file has no contents to parse.
	stat, _ := os.ReadFile(filepath.Join(proc, "stat"))
	return busyTime(string(stat))
}

// MemoryUsage is memory in bytes. The working set is the used memory without the pages of files that
// were not used recently; what is not in it is available.
type MemoryUsage struct{ Total, Used, WorkingSet, Available uint64 }

// Memory returns the memory of the machine from the directory proc of proc(5). It reports whether
// that is known.
func Memory(proc string) (MemoryUsage, bool) {
	info, _ := os.ReadFile(filepath.Join(proc, "meminfo"))
	return memoryUse(string(info))
}

// Processes returns how many processes and threads run, and how many can, from the directory proc of
// proc(5).
func Processes(proc string) (running, most int64, err error) {
	load, err := os.ReadFile(filepath.Join(proc, "loadavg"))
	if err != nil {
		return 0, 0, err
	}
	// The fourth field is the number of runnable entities and, after a slash, of all.
	fields := strings.Fields(string(load))
	if len(fields) < 4 {
		return 0, 0, errors.New("loadavg is incomplete")
	}
	_, all, _ := strings.Cut(fields[3], "/")
	if running, err = strconv.ParseInt(all, 10, 64); err != nil {
		return 0, 0, err
	}
	for _, file := range []string{"sys/kernel/pid_max", "sys/kernel/threads-max"} {
		text, err := os.ReadFile(filepath.Join(proc, file))
		if err != nil {
			return 0, 0, err
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil {
			return 0, 0, err
		}
		if most == 0 || n < most {
			most = n
		}
	}
	return running, most, nil
}

// FileSystem is the space of a file system, in bytes and inodes. What is kept for root is neither
// available nor used.
type FileSystem struct {
	Available, Capacity, Used int64
	InodesFree, Inodes        int64
	// ID distinguishes the file systems of this machine.
	ID uint64
}

// FileSystemOf returns the file system that contains path.
func FileSystemOf(path string) (FileSystem, error) {
	var fs syscall.Statfs_t
	var file syscall.Stat_t
	if err := errors.Join(syscall.Statfs(path, &fs), syscall.Stat(path, &file)); err != nil {
		return FileSystem{}, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	size := int64(fs.Bsize)
	return FileSystem{
		Available: int64(fs.Bavail) * size, Capacity: int64(fs.Blocks) * size, Used: int64(fs.Blocks-fs.Bfree) * size,
		InodesFree: int64(fs.Ffree), Inodes: int64(fs.Files), ID: uint64(file.Dev),
	}, nil
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
func memoryUse(meminfo string) (m MemoryUsage, ok bool) {
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
		return m, false
	}
	m.Total, m.Used = total, total-free
	m.WorkingSet = m.Used - min(m.Used, values["Inactive(file)"])
	m.Available = total - m.WorkingSet
	return m, true
}
