package cgroup

import (
	"os"
	"path/filepath"
	"testing"
)

func TestLimits(t *testing.T) {
	for _, name := range []string{"v1", "v2"} {
		t.Run(name, func(t *testing.T) {
			mount := t.TempDir()
			g := FS{Mount: mount}
			if name == "v2" {
				if err := os.WriteFile(filepath.Join(mount, "cgroup.controllers"), nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			first := Limits{Shares: 1024, Quota: 50000, Memory: 1 << 20}
			if err := g.Create("/pod", first); err != nil {
				t.Fatal(err)
			}
			same := func(want Limits) {
				t.Helper()
				got, err := g.Limits("/pod")
				if err != nil || got.Quota != want.Quota || got.Memory != want.Memory || weight(got.Shares) != weight(want.Shares) {
					t.Errorf("%+v %v, want %+v", got, err, want)
				}
			}
			same(first)
			if err := g.SetShares("/pod", 2048); err != nil {
				t.Fatal(err)
			}
			if err := g.SetQuota("/pod", 70000); err != nil {
				t.Fatal(err)
			}
			if err := g.SetMemory("/pod", 2<<20); err != nil {
				t.Fatal(err)
			}
			same(Limits{Shares: 2048, Quota: 70000, Memory: 2 << 20})
			if err := g.SetQuota("/pod", 0); err != nil {
				t.Fatal(err)
			}
			if err := g.SetMemory("/pod", 0); err != nil {
				t.Fatal(err)
			}
			same(Limits{Shares: 2048})
			if name == "v1" { // how the kernel shows no limit
				if err := os.WriteFile(filepath.Join(mount, "memory/pod/memory.limit_in_bytes"), []byte("9223372036854771712\n"), 0o644); err != nil {
					t.Fatal(err)
				}
				same(Limits{Shares: 2048})
			}
			if err := g.SetQuota("/gone", 1); err == nil {
				t.Error("a cgroup that is gone was changed")
			}
			if _, err := g.Limits("/gone"); err == nil {
				t.Error("a cgroup that is gone has limits")
			}
			if _, err := g.MemoryUsage("/pod"); err == nil {
				t.Error("a cgroup without a usage has one")
			}
			usage := map[string]string{"v1": "memory/pod/memory.usage_in_bytes", "v2": "pod/memory.current"}[name]
			if err := os.WriteFile(filepath.Join(mount, usage), []byte("4096\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			if n, err := g.MemoryUsage("/pod"); n != 4096 || err != nil {
				t.Errorf("usage %d %v", n, err)
			}
		})
	}
}
