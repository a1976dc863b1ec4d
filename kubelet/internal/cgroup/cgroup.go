// Package cgroup creates and removes control groups (cgroups(7)).
//
//	fs := cgroup.FS{Mount: "/sys/fs/cgroup"}
//	err := fs.Create("/kubepods/pod1", cgroup.Limits{Shares: 1024, Memory: 1 << 30})
//
// Paths are the same in every hierarchy of version 1.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// FS is a mount of the cgroup file systems: version 1 with one hierarchy per controller, or version
// 2, which has cgroup.controllers at its root.
type FS struct {
	Mount string
}

// Period is the time in which a cgroup may use its Limits.Quota, in microseconds.
const Period = 100000

func (g FS) unified() bool {
	_, err := os.Stat(filepath.Join(g.Mount, "cgroup.controllers"))
	return err == nil
}

// hierarchies returns the roots of all hierarchies.
func (g FS) hierarchies() ([]string, error) {
	if g.unified() {
		return []string{g.Mount}, nil
	}
	entries, err := os.ReadDir(g.Mount)
	if err != nil {
		return nil, err
	}
	var tops []string
	for _, e := range entries {
		// A link such as cpu,cpuacct leads to a hierarchy that is listed too.
		if e.IsDir() {
			tops = append(tops, filepath.Join(g.Mount, e.Name()))
		}
	}
	return tops, nil
}

// Limits holds the limits of a cgroup. Zero means no limit, except for Shares.
type Limits struct {
	// Shares is the weight of version 1, from 2 to 262144.
	Shares int64
	Quota  int64 // microseconds in Period
	Memory int64 // bytes
}

// Create creates a cgroup with limits. The runtime creates it in the other hierarchies.
func (g FS) Create(path string, l Limits) error {
	settings := map[string]string{}
	if g.unified() {
		settings["cpu.weight"] = strconv.FormatInt(weight(l.Shares), 10)
		if l.Quota > 0 {
			settings["cpu.max"] = fmt.Sprintf("%d %d", l.Quota, Period)
		}
		if l.Memory > 0 {
			settings["memory.max"] = strconv.FormatInt(l.Memory, 10)
		}
		if err := g.delegate(path); err != nil {
			return err
		}
		return writeSettings(filepath.Join(g.Mount, path), settings)
	}
	settings["cpu.shares"] = strconv.FormatInt(l.Shares, 10)
	if l.Quota > 0 {
		settings["cpu.cfs_quota_us"] = strconv.FormatInt(l.Quota, 10)
	}
	if err := writeSettings(filepath.Join(g.Mount, "cpu", path), settings); err != nil {
		return err
	}
	settings = map[string]string{}
	if l.Memory > 0 {
		settings["memory.limit_in_bytes"] = strconv.FormatInt(l.Memory, 10)
	}
	return writeSettings(filepath.Join(g.Mount, "memory", path), settings)
}

// delegate enables the cpu, memory, pids and cpuset controllers down to path.
func (g FS) delegate(path string) error {
	at := g.Mount
	for element := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		control := filepath.Join(at, "cgroup.subtree_control")
		for _, controller := range []string{"cpu", "memory", "pids", "cpuset"} {
			if err := os.WriteFile(control, []byte("+"+controller), 0o644); err != nil && !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.EINVAL) {
				return err
			}
		}
		at = filepath.Join(at, element)
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
	}
	return nil
}

func writeSettings(directory string, settings map[string]string) error {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	for name, value := range settings {
		if err := os.WriteFile(filepath.Join(directory, name), []byte(value), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// killPauses are the pauses after each attempt to kill the processes in a cgroup: a killed process
// leaves its cgroup only once it has exited.
var killPauses = []time.Duration{10 * time.Millisecond, 50 * time.Millisecond, 200 * time.Millisecond}

// Kill kills the processes in a cgroup and below it. After the runtime has removed all containers
// of a pod, these are processes that it does not know of: a runtime that is killed while it starts a
// container can leave some.
func (g FS) Kill(path string) error {
	for _, pause := range killPauses {
		pids, err := g.processes(path)
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("kill process %d in cgroup %s: %w", pid, path, err)
			}
		}
		time.Sleep(pause)
	}
	return nil
}

// Processes returns the number of processes in a cgroup and below it.
func (g FS) Processes(path string) (int, error) {
	pids, err := g.processes(path)
	return len(pids), err
}

// processes returns the processes in a cgroup and below it, in any hierarchy.
func (g FS) processes(path string) ([]int, error) {
	tops, err := g.hierarchies()
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, top := range tops {
		err := filepath.WalkDir(filepath.Join(top, path), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return ignoreMissing(err)
			}
			data, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
			for line := range strings.Lines(string(data)) {
				// Zero stands for a process outside this process's PID namespace.
				if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && pid > 0 && !slices.Contains(pids, pid) {
					pids = append(pids, pid)
				}
			}
			return ignoreMissing(err)
		})
		if err != nil {
			return nil, err
		}
	}
	return pids, nil
}

// ignoreMissing returns err unless it says that a cgroup has been removed.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return nil
	}
	return err
}

// Remove removes a cgroup and all below it from every hierarchy. It fails if a process is in one of
// them.
func (g FS) Remove(path string) error {
	tops, err := g.hierarchies()
	if err != nil {
		return err
	}
	var errs []error
	for _, top := range tops {
		var directories []string
		err := filepath.WalkDir(filepath.Join(top, path), func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err == nil && d.IsDir() {
				directories = append(directories, path)
			}
			return err
		})
		errs = append(errs, err)
		for _, directory := range slices.Backward(directories) {
			if err := syscall.Rmdir(directory); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, fmt.Errorf("remove cgroup %s: %w", directory, err))
			}
		}
	}
	return errors.Join(errs...)
}

// RemoveEmpty removes a cgroup and its empty parents.
func (g FS) RemoveEmpty(path string) error {
	tops, err := g.hierarchies()
	if err != nil {
		return err
	}
	for _, top := range tops {
		for at := path; at != "/" && at != "."; at = filepath.Dir(at) {
			if err := syscall.Rmdir(filepath.Join(top, at)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				break
			}
		}
	}
	return nil
}

// Children returns the names below a cgroup in any hierarchy.
func (g FS) Children(path string) ([]string, error) {
	tops, err := g.hierarchies()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, top := range tops {
		entries, err := os.ReadDir(filepath.Join(top, path))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			if e.IsDir() && !slices.Contains(names, e.Name()) {
				names = append(names, e.Name())
			}
		}
	}
	return names, nil
}
