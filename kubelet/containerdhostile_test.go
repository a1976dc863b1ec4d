package kubelet_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/cri"
	"github.com/planekit/planekit/kubelet/eviction"
)

const (
	// podMemory is the memory that all pods of TestContainerdHostile may use together.
	podMemory = 256 << 20
	// podProcesses is the number of processes that each may have.
	podProcesses = 64
)

// TestContainerdHostile has pods that take all that they can get of a node whose pods may use little. The
// node is ready, and another pod runs on it and is probed every second.
func TestContainerdHostile(t *testing.T) {
	c := startContainerd(t)
	client, err := cri.Dial(t.Context(), c.socket, cri.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	c.load(t)
	a := newAPI()
	cgroup := fmt.Sprintf("/planekit-test-%d", os.Getpid())
	t.Cleanup(func() { removeLeftovers(t, client, cgroup) })
	r := &rig{t: t, api: a, client: client, config: kubelet.Config{
		NodeName: "node-1", Root: c.dir + "/kubelet", LogRoot: c.dir + "/logs", CgroupRoot: cgroup + "/kubepods",
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}},
		PodCIDR:   "10.9.0.0/24", StopGrace: 2 * time.Second, LogMaxSize: 1 << 20, LogInterval: time.Second,
		SystemReserved: reserveAllBut(t, podMemory), Cgroups: kubelet.Cgroups{PodPids: podProcesses},
		Runtime: client, Images: client, ImageGC: kubelet.ImageGC{High: 100},
		Eviction: hardMemory(t),
		Pods:     a.pods, PodStatus: podAPI{a}, Nodes: nodeAPI{a}, Leases: leaseAPI{a}, Events: eventAPI{a},
		Network: c.network,
	}}
	r.start()
	bystander := actorPod("bystander")
	bystander.Spec.Containers[0].LivenessProbe = &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/actor", "exists", "/actor"}}},
		PeriodSeconds: 1, TimeoutSeconds: 2, FailureThreshold: 3,
	}
	// With a request it is the last to be evicted, also at the moment at which the kernel has killed the one that uses more.
	bystander.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("16Mi")}
	r.api.create(bystander)
	up := r.api.await(t, "bystander", "running", running)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *rig)
	}{
		{"files in memory", containerdMemoryVolume}, {"memory", containerdEater}, {"processes", containerdForks},
		{"log", containerdUnbroken}, {"commands", containerdCommands}, {"forward", containerdForward},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.run(t, r)
			node, err := (nodeAPI{r.api}).Get(t.Context(), "", "node-1")
			if err != nil || nodeReady(node).Status != corev1.ConditionTrue {
				t.Errorf("the node is not ready: %v, %v", node, err)
			}
			now := r.api.await(t, "bystander", "running", running)
			if n := now.Status.ContainerStatuses[0].RestartCount; n != 0 || containerID(now) != containerID(up) {
				t.Fatalf("the other pod was restarted %d times, last: %+v", n, now.Status.ContainerStatuses[0].LastTerminationState)
			}
		})
	}
	r.end(t, "bystander")
	r.stop()
	if err := r.kubelet.StopPods(t.Context()); err != nil {
		t.Error(err)
	}
	nothingLeft(t, cgroup)
}

// reserveAllBut reserves the memory of this machine but for some bytes.
func reserveAllBut(t *testing.T, bytes int64) corev1.ResourceList {
	t.Helper()
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	var total int64
	if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &total); err != nil {
		t.Fatal(err)
	}
	return corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(total<<10-bytes, resource.BinarySI)}
}

// hardMemory returns the configuration with which pods are evicted when 100 MiB are left.
func hardMemory(t *testing.T) kubelet.Eviction {
	t.Helper()
	thresholds, err := eviction.Parse(eviction.Settings{Hard: map[string]string{"memory.available": "100Mi"}})
	if err != nil {
		t.Fatal(err)
	}
	return kubelet.Eviction{Thresholds: thresholds, Interval: 500 * time.Millisecond, Transition: 2 * time.Second}
}

// containerdMemoryVolume: files in memory outlive the process that wrote them, and whatever the kernel
// kills then, they stay. Their pod is evicted.
func containerdMemoryVolume(t *testing.T, r *rig) {
	pod := actorPod("tmpfs", "fill", "/scratch/large")
	mountVolume(pod, "scratch", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}})
	r.api.create(pod)
	r.api.await(t, "tmpfs", "evicted", evicted("The node was low on resource: memory. Threshold quantity: 100Mi, available: "))
	r.api.create(actorPod("next"))
	eventually(t, "the memory is no longer under pressure", func() bool {
		node, err := nodeAPI{r.api}.Get(t.Context(), "", "node-1")
		return err == nil && nodeCondition(node, corev1.NodeMemoryPressure) == corev1.ConditionFalse
	})
	r.api.create(actorPod("later"))
	r.api.await(t, "later", "running", running)
	r.end(t, "tmpfs", "next", "later")
}

// containerdEater: the kernel kills a container that takes all memory of all pods, or its pod is evicted.
func containerdEater(t *testing.T, r *rig) {
	r.api.create(actorPod("eater", "eat"))
	low := evicted("The node was low on resource: memory. ")
	r.api.await(t, "eater", "killed", func(pod *corev1.Pod) bool {
		if pod == nil || low(pod) {
			return pod != nil
		}
		for _, s := range pod.Status.ContainerStatuses {
			for _, e := range []*corev1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
				if e != nil && e.ExitCode == 137 && e.Reason == "OOMKilled" {
					return true
				}
			}
		}
		return false
	})
	r.end(t, "eater")
	eventually(t, "the memory is no longer under pressure", func() bool {
		node, err := nodeAPI{r.api}.Get(t.Context(), "", "node-1")
		return err == nil && nodeCondition(node, corev1.NodeMemoryPressure) == corev1.ConditionFalse
	})
}

// containerdForks: a pod gets as many processes as it may have, and no more.
func containerdForks(t *testing.T, r *rig) {
	root := "/sys/fs/cgroup/pids"
	if _, err := os.Stat(root); err != nil {
		root = "/sys/fs/cgroup" // version 2
	}
	created := r.api.create(actorPod("forks", "fork"))
	file := filepath.Join(root, r.config.CgroupRoot, "besteffort", "pod"+string(created.UID), "pids.peak")
	most := 0
	eventually(t, "the pod has as many processes as it may have", func() bool {
		text, err := os.ReadFile(file)
		if err == nil {
			fmt.Sscan(string(text), &most)
		}
		return most >= podProcesses
	})
	if most > podProcesses {
		t.Errorf("%d processes, want at most %d", most, podProcesses)
	}
	r.end(t, "forks")
}

// containerdUnbroken: a line of a log that has no end is rotated like any other, and the kubelet does not
// hold it in memory.
func containerdUnbroken(t *testing.T, r *rig) {
	inUse := func() uint64 { // the kubelet runs in this process, beside what other tests left
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := inUse()
	created := r.api.create(actorPod("unbroken", "unbroken"))
	path := filepath.Join(r.config.LogRoot, "default_unbroken_"+string(created.UID), "web", "0.log")
	eventually(t, "the log was rotated", func() bool {
		older, _ := filepath.Glob(path + ".*")
		return len(older) > 0
	})
	if now := inUse(); now > before+64<<20 {
		t.Errorf("the memory in use grows from %d to %d MiB while a line without end is written, want at most 64 MiB more", before>>20, now>>20)
	}
	r.end(t, "unbroken")
}
