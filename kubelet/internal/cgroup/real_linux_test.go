package cgroup_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/planekit/planekit/kubelet/internal/cgroup"
)

// TestRealLimits: the kernel takes what this package writes, and gives it back.
func TestRealLimits(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("control groups need root")
	}
	g := cgroup.FS{Mount: "/sys/fs/cgroup"}
	top := fmt.Sprintf("/planekit-test-limits-%d", os.Getpid())
	want := cgroup.Limits{Shares: 512, Quota: 25000, Memory: 64 << 20}
	if err := g.Create(top+"/podx", cgroup.Settings{Limits: want, Processes: 50, HugePages: map[string]int64{"2MB": 2 << 20}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Remove(top); err != nil {
			t.Error(err)
		}
	})
	check := func(want cgroup.Limits) {
		t.Helper()
		got, err := g.Limits(top + "/podx")
		if err != nil || got.Quota != want.Quota || got.Memory != want.Memory || got.Shares > want.Shares || got.Shares < want.Shares-26 {
			t.Errorf("%+v %v, want %+v", got, err, want)
		}
	}
	check(want)
	if n, err := g.MemoryUsage(top + "/podx"); err != nil || n > 64<<20 {
		t.Errorf("usage %d %v", n, err)
	}
	if n, err := g.WorkingSet(top + "/podx"); err != nil || n > 64<<20 {
		t.Errorf("working set %d %v", n, err)
	}
	for _, err := range []error{g.SetShares(top+"/podx", 262144), g.SetQuota(top+"/podx", 0), g.SetMemory(top+"/podx", 0)} {
		if err != nil {
			t.Error(err)
		}
	}
	check(cgroup.Limits{Shares: 262144})
	if err := g.SetQuota(top+"/podx", 999); err == nil {
		t.Error("the kernel took a quota that is too small")
	}
	if err := g.Remove(top + "/podx"); err != nil || g.Exists(top+"/podx") {
		t.Errorf("not removed: %v", err)
	}
}

// restoreDelegation takes back, at the end of the test, what the root of version 2 was not giving before.
func restoreDelegation(t *testing.T, mount string) {
	file := filepath.Join(mount, "cgroup.subtree_control")
	before, err := os.ReadFile(file)
	if err != nil {
		return // version 1
	}
	t.Cleanup(func() {
		now, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
		}
		for _, controller := range strings.Fields(string(now)) {
			if slices.Contains(strings.Fields(string(before)), controller) {
				continue
			}
			// Another program may need it by now.
			if err := os.WriteFile(file, []byte("-"+controller), 0o644); err != nil && !errors.Is(err, syscall.EBUSY) {
				t.Error(err)
			}
		}
	})
}

// TestRealDelegation: the kernel gives a controller of version 2 to a cgroup once those above it give it on.
func TestRealDelegation(t *testing.T) {
	const mount = "/sys/fs/cgroup/unified"
	words := func(file string) []string {
		text, _ := os.ReadFile(filepath.Join(mount, file)) // none if it is not mounted
		return strings.Fields(string(text))
	}
	if os.Getuid() != 0 || !slices.Contains(words("cgroup.controllers"), "hugetlb") {
		t.Skip("this needs root, and version 2 beside version 1 with the hugetlb controller")
	}
	restoreDelegation(t, mount)
	g := cgroup.FS{Mount: mount}
	top := fmt.Sprintf("planekit-test-hugetlb-%d", os.Getpid())
	t.Cleanup(func() {
		if err := g.Remove("/" + top); err != nil {
			t.Error(err)
		}
	})
	for _, test := range []struct {
		bytes int64
		want  string
	}{{4 << 20, "4194304"}, {0, "0"}, {cgroup.Unlimited, "max"}} {
		if err := g.Create("/"+top+"/podx", cgroup.Settings{HugePages: map[string]int64{"2MB": test.bytes}}); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"hugetlb.2MB.max", "hugetlb.2MB.rsvd.max"} {
			// 2^62 bytes are more pages than the kernel counts.
			got := words(top + "/podx/" + file)
			if len(got) != 1 || got[0] != test.want && !(test.want == "max" && len(got[0]) >= 19) {
				t.Errorf("%s is %v, want %s", file, got, test.want)
			}
		}
	}
	if got := words(top + "/cgroup.subtree_control"); !slices.Equal(got, []string{"hugetlb"}) {
		t.Errorf("%s gives %v", top, got)
	}
}
