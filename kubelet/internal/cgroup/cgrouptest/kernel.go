// Package cgrouptest has a cgroup file system for tests: a directory whose files appear, change and go
// by the rules of the kernel.
//
//	kernel, err := cgrouptest.New(t.TempDir(), 2, "cpu", "memory", "pids")
//	groups := cgroup.FS{Mount: kernel.Mount, Disk: kernel}
package cgrouptest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Kernel is a directory that behaves as a mount of cgroups. It is for one goroutine at a time.
type Kernel struct {
	Mount   string
	version int
	// Fault is asked before an operation (mkdir, rmdir, readdir, read, write) on a path below Mount. The
	// operation fails with its error, if there is one, and does nothing. Nil means no faults.
	Fault func(operation, path string) error
}

// New returns a Kernel in an empty directory, of version 1 or 2, that has controllers.
func New(directory string, version int, controllers ...string) (*Kernel, error) {
	k := &Kernel{Mount: directory, version: version}
	if version == 2 {
		return k, k.write(directory, map[string]string{
			"cgroup.controllers": strings.Join(controllers, " "), "cgroup.subtree_control": "", "cgroup.procs": "",
		})
	}
	for _, controller := range controllers {
		if err := os.Mkdir(filepath.Join(directory, controller), 0o755); err != nil {
			return nil, err
		}
		if err := k.fill(filepath.Join(directory, controller), controller); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// file is a file of a controller: what it has at first, and what may be written.
type file struct {
	name, first string
	accept      func(text string) (string, error)
}

// files holds the files by version and controller.
var files = map[int]map[string][]file{
	1: {
		"cpu":     {{"cpu.shares", "1024", clamp}, {"cpu.cfs_quota_us", "-1", quota1}, {"cpu.cfs_period_us", "100000", period}},
		"memory":  {{"memory.limit_in_bytes", "9223372036854771712", memory1}, {"memory.usage_in_bytes", "0", refuse}},
		"pids":    {{"pids.max", "max", limit}},
		"hugetlb": {{"hugetlb.2MB.limit_in_bytes", "9223372036852678656", count}, {"hugetlb.1GB.limit_in_bytes", "9223372036852678656", count}},
		"cpuset":  {{"cpuset.cpus", "", refuse}},
	},
	2: {
		"cpu":    {{"cpu.weight", "100", weight}, {"cpu.max", "max 100000", quota2}},
		"memory": {{"memory.max", "max", limit}, {"memory.current", "0", refuse}},
		"pids":   {{"pids.max", "max", limit}},
		"hugetlb": {
			{"hugetlb.2MB.max", "max", limit}, {"hugetlb.2MB.rsvd.max", "max", limit},
			{"hugetlb.1GB.max", "max", limit}, {"hugetlb.1GB.rsvd.max", "max", limit},
		},
		"cpuset": {{"cpuset.cpus", "", refuse}},
	},
}

func (k *Kernel) check(operation, path string) error {
	if k.Fault == nil {
		return nil
	}
	relative, err := filepath.Rel(k.Mount, path)
	if err == nil {
		err = k.Fault(operation, relative)
	}
	if err != nil {
		return &fs.PathError{Op: operation, Path: path, Err: err}
	}
	return nil
}

// Mkdir creates a cgroup.
func (k *Kernel) Mkdir(path string) error {
	if err := k.check("mkdir", path); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o755); err != nil {
		return err
	}
	if k.version == 1 {
		relative, err := filepath.Rel(k.Mount, path)
		if err != nil {
			return err
		}
		return k.fill(path, strings.Split(relative, "/")[0])
	}
	given, err := os.ReadFile(filepath.Join(filepath.Dir(path), "cgroup.subtree_control"))
	if err != nil {
		return err
	}
	if err := k.write(path, map[string]string{"cgroup.controllers": "", "cgroup.subtree_control": ""}); err != nil {
		return err
	}
	return k.fill(path, strings.Fields(string(given))...)
}

// fill adds the files of controllers to a cgroup that does not have them.
func (k *Kernel) fill(directory string, controllers ...string) error {
	add := map[string]string{"cgroup.procs": ""}
	for _, controller := range controllers {
		for _, f := range files[k.version][controller] {
			add[f.name] = f.first
		}
	}
	for name := range add {
		if _, err := os.Stat(filepath.Join(directory, name)); err == nil {
			delete(add, name)
		}
	}
	if k.version == 2 {
		add["cgroup.controllers"] = strings.Join(controllers, " ")
	}
	return k.write(directory, add)
}

func (k *Kernel) write(directory string, texts map[string]string) error {
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(directory, name), []byte(text+"\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Rmdir removes a cgroup that has no processes and none below it.
func (k *Kernel) Rmdir(path string) error {
	if err := k.check("rmdir", path); err != nil {
		return err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	processes, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
	if err != nil {
		return err
	}
	if strings.TrimSpace(string(processes)) != "" || slices.ContainsFunc(entries, fs.DirEntry.IsDir) {
		return &fs.PathError{Op: "rmdir", Path: path, Err: syscall.EBUSY}
	}
	return os.RemoveAll(path)
}

// ReadDir lists a cgroup.
func (k *Kernel) ReadDir(path string) ([]fs.DirEntry, error) {
	if err := k.check("readdir", path); err != nil {
		return nil, err
	}
	return os.ReadDir(path)
}

// ReadFile reads a file of a cgroup.
func (k *Kernel) ReadFile(path string) ([]byte, error) {
	if err := k.check("read", path); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// WriteFile writes a file of a cgroup. A value that the kernel does not take, and a file that is not
// there, are errors.
func (k *Kernel) WriteFile(path string, data []byte) error {
	if err := k.check("write", path); err != nil {
		return err
	}
	if _, err := os.Stat(path); err != nil {
		return err
	}
	text, directory := strings.TrimSpace(string(data)), filepath.Dir(path)
	if filepath.Base(path) == "cgroup.subtree_control" {
		if err := k.delegate(directory, strings.Fields(text)); err != nil {
			return &fs.PathError{Op: "write", Path: path, Err: err}
		}
		return nil
	}
	for _, controller := range files[k.version] {
		for _, f := range controller {
			if f.name != filepath.Base(path) {
				continue
			}
			text, err := f.accept(text)
			if err != nil {
				return &fs.PathError{Op: "write", Path: path, Err: err}
			}
			return k.write(directory, map[string]string{f.name: text})
		}
	}
	return k.write(directory, map[string]string{filepath.Base(path): text})
}

// delegate gives controllers, such as +cpu, to the cgroups below one. It takes all or none.
func (k *Kernel) delegate(directory string, words []string) error {
	have, err := os.ReadFile(filepath.Join(directory, "cgroup.controllers"))
	if err != nil {
		return err
	}
	given, err := os.ReadFile(filepath.Join(directory, "cgroup.subtree_control"))
	if err != nil {
		return err
	}
	list := strings.Fields(string(given))
	for _, word := range words {
		controller, ok := strings.CutPrefix(word, "+")
		switch {
		case !ok:
			return syscall.EINVAL
		case !slices.Contains(strings.Fields(string(have)), controller):
			return syscall.ENOENT
		case !slices.Contains(list, controller):
			list = append(list, controller)
		}
	}
	if err := k.write(directory, map[string]string{"cgroup.subtree_control": strings.Join(list, " ")}); err != nil {
		return err
	}
	entries, err := os.ReadDir(directory)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := k.fill(filepath.Join(directory, e.Name()), list...); err != nil {
				return err
			}
		}
	}
	return nil
}

// Tree returns all directories below path, which is relative to the mount, and the files in them that
// have another content than a new cgroup.
func (k *Kernel) Tree(path string) (map[string]string, error) {
	first := map[string]string{"cgroup.procs": ""}
	for _, controller := range files[k.version] {
		for _, f := range controller {
			first[f.name] = f.first
		}
	}
	out := map[string]string{}
	err := filepath.WalkDir(filepath.Join(k.Mount, path), func(at string, d fs.DirEntry, err error) error {
		if err != nil || at == k.Mount {
			return err
		}
		name, err := filepath.Rel(k.Mount, at)
		if err != nil {
			return err
		}
		if d.IsDir() {
			out[name] = "directory"
			return nil
		}
		if slices.Contains([]string{"cgroup.controllers", "cgroup.subtree_control"}, d.Name()) {
			return nil
		}
		text, err := os.ReadFile(at)
		if got := strings.TrimSpace(string(text)); err == nil && got != first[d.Name()] {
			out[name] = got
		}
		return err
	})
	return out, err
}

func refuse(string) (string, error) { return "", syscall.EACCES }

// integer parses a number from low to high.
func integer(text string, low, high int64) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return 0, syscall.EINVAL
	case n < low || n > high:
		return 0, syscall.ERANGE
	}
	return n, nil
}

func clamp(text string) (string, error) {
	n, err := integer(text, 0, 1<<62)
	return fmt.Sprint(min(max(n, 2), 262144)), err
}

func weight(text string) (string, error) {
	_, err := integer(text, 1, 10000)
	return text, err
}

func quota1(text string) (string, error) {
	if text == "-1" {
		return text, nil
	}
	_, err := integer(text, 1000, 1<<40)
	return text, err
}

func period(text string) (string, error) {
	_, err := integer(text, 1000, 1000000)
	return text, err
}

func quota2(text string) (string, error) {
	quota, period, two := strings.Cut(text, " ")
	if _, err := integer(period, 1000, 1000000); err != nil || !two {
		return "", syscall.EINVAL
	}
	if quota == "max" {
		return text, nil
	}
	_, err := integer(quota, 1000, 1<<40)
	return text, err
}

func memory1(text string) (string, error) {
	if text == "-1" {
		return "9223372036854771712", nil
	}
	return count(text)
}

// count takes a number of bytes, which the kernel rounds down to pages.
func count(text string) (string, error) {
	n, err := integer(text, 0, 1<<62)
	return fmt.Sprint(n / 4096 * 4096), err
}

func limit(text string) (string, error) {
	if text == "max" {
		return text, nil
	}
	n, err := integer(text, 0, 1<<62)
	if n == 1<<62 {
		return "max", err
	}
	return text, err
}
