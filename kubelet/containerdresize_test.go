package kubelet_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// cgroupValue reads a number of a cgroup of version 1 below CgroupRoot.
func cgroupValue(t *testing.T, r *rig, controller, path, name string) int64 {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", controller, r.config.CgroupRoot, path, name))
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// containerdResize resizes a pod and sees the kernel's limits of the pod and of the container change,
// while its process stays the same, also across a restart of the kubelet.
func containerdResize(t *testing.T, r *rig) {
	if _, err := os.Stat("/sys/fs/cgroup/memory"); err != nil {
		t.Skip("this reads the files of cgroup version 1")
	}
	pod := actorPod("sized")
	pod.Spec.Containers[0].Resources = requirements("200m", "64Mi", "200m", "64Mi")
	created := r.api.create(pod)
	up := r.api.await(t, "sized", "running", has(requirements("200m", "64Mi", "200m", "64Mi")))
	group := "pod" + string(created.UID)
	inner := group + "/" + containerID(up)
	process := pids(t, r, inner)
	for i, size := range []struct {
		cpu, memory          string
		quota, shares, bytes int64
		restart              bool
	}{
		{cpu: "500m", memory: "96Mi", quota: 50000, shares: 512, bytes: 96 << 20},
		{cpu: "300m", memory: "128Mi", quota: 30000, shares: 307, bytes: 128 << 20, restart: true},
		{cpu: "400m", memory: "48Mi", quota: 40000, shares: 409, bytes: 48 << 20},
	} {
		want := requirements(size.cpu, size.memory, size.cpu, size.memory)
		if size.restart {
			r.stop()
		}
		r.api.resize("sized", want)
		if size.restart {
			r.start()
		}
		now := r.api.await(t, "sized", "resized", has(want))
		for _, path := range []string{group, inner} {
			if got := cgroupValue(t, r, "cpu", path, "cpu.cfs_quota_us"); got != size.quota {
				t.Errorf("size %d: the quota of %s is %d, want %d", i, path, got, size.quota)
			}
			if got := cgroupValue(t, r, "cpu", path, "cpu.shares"); got != size.shares {
				t.Errorf("size %d: the shares of %s are %d, want %d", i, path, got, size.shares)
			}
			if got := cgroupValue(t, r, "memory", path, "memory.limit_in_bytes"); got != size.bytes {
				t.Errorf("size %d: the memory limit of %s is %d, want %d", i, path, got, size.bytes)
			}
		}
		if got := pids(t, r, inner); len(process) != 1 || len(got) != 1 || got[0] != process[0] || now.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("size %d: processes %v became %v: %+v", i, process, got, now.Status.ContainerStatuses[0])
		}
	}
	// The container uses more than this.
	r.api.resize("sized", requirements("400m", "64Ki", "400m", "64Ki"))
	r.api.await(t, "sized", "not below its usage", func(pod *corev1.Pod) bool {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodResizeInProgress && c.Reason == corev1.PodReasonError {
				return strings.HasPrefix(c.Message, "cannot decrease memory limits: ") && strings.Contains(c.Message, `attempting to set container "web" memory limit (65536) below current usage (`)
			}
		}
		return false
	})
	if got := cgroupValue(t, r, "memory", inner, "memory.limit_in_bytes"); got != 48<<20 {
		t.Errorf("the memory limit is %d", got)
	}
	r.api.delete("sized", 0)
	r.api.await(t, "sized", "gone", gone)
	containerdBurstable(t, r)
}

// containerdBurstable sees the weight of all burstable pods grow and shrink with one of them.
func containerdBurstable(t *testing.T, r *rig) {
	before := cgroupValue(t, r, "cpu", "burstable", "cpu.shares")
	pod := actorPod("burstable")
	pod.Spec.Containers[0].Resources = requirements("1500m", "", "", "")
	created := r.api.create(pod)
	r.api.await(t, "burstable", "running", running)
	group := "burstable/pod" + string(created.UID)
	if got := cgroupValue(t, r, "cpu", group, "cpu.shares"); got != 1536 {
		t.Errorf("the pod has %d shares", got)
	}
	// The shares of all are rounded once.
	grows := func(by int64) func() bool {
		return func() bool {
			got := cgroupValue(t, r, "cpu", "burstable", "cpu.shares")
			return got >= before+by-2 && got <= before+by+2
		}
	}
	eventually(t, "burstable pods weigh more", grows(1536))
	r.api.delete("burstable", 0)
	r.api.await(t, "burstable", "gone", gone)
	eventually(t, "burstable pods weigh as before", grows(0))
	for _, controller := range []string{"cpu", "memory", "pids", "cpuset"} {
		path := filepath.Join("/sys/fs/cgroup", controller, r.config.CgroupRoot, group)
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
}
