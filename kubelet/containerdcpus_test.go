package kubelet_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/planekit/planekit/kubelet"
)

// cpuset returns the CPUs of a pod's only container, from its cgroup.
func cpuset(t *testing.T, r *rig, pod *corev1.Pod) string {
	t.Helper()
	mount := "/sys/fs/cgroup/cpuset"
	if _, err := os.Stat(mount); err != nil {
		mount = "/sys/fs/cgroup"
	}
	class := map[corev1.PodQOSClass]string{corev1.PodQOSBurstable: "burstable", corev1.PodQOSBestEffort: "besteffort"}[pod.Status.QOSClass]
	text, err := os.ReadFile(filepath.Join(mount, r.config.CgroupRoot, class, "pod"+string(pod.UID), containerID(pod), "cpuset.cpus"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// containerdCPUs checks the CPUs of containers in the kernel.
func containerdCPUs(t *testing.T, r *rig) {
	all, reserved := machineCPUs(t)
	r.stop()
	before := r.config.CPUManager
	r.config.CPUManager = kubelet.CPUManager{Policy: "static", Reserved: reserved.String()}
	r.start()
	r.api.create(actorPod("shared"))
	shared := r.api.await(t, "shared", "running", running)
	if got := cpuset(t, r, shared); got != all.String() {
		t.Errorf("a container has the CPUs %s of %s", got, all)
	}
	r.api.create(pinned(actorPod("mine"), all.Len()-1))
	mine := r.api.await(t, "mine", "running", running)
	if got, want := cpuset(t, r, mine), all.Minus(reserved).String(); got != want {
		t.Errorf("the container has the CPUs %s, not %s", got, want)
	}
	eventually(t, "the other container only has the reserved CPU", func() bool { return cpuset(t, r, shared) == reserved.String() })
	r.api.delete("mine", 2)
	r.api.await(t, "mine", "gone", gone)
	eventually(t, "the other container has all CPUs again", func() bool { return cpuset(t, r, shared) == all.String() })
	r.api.delete("shared", 2)
	r.api.await(t, "shared", "gone", gone)
	r.stop()
	if err := os.Remove(filepath.Join(r.config.Root, "cpu_manager_state")); err != nil {
		t.Error(err)
	}
	r.config.CPUManager = before
	r.start()
}
