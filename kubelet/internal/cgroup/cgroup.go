// Package cgroup creates and removes control groups (cgroups(7)).
//
//	fs := cgroup.FS{Mount: "/sys/fs/cgroup"}
//	err := fs.Create("/kubepods/pod1", cgroup.Settings{Limits: cgroup.Limits{Shares: 1024, Memory: 1 << 30}})
//
// Paths are the same in every hierarchy of version 1. What is mounted decides about the version.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
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
	// CPU says how the quotas of cpu time are enforced.
	CPU CPU
	// Disk does what the file systems are asked. Nil means the machine.
	Disk Disk
}

func (g FS) disk() Disk {
	if g.Disk == nil {
		return machine{}
	}
	return g.Disk
}

// walk returns a directory and all below it, parents first; nothing if it does not exist.
func (g FS) walk(directory string) ([]string, error) {
	entries, err := g.disk().ReadDir(directory)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	all := []string{directory}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		below, err := g.walk(filepath.Join(directory, e.Name()))
		if err != nil {
			return nil, err
		}
		all = append(all, below...)
	}
	return all, nil
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
	roots, err := g.layout().roots()
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, root := range roots {
		directories, err := g.walk(filepath.Join(root, path))
		if err != nil {
			return nil, err
		}
		for _, directory := range directories {
			data, err := g.disk().ReadFile(filepath.Join(directory, "cgroup.procs"))
			if ignoreMissing(err) != nil {
				return nil, err
			}
			for line := range strings.Lines(string(data)) {
				// Zero stands for a process outside this process's PID namespace.
				if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && pid > 0 && !slices.Contains(pids, pid) {
					pids = append(pids, pid)
				}
			}
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
	roots, err := g.layout().roots()
	if err != nil {
		return err
	}
	var errs []error
	for _, root := range roots {
		directories, err := g.walk(filepath.Join(root, path))
		errs = append(errs, err)
		for _, directory := range slices.Backward(directories) {
			if err := g.disk().Rmdir(directory); ignoreMissing(err) != nil {
				errs = append(errs, fmt.Errorf("remove cgroup %s: %w", directory, err))
			}
		}
	}
	return errors.Join(errs...)
}

// RemoveEmpty removes a cgroup and its empty parents.
func (g FS) RemoveEmpty(path string) error {
	roots, err := g.layout().roots()
	if err != nil {
		return err
	}
	for _, root := range roots {
		for at := path; at != "/" && at != "."; at = filepath.Dir(at) {
			if err := g.disk().Rmdir(filepath.Join(root, at)); ignoreMissing(err) != nil {
				break
			}
		}
	}
	return nil
}

// Children returns the names below a cgroup in any hierarchy.
func (g FS) Children(path string) ([]string, error) {
	roots, err := g.layout().roots()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, root := range roots {
		entries, err := g.disk().ReadDir(filepath.Join(root, path))
		if ignoreMissing(err) != nil {
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
