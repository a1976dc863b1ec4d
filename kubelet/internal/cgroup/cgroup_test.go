package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestCgroupTrees(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, mount string){
		"v1": func(t *testing.T, mount string) {
			for _, controller := range []string{"cpu", "memory", "pids"} {
				if err := os.Mkdir(filepath.Join(mount, controller), 0o755); err != nil {
					t.Fatal(err)
				}
			}
		},
		"v2": func(t *testing.T, mount string) {
			if err := os.WriteFile(filepath.Join(mount, "cgroup.controllers"), []byte("cpu memory"), 0o644); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			mount := t.TempDir()
			prepare(t, mount)
			g := FS{Mount: mount}
			if err := g.Create("/top/burstable/podx", Limits{Shares: 1024, Quota: 50000, Memory: 1 << 20}); err != nil {
				t.Fatal(err)
			}
			want := map[string]string{
				"cpu/top/burstable/podx/cpu.shares": "1024", "cpu/top/burstable/podx/cpu.cfs_quota_us": "50000",
				"memory/top/burstable/podx/memory.limit_in_bytes": "1048576",
			}
			if name == "v2" {
				want = map[string]string{
					"top/burstable/podx/cpu.weight": "39", "top/burstable/podx/cpu.max": "50000 100000", "top/burstable/podx/memory.max": "1048576",
				}
			}
			for path, value := range want {
				text, err := os.ReadFile(filepath.Join(mount, path))
				if err != nil || string(text) != value {
					t.Errorf("%s is %q %v, want %q", path, text, err, value)
				}
				// What are files here are part of the directory in a cgroup.
				if err := os.Remove(filepath.Join(mount, path)); err != nil {
					t.Fatal(err)
				}
			}
			if names, err := g.Children("/top/burstable"); err != nil || !slices.Equal(names, []string{"podx"}) {
				t.Errorf("children: %v %v", names, err)
			}
			for range 2 {
				if err := g.Remove("/top/burstable/podx"); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
