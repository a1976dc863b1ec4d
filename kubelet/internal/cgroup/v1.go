package cgroup

import (
	"errors"
	"io/fs"
	"math"
	"path/filepath"
	"strconv"
)

// separate is version 1: each controller has a hierarchy of its own.
type separate struct{ FS }

func (s separate) roots() ([]string, error) {
	entries, err := s.disk().ReadDir(s.Mount)
	if err != nil {
		return nil, err
	}
	var roots []string
	for _, e := range entries {
		// A link such as cpu,cpuacct leads to a hierarchy that is listed too.
		if e.IsDir() {
			roots = append(roots, filepath.Join(s.Mount, e.Name()))
		}
	}
	return roots, nil
}

func (s separate) has(controller string) bool {
	_, err := s.disk().ReadDir(filepath.Join(s.Mount, controller))
	return err == nil
}

func (s separate) directory(controller, path string) string {
	return filepath.Join(s.Mount, controller, path)
}

func (s separate) create(path string, controllers []string) error {
	for _, controller := range controllers {
		if err := s.makeAll(filepath.Join(s.Mount, controller), path); err != nil {
			return err
		}
	}
	return nil
}

// makeAll creates a cgroup and its parents below the root of a hierarchy, which exists: what is next to
// the hierarchies is no cgroup.
func (s separate) makeAll(root, path string) error {
	err := s.disk().Mkdir(filepath.Join(root, path))
	if parent := filepath.Dir(path); errors.Is(err, fs.ErrNotExist) && parent != path && parent != "/" && parent != "." {
		if err := s.makeAll(root, parent); err != nil {
			return err
		}
		err = s.disk().Mkdir(filepath.Join(root, path))
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

func (s separate) encode(a amount) []setting {
	number, limit := strconv.FormatInt(a.value, 10), limitOrNone(a.value)
	switch a.resource {
	case shares:
		return []setting{{controller: controllerCPU, file: "cpu.shares", value: number}}
	case quota:
		n, period := s.CPU.kernel(a.value)
		set := setting{controller: controllerCPU, file: "cpu.cfs_quota_us", value: limitOrNone(n)}
		if n == 0 {
			return []setting{set}
		}
		return []setting{{controller: controllerCPU, file: "cpu.cfs_period_us", value: strconv.FormatInt(period, 10)}, set}
	case memory:
		return []setting{{controller: controllerMemory, file: "memory.limit_in_bytes", value: limit}}
	case processes:
		return []setting{{controller: controllerProcesses, file: "pids.max", value: maximum(a.value)}}
	}
	return []setting{
		{controller: controllerHugePages, file: "hugetlb." + a.size + ".limit_in_bytes", value: number},
		{controller: controllerHugePages, file: "hugetlb." + a.size + ".rsvd.limit_in_bytes", value: number, optional: true},
	}
}

// limitOrNone returns a limit as version 1 writes it.
func limitOrNone(limit int64) string {
	if limit <= 0 {
		return "-1"
	}
	return strconv.FormatInt(limit, 10)
}

func (separate) decode(read func(controller, file string) string) Limits {
	l := Limits{
		Shares: number(read(controllerCPU, "cpu.shares")),
		Quota:  measured(read(controllerCPU, "cpu.cfs_quota_us"), read(controllerCPU, "cpu.cfs_period_us")),
		Memory: number(read(controllerMemory, "memory.limit_in_bytes")),
	}
	if l.Memory >= math.MaxInt64/4096*4096 { // how version 1 writes no limit
		l.Memory = 0
	}
	return l
}

func (separate) usage() string { return "memory.usage_in_bytes" }

func (separate) inactive() string { return "total_inactive_file" }
