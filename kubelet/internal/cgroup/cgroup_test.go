package cgroup_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/planekit/planekit/kubelet/internal/cgroup"
	"github.com/planekit/planekit/kubelet/internal/cgroup/cgrouptest"
)

// kernel returns a kernel of a version with controllers, and cgroups on it.
func kernel(t *testing.T, version int, controllers ...string) (*cgrouptest.Kernel, cgroup.FS) {
	t.Helper()
	k, err := cgrouptest.New(t.TempDir(), version, controllers...)
	if err != nil {
		t.Fatal(err)
	}
	return k, cgroup.FS{Mount: k.Mount, Disk: k}
}

func all() []string { return []string{"cpu", "cpuset", "memory", "pids", "hugetlb"} }

// same checks the tree below the mount.
func same(t *testing.T, k *cgrouptest.Kernel, want map[string]string) {
	t.Helper()
	got, err := k.Tree(".")
	if err != nil {
		t.Fatal(err)
	}
	if k.Mount != "" && !maps.Equal(got, want) {
		t.Errorf("the tree is\n%v, want\n%v", got, want)
	}
}

var full = cgroup.Settings{
	Limits: cgroup.Limits{Shares: 1024, Quota: 50000, Memory: 1 << 20}, Processes: 100,
	HugePages: map[string]int64{"2MB": 4 << 20, "1GB": cgroup.Unlimited},
}

// TestCreate1: version 1 has a directory in the hierarchy of each controller that limits pods.
func TestCreate1(t *testing.T) {
	k, g := kernel(t, 1, all()...)
	for range 2 {
		if err := g.Create("/top/podx", full); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{
		"cpu/top/podx/cpu.cfs_quota_us": "50000", "memory/top/podx/memory.limit_in_bytes": "1048576", "pids/top/podx/pids.max": "100",
		"hugetlb/top/podx/hugetlb.2MB.limit_in_bytes": "4194304", "hugetlb/top/podx/hugetlb.1GB.limit_in_bytes": "4611686018427387904",
		"cpuset": "directory",
	}
	for _, controller := range []string{"cpu", "memory", "pids", "hugetlb"} {
		want[controller], want[controller+"/top"], want[controller+"/top/podx"] = "directory", "directory", "directory"
	}
	same(t, k, want)
	if names, err := g.Children("/top"); err != nil || !slices.Equal(names, []string{"podx"}) {
		t.Errorf("children: %v %v", names, err)
	}
	if err := g.Create("/top/podx/container/nested", cgroup.Settings{}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := g.Remove("/top/podx"); err != nil {
			t.Error(err)
		}
	}
	maps.DeleteFunc(want, func(path, _ string) bool { return strings.Contains(path, "podx") })
	same(t, k, want)
}

// TestCreate2: version 2 has one directory, and each above it gives the controllers to those below it.
func TestCreate2(t *testing.T) {
	k, g := kernel(t, 2, append(all(), "io", "misc")...)
	for range 2 {
		if err := g.Create("/top/podx", full); err != nil {
			t.Fatal(err)
		}
	}
	same(t, k, map[string]string{
		"top": "directory", "top/podx": "directory", "top/podx/cpu.weight": "39", "top/podx/cpu.max": "50000 100000",
		"top/podx/memory.max": "1048576", "top/podx/pids.max": "100",
		"top/podx/hugetlb.2MB.max": "4194304", "top/podx/hugetlb.2MB.rsvd.max": "4194304",
	})
	for directory, want := range map[string]string{"": "cpu cpuset hugetlb memory pids", "top": "cpu cpuset hugetlb memory pids", "top/podx": ""} {
		text, err := os.ReadFile(filepath.Join(k.Mount, directory, "cgroup.subtree_control"))
		got := strings.Fields(string(text))
		slices.Sort(got)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q gives %v (%v), want %s", directory, got, err, want)
		}
	}
	if err := errors.Join(g.Create("/top/podx/container", cgroup.Settings{}), g.Remove("/top/podx"), g.RemoveEmpty("/top")); err != nil {
		t.Error(err)
	}
	same(t, k, map[string]string{})
}

// TestMissingControllers: where the kernel cannot limit huge pages, they are not limited. Processes that
// cannot be limited are an error.
func TestMissingControllers(t *testing.T) {
	for version, tree := range map[int]map[string]string{
		1: {"cpu": "directory", "memory": "directory", "cpu/podx": "directory", "memory/podx": "directory"},
		2: {"podx": "directory", "podx/cpu.weight": "39"},
	} {
		k, g := kernel(t, version, "cpu", "memory")
		if g.Has("pids") || g.Has("hugetlb") || !g.Has("cpu") {
			t.Errorf("version %d has the wrong controllers", version)
		}
		s := cgroup.Settings{Limits: cgroup.Limits{Shares: 1024}, HugePages: full.HugePages}
		if err := g.Create("/podx", s); err != nil {
			t.Error(err)
		}
		same(t, k, tree)
		s.Processes = 10
		if err := g.Create("/podx", s); err == nil {
			t.Errorf("version %d limits processes without the controller", version)
		}
	}
}

