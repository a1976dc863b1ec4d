package cgroup_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/planekit/planekit/kubelet/internal/cgroup"
)

func TestLimits(t *testing.T) {
	for _, version := range []int{1, 2} {
		k, g := kernel(t, version, all()...)
		first := cgroup.Limits{Shares: 1024, Quota: 50000, Memory: 1 << 20}
		if err := g.Create("/pod", cgroup.Settings{Limits: first}); err != nil {
			t.Fatal(err)
		}
		same := func(want cgroup.Limits) {
			t.Helper()
			got, err := g.Limits("/pod")
			// One step of version 2's weight is 26 shares.
			if err != nil || got.Quota != want.Quota || got.Memory != want.Memory || got.Shares > want.Shares || got.Shares < want.Shares-26 {
				t.Errorf("version %d: %+v %v, want %+v", version, got, err, want)
			}
			if err := g.SetShares("/pod", got.Shares); err != nil {
				t.Error(err)
			}
			if again, err := g.Limits("/pod"); err != nil || again != got {
				t.Errorf("version %d: %+v becomes %+v (%v)", version, got, again, err)
			}
		}
		same(first)
		for _, err := range []error{g.SetShares("/pod", 2048), g.SetQuota("/pod", 70000), g.SetMemory("/pod", 2<<20)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		same(cgroup.Limits{Shares: 2048, Quota: 70000, Memory: 2 << 20})
		for _, err := range []error{g.SetShares("/pod", 2048), g.SetQuota("/pod", 0), g.SetMemory("/pod", 0)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		same(cgroup.Limits{Shares: 2048})
		if err := g.SetQuota("/gone", 1000); err == nil {
			t.Error("a cgroup that is gone was changed")
		}
		if _, err := g.Limits("/gone"); err == nil {
			t.Error("a cgroup that is gone has limits")
		}
		usage := filepath.Join(k.Mount, map[int]string{1: "memory/pod/memory.usage_in_bytes", 2: "pod/memory.current"}[version])
		for text, want := range map[string]int64{"": -1, "some": -1, "4096\n": 4096} {
			if err := os.WriteFile(usage, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			if n, err := g.MemoryUsage("/pod"); (err == nil) != (want >= 0) || err == nil && n != want {
				t.Errorf("usage %d %v", n, err)
			}
		}
		if err := os.Remove(usage); err != nil {
			t.Fatal(err)
		}
		if _, err := g.MemoryUsage("/pod"); err == nil {
			t.Error("a cgroup without a usage has one")
		}
	}
}

// TestPeriod: a quota is for the constant Period, whatever period the kernel has, and there is none with
// NoQuota.
func TestPeriod(t *testing.T) {
	for _, version := range []int{1, 2} {
		k, g := kernel(t, version, all()...)
		for _, test := range []struct {
			cpu         cgroup.CPU
			quota, read int64
			period, max string
		}{
			{cgroup.CPU{}, 50000, 50000, "100000", "50000"},
			{cgroup.CPU{Period: 10000}, 50000, 50000, "10000", "5000"},
			{cgroup.CPU{Period: 10000}, 1000, 10000, "10000", "1000"}, // the least of the kernel
			{cgroup.CPU{Period: 1000000}, 1000, 1000, "1000000", "10000"},
			{cgroup.CPU{}, 70000, 70000, "100000", "70000"}, // the period is the usual one again
			{cgroup.CPU{NoQuota: true}, 50000, 0, "100000", map[int]string{1: "-1", 2: "max"}[version]},
		} {
			g.CPU = test.cpu
			if err := g.Create("/pod", cgroup.Settings{Limits: cgroup.Limits{Quota: test.quota}}); err != nil {
				t.Fatal(err)
			}
			l, err := g.Limits("/pod")
			if err != nil || l.Quota != test.read {
				t.Errorf("version %d, %+v: the quota %d is read as %d (%v)", version, test.cpu, test.quota, l.Quota, err)
			}
			want := map[string]string{"cpu/pod/cpu.cfs_quota_us": test.max + "\n", "cpu/pod/cpu.cfs_period_us": test.period + "\n"}
			if version == 2 {
				want = map[string]string{"pod/cpu.max": test.max + " " + test.period + "\n"}
			}
			for name, want := range want {
				if text, err := os.ReadFile(filepath.Join(k.Mount, name)); err != nil || string(text) != want {
					t.Errorf("version %d, %+v: %s has %q, want %q (%v)", version, test.cpu, name, text, want, err)
				}
			}
		}
	}
	// As in Kubernetes' MilliCPUToQuota.
	for _, test := range []struct{ milli, period, quota int64 }{{0, 10000, 0}, {1, 10000, 1000}, {500, 10000, 5000}, {5, 1000000, 5000}, {250, 0, 25000}} {
		if quota, _ := (cgroup.CPU{Period: test.period}).Quota(test.milli); quota != test.quota {
			t.Errorf("%d thousandths in %d us are a quota of %d, want %d", test.milli, test.period, quota, test.quota)
		}
	}
	if quota, period := (cgroup.CPU{NoQuota: true}).Quota(500); quota != 0 || period != 0 {
		t.Errorf("without quotas, a container gets %d in %d", quota, period)
	}
}

// TestWeights compares the weight of version 2 with that of Kubernetes v1.36.
func TestWeights(t *testing.T) {
	k, g := kernel(t, 2, all()...)
	if err := g.Create("/pod", cgroup.Settings{}); err != nil {
		t.Fatal(err)
	}
	for shares, want := range map[int64]string{2: "1", 102: "4", 512: "20", 1024: "39", 4096: "157", 131072: "5000", 262143: "9999", 262144: "10000"} {
		if err := g.SetShares("/pod", shares); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(filepath.Join(k.Mount, "pod/cpu.weight")); err != nil || string(text) != want+"\n" {
			t.Errorf("%d shares are the weight %s (%v), want %s", shares, text, err, want)
		}
	}
}

// FuzzLimits: whatever the files have, the limits are positive or none.
func FuzzLimits(f *testing.F) {
	f.Add("100", "max 100000", "max")
	f.Add("-1", "1 0", "9223372036854771712")
	f.Add("9223372036854775807", "9223372036854775807 1", "-9223372036854775808")
	f.Fuzz(func(t *testing.T, weight, quota, memory string) {
		for _, version := range []int{1, 2} {
			k, g := kernel(t, version, all()...)
			if err := g.Create("/pod", cgroup.Settings{}); err != nil {
				t.Fatal(err)
			}
			names := map[int][3]string{
				1: {"cpu/pod/cpu.shares", "cpu/pod/cpu.cfs_quota_us", "memory/pod/memory.limit_in_bytes"}, 2: {"pod/cpu.weight", "pod/cpu.max", "pod/memory.max"},
			}[version]
			for i, text := range []string{weight, quota, memory} {
				if err := os.WriteFile(filepath.Join(k.Mount, names[i]), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			l, err := g.Limits("/pod")
			if err != nil || l.Shares < 0 || l.Quota < 0 || l.Memory < 0 {
				t.Errorf("version %d: %+v %v", version, l, err)
			}
		}
	})
}
