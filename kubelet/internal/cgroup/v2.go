package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// unified is version 2: all controllers share one hierarchy.
type unified struct{ FS }

func (u unified) roots() ([]string, error) { return []string{u.Mount}, nil }

func (u unified) has(controller string) bool {
	list, err := u.controllers(u.Mount)
	return err == nil && slices.Contains(list, controller)
}

func (u unified) directory(_, path string) string { return filepath.Join(u.Mount, path) }

// controllers returns the controllers that a cgroup can give to those below it.
func (u unified) controllers(directory string) ([]string, error) {
	text, err := u.disk().ReadFile(filepath.Join(directory, "cgroup.controllers"))
	return strings.Fields(string(text)), err
}

// create creates a cgroup and its parents. Each parent gives those below it the controllers that
// limit pods, so far as the kernel has them.
func (u unified) create(path string, _ []string) error {
	at := u.Mount
	for element := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if err := u.delegate(at); err != nil {
			return err
		}
		at = filepath.Join(at, element)
		if err := u.disk().Mkdir(at); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// delegate enables controllers below a cgroup. Each is written by itself, because the kernel takes all
// or none, and one that cannot be enabled, for instance because the cgroup has processes, must not keep
// back the others. A limit that then lacks its file is an error where it is set.
func (u unified) delegate(directory string) error {
	have, err := u.controllers(directory)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file := filepath.Join(directory, "cgroup.subtree_control")
	enabled, err := u.disk().ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, controller := range []string{controllerCPU, controllerCPUSet, controllerMemory, controllerHugePages, controllerProcesses} {
		if !slices.Contains(have, controller) || slices.Contains(strings.Fields(string(enabled)), controller) {
			continue
		}
		_ = u.disk().WriteFile(file, []byte("+"+controller))
	}
	return nil
}

func (u unified) encode(a amount) []setting {
	switch a.resource {
	case shares:
		return []setting{{controller: controllerCPU, file: "cpu.weight", value: strconv.FormatInt(weight(a.value), 10)}}
	case quota:
		n, period := u.CPU.kernel(a.value)
		return []setting{{controller: controllerCPU, file: "cpu.max", value: fmt.Sprintf("%s %d", maximum(n), period)}}
	case memory:
		return []setting{{controller: controllerMemory, file: "memory.max", value: maximum(a.value)}}
	case processes:
		return []setting{{controller: controllerProcesses, file: "pids.max", value: maximum(a.value)}}
	}
	number := strconv.FormatInt(a.value, 10)
	return []setting{
		{controller: controllerHugePages, file: "hugetlb." + a.size + ".max", value: number},
		{controller: controllerHugePages, file: "hugetlb." + a.size + ".rsvd.max", value: number, optional: true},
	}
}

func (unified) decode(read func(controller, file string) string) Limits {
	var l Limits
	if w := number(read(controllerCPU, "cpu.weight")); w > 0 {
		l.Shares = 2 + ((min(w, 10000)-1)*262142+9998)/9999 // rounded up, so that it has this weight
	}
	quota, period, _ := strings.Cut(read(controllerCPU, "cpu.max"), " ")
	l.Quota = measured(quota, period)
	l.Memory = number(read(controllerMemory, "memory.max"))
	return l
}

func (unified) usage() string { return "memory.current" }

func (unified) inactive() string { return "inactive_file" }

// weight converts the shares of version 1, from 2 to 262144, to the weight of version 2, from 1 to
// 10000.
func weight(shares int64) int64 { return 1 + (shares-2)*9999/262142 }

// maxQuota is more than the largest quota of the kernel, in microseconds.
const maxQuota = int64(1) << 45

// maximum returns a limit as version 2 and the pids controller write it.
func maximum(limit int64) string {
	if limit <= 0 {
		return "max"
	}
	return strconv.FormatInt(limit, 10)
}