// TestWithheld: a controller that cannot be given on does not keep back the others, and is an error only
// for the limit that needs it.
func TestWithheld(t *testing.T) {
	k, g := kernel(t, 2, all()...)
	if err := g.Create("/top", cgroup.Settings{}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(k.Mount, "top/cgroup.controllers"), []byte("cpu pids\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := g.Create("/top/podx", full); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	same(t, k, map[string]string{
		"top": "directory", "top/podx": "directory", "top/podx/cpu.weight": "39", "top/podx/cpu.max": "50000 100000", "top/podx/pids.max": "100",
	})
	// A process in a cgroup keeps it from giving on what counts processes.
	k.Fault = func(operation, path string) error {
		if operation == "write" && path == "top/cgroup.subtree_control" {
			return syscall.EBUSY
		}
		return nil
	}
	if err := os.WriteFile(filepath.Join(k.Mount, "top/cgroup.subtree_control"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for n, missing := range map[int64]bool{0: false, cgroup.Unlimited: false, 4 << 20: true} {
		if err := g.Create("/top/pody", cgroup.Settings{HugePages: map[string]int64{"2MB": n}}); errors.Is(err, fs.ErrNotExist) != missing {
			t.Errorf("%d bytes of huge pages: error %v", n, err)
		}
	}
}

// TestFaults: a limit that cannot be set does not keep back the others; a directory that cannot be removed
// is an error, and the rest is removed.
func TestFaults(t *testing.T) {
	for _, version := range []int{1, 2} {
		k, g := kernel(t, version, all()...)
		k.Fault = func(operation, path string) error {
			if operation == "write" && strings.Contains(filepath.Base(path), "memory") {
				return syscall.EBUSY
			}
			return nil
		}
		if err := g.Create("/podx", full); !errors.Is(err, syscall.EBUSY) {
			t.Errorf("version %d: error %v", version, err)
		}
		k.Fault = nil
		got, err := g.Limits("/podx")
		if err != nil || got.Memory != 0 || got.Quota != 50000 {
			t.Errorf("version %d: %+v %v", version, got, err)
		}
		if err := g.Create("/podx/container", cgroup.Settings{Limits: cgroup.Limits{Shares: 2}}); err != nil {
			t.Fatal(err)
		}
		k.Fault = func(operation, path string) error {
			if operation == "rmdir" && filepath.Base(path) == "podx" {
				return syscall.EBUSY
			}
			return nil
		}
		if err := g.Remove("/podx"); !errors.Is(err, syscall.EBUSY) || !g.Exists("/podx") || g.Exists("/podx/container") {
			t.Errorf("version %d: error %v", version, err)
		}
		// Another removed it meanwhile.
		k.Fault = func(operation, path string) error {
			if operation == "rmdir" {
				return syscall.ENOENT
			}
			return nil
		}
		if err := g.Remove("/podx"); err != nil {
			t.Errorf("version %d: error %v", version, err)
		}
		k.Fault = nil
		if err := g.Remove("/podx"); err != nil || g.Exists("/podx") {
			t.Errorf("version %d: error %v", version, err)
		}
	}
}

// TestProcesses: processes are counted once, in whatever hierarchy and at whatever depth they are.
func TestProcesses(t *testing.T) {
	for version, paths := range map[int][]string{
		1: {"cpu/podx/c/cgroup.procs", "memory/podx/c/cgroup.procs", "memory/podx/cgroup.procs"},
		2: {"podx/c/cgroup.procs", "podx/cgroup.procs"},
	} {
		k, g := kernel(t, version, all()...)
		if err := g.Create("/podx/c", cgroup.Settings{}); err != nil {
			t.Fatal(err)
		}
		for i, path := range paths {
			text := "4194305\n0\n"
			if i == len(paths)-1 {
				text = "4194306\n"
			}
			if err := os.WriteFile(filepath.Join(k.Mount, path), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if n, err := g.Processes("/podx"); n != 2 || err != nil {
			t.Errorf("version %d: %d %v", version, n, err)
		}
		if err := g.Remove("/podx"); !errors.Is(err, syscall.EBUSY) {
			t.Errorf("version %d: %v", version, err)
		}
		if n, err := g.Processes("/none"); n != 0 || err != nil {
			t.Errorf("version %d: %d %v", version, n, err)
		}
	}
}
