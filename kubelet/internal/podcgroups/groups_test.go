package podcgroups_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/planekit/planekit/kubelet/internal/cgroup"
	"github.com/planekit/planekit/kubelet/internal/podcgroups"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestUpgrade: a pod of an earlier kubelet keeps its cgroup, in whatever place it is, and its limits are set
// there. Its removal leaves nothing in any place.
func TestUpgrade(t *testing.T) {
	for _, version := range []int{1, 2} {
		w := newWorld(t, version, 0)
		for class, place := range map[corev1.PodQOSClass]string{
			corev1.PodQOSGuaranteed: "burstable", corev1.PodQOSBurstable: "", corev1.PodQOSBestEffort: "",
		} {
			uid := types.UID(class)
			pod := size{class: class}.pod(uid)
			pod.Status.QOSClass = class
			path := filepath.Join("/kubepods", place, "pod"+string(uid))
			if err := w.fs.Create(path, cgroup.Settings{}); err != nil {
				t.Fatal(err)
			}
			limits, err := w.groups.Create(pod)
			if got := w.groups.Path(pod); err != nil || got != path || limits == nil || limits.Shares != 2 {
				t.Errorf("%s: %s %+v %v, want %s", class, got, limits, err, path)
			}
			// A cgroup in two places is found once and removed from both.
			own := filepath.Join("/kubepods/besteffort", "pod"+string(uid))
			if err := w.fs.Create(own, cgroup.Settings{}); err != nil {
				t.Fatal(err)
			}
			if uids, err := w.groups.Found(); err != nil || !slices.Equal(uids, []types.UID{uid}) {
				t.Errorf("%s: found %v %v", class, uids, err)
			}
			if err := w.groups.Remove(uid); err != nil || w.groups.Exists(uid) || w.fs.Exists(path) || w.fs.Exists(own) {
				t.Errorf("%s: not removed: %v", class, err)
			}
		}
		if err := w.groups.RemoveEmpty(); err != nil || w.fs.Exists("/kubepods") {
			t.Errorf("the root was not removed: %v", err)
		}
	}
}

// TestStarting: while a kubelet does not know all pods yet, burstable pods do not lose weight.
func TestStarting(t *testing.T) {
	for _, version := range []int{1, 2} {
		w := newWorld(t, version, 0)
		shares := func(want int64) {
			t.Helper()
			if err := w.groups.Update(); err != nil {
				t.Fatal(err)
			}
			if l, err := w.fs.Limits("/kubepods/burstable"); err != nil || l.Shares > want || l.Shares < want-26 {
				t.Errorf("version %d: %d shares (%v), want %d", version, l.Shares, err, want)
			}
		}
		w.starting = true
		shares(2)
		w.pods["1"] = size{class: corev1.PodQOSBurstable, cpu: 3000}
		shares(3072)
		w.pods["1"] = size{class: corev1.PodQOSBurstable, cpu: 1000}
		shares(3072)
		w.starting = false
		shares(1024)
		w.starting = true
		w.pods["2"] = size{class: corev1.PodQOSBurstable, cpu: 1000}
		shares(2048)
	}
}

// TestForeign: what is no pod's is left alone.
func TestForeign(t *testing.T) {
	for _, version := range []int{1, 2} {
		w := newWorld(t, version, 0)
		for _, path := range []string{"/kubepods/pod", "/kubepods/system", "/kubepods/burstable/xpod1", "/pod2"} {
			if err := w.fs.Create(path, cgroup.Settings{}); err != nil {
				t.Fatal(err)
			}
		}
		if uids, err := w.groups.Found(); err != nil || len(uids) > 0 {
			t.Errorf("found %v %v", uids, err)
		}
		if err := w.groups.RemoveEmpty(); err != nil || !w.fs.Exists("/kubepods/system") || !w.fs.Exists("/kubepods/burstable/xpod1") {
			t.Errorf("a cgroup of another program was removed (%v)", err)
		}
	}
}

// TestOff: without a root nothing is created; without cgroups by quality of service only existing ones
// are used.
func TestOff(t *testing.T) {
	w := newWorld(t, 1, 0)
	none := podcgroups.New(podcgroups.Config{FS: w.fs, PerQOS: true})
	off := podcgroups.New(podcgroups.Config{FS: w.fs, Root: "/kubepods"})
	pod := size{class: corev1.PodQOSBurstable, cpu: 100}.pod("1")
	for _, g := range []*podcgroups.Groups{none, off} {
		limits, err := g.Create(pod)
		if err != nil || limits != nil || g.Path(pod) != "" || g.Exists("1") {
			t.Errorf("Create (without a root: %v) = %+v, %v, Path %q, Exists %v; want nil, nil, none, false",
				g == none, limits, err, g.Path(pod), g.Exists("1"))
		}
		for _, err := range []error{g.Limit(node), g.Update(), g.Remove("1"), g.RemoveEmpty()} {
			if err != nil {
				t.Error(err)
			}
		}
		if uids, err := g.Found(); err != nil || len(uids) > 0 {
			t.Errorf("Found() = %v, %v, want none", uids, err)
		}
	}
	if entries, err := os.ReadDir(filepath.Join(w.kernel.Mount, "cpu/kubepods")); err == nil {
		t.Errorf("there is %v", entries)
	}
	if _, err := w.groups.Create(pod); err != nil {
		t.Fatal(err)
	}
	limits, err := off.Create(pod)
	if err != nil || limits == nil || off.Path(pod) != "/kubepods/burstable/pod1" || !off.Exists("1") || none.Exists("1") {
		t.Errorf("Create = %+v, %v, Path %q, Exists %v, without a root %v; want limits, \"/kubepods/burstable/pod1\", true, false",
			limits, err, off.Path(pod), off.Exists("1"), none.Exists("1"))
	}
}

// TestEnforce: what is reserved limits a cgroup that exists.
func TestEnforce(t *testing.T) {
	for version, want := range map[int]map[string]string{
		1: {"cpu/system/cpu.shares": "4096", "memory/system/memory.limit_in_bytes": "8589934592", "pids/system/pids.max": "30000", "hugetlb/system/hugetlb.2MB.limit_in_bytes": "67108864"},
		2: {"system/cpu.weight": "157", "system/memory.max": "8589934592", "system/pids.max": "30000", "system/hugetlb.2MB.max": "67108864"},
	} {
		w := newWorld(t, version, 0)
		if err := w.groups.Enforce("/system", node, false); err == nil {
			t.Error("a cgroup that does not exist was limited")
		}
		for _, path := range []string{"/system", "/kube"} {
			if err := w.fs.Create(path, cgroup.Settings{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.groups.Enforce("/system", node, false); err != nil {
			t.Error(err)
		}
		if err := w.groups.Enforce("/kube", node, true); err != nil {
			t.Error(err)
		}
		tree, err := w.kernel.Tree(".")
		if err != nil {
			t.Fatal(err)
		}
		for path, value := range want {
			if tree[path] != value {
				t.Errorf("%s is %q, want %q", path, tree[path], value)
			}
		}
		if l, err := w.fs.Limits("/kube"); err != nil || l.Memory != 0 || l.Shares < 4070 || l.Shares > 4096 {
			t.Errorf("Limits(\"/kube\") = %+v, %v, want no memory limit, and 4070 to 4096 shares", l, err)
		}
	}
}
