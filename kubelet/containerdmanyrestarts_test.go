package kubelet_test

import (
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/cri"
	"github.com/planekit/planekit/kubelet/eviction"
)

var restarts = flag.Int("restarts", 30, "how often the containers of TestContainerdManyRestarts restart, of which a 25th with their sandbox")

// crashing counts the containers of the pod that fail again and again.
const crashing = 10

// TestContainerdManyRestarts: containers fail as often as restarts says, and their sandbox dies with them. Then the
// kubelet, containerd and the host have as much as after the first half of it.
func TestContainerdManyRestarts(t *testing.T) {
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
		PodCIDR:   "10.9.0.0/24", StopGrace: 2 * time.Second, MaxRestartBackoff: time.Second,
		Eviction: kubelet.Eviction{Thresholds: []eviction.Threshold{}},
		Runtime:  client, Images: client, ImageGC: kubelet.ImageGC{High: 100},
		Pods: a.pods, PodStatus: podAPI{a}, Nodes: nodeAPI{a}, Leases: leaseAPI{a}, Events: eventAPI{a},
		Network: c.network,
	}}
	r.start()
	pod := actorPod("crashes")
	pod.Spec.HostNetwork = false
	for i := range crashing {
		one := pod.Spec.Containers[0]
		one.Name, one.Args = fmt.Sprintf("fails-%d", i), []string{"fail"}
		pod.Spec.Containers = append(pod.Spec.Containers, one)
	}
	created := r.api.create(pod)
	total := func(pod *corev1.Pod) (n int) {
		for _, s := range pod.Status.ContainerStatuses {
			n += int(s.RestartCount)
		}
		return n
	}
	// restart waits until containers have restarted so often, and kills the sandbox meanwhile.
	restart := func(n int) {
		t.Helper()
		kills := max(1, n/50) // a 25th of a half
		for last := total(r.api.await(t, "crashes", "there", func(pod *corev1.Pod) bool { return pod != nil })); kills > 0; kills-- {
			last += n / 2 / max(1, n/50)
			r.awaitLong(t, "crashes", func(pod *corev1.Pod) bool { return total(pod) >= last })
			killSandbox(t, r, created)
		}
		r.awaitLong(t, "crashes", func(pod *corev1.Pod) bool { return total(pod) >= n })
	}
	begun := time.Now()
	restart(*restarts / 2)
	first := footprint(t, c, r, created)
	restart(*restarts)
	last := footprint(t, c, r, created)
	t.Logf("%d restarts in %v", *restarts, time.Since(begun))
	for _, name := range slices.Sorted(maps.Keys(last)) {
		f, l := first[name], last[name]
		t.Logf("%s: %d, then %d", name, f.value, l.value)
		if l.value > f.value+f.slack {
			t.Errorf("%s: %d after %d restarts, %d after %d, want at most %d more", name, f.value, *restarts/2, l.value, *restarts, f.slack)
		}
	}
	r.end(t, "crashes")
	r.stop()
	if err := r.kubelet.StopPods(t.Context()); err != nil {
		t.Error(err)
	}
	nothingLeft(t, cgroup)
}

// awaitLong waits as long as it takes, if the test has the time.
func (r *rig) awaitLong(t *testing.T, name string, done func(*corev1.Pod) bool) {
	t.Helper()
	deadline, ok := t.Deadline()
	if !ok {
		deadline = time.Now().Add(time.Hour)
	}
	for {
		pod, _ := r.api.pods.Get("default/" + name)
		if pod != nil && done(pod) {
			return
		}
		if time.Now().After(deadline.Add(-time.Minute)) {
			t.Fatalf("the pod %s does not get there: %+v", name, pod)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// killSandbox kills the process of a pod's sandbox.
func killSandbox(t *testing.T, r *rig, pod *corev1.Pod) {
	t.Helper()
	list, err := r.client.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{
		State: &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY},
	}})
	if err != nil || len(list.Items) == 0 {
		t.Fatalf("ListPodSandbox = %v, %v, want the sandbox of %s", list, err, pod.Name)
	}
	for _, pid := range pids(t, r, "pod"+string(pod.UID)+"/"+list.Items[0].Id) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
}

// figure is something that must not grow with restarts, and by how much it differs anyway.
type figure struct{ value, slack int }

// footprint returns what the kubelet, containerd and the host have for a pod.
func footprint(t *testing.T, c *containerd, r *rig, pod *corev1.Pod) map[string]figure {
	t.Helper()
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	daemon := c.daemon.Process.Pid
	all := map[string]figure{
		"goroutines":                 {runtime.NumGoroutine(), 100},
		"MiB of the kubelet's heap":  {int(memory.HeapAlloc >> 20), 16},
		"files that the kubelet has": {entries(t, "/proc/self/fd"), 60},
		"files that containerd has":  {entries(t, fmt.Sprintf("/proc/%d/fd", daemon)), 100},
		"MiB of containerd":          {resident(t, daemon), 40},
		"files of the kubelet":       {tree(t, r.config.Root), 10},
		"logs":                       {tree(t, filepath.Join(r.config.LogRoot, "default_crashes_"+string(pod.UID))), 4 * crashing},
		"files of containerd's state": {tree(t, c.dir+"/state/io.containerd.runtime.v2.task") +
			tree(t, c.dir+"/state/io.containerd.grpc.v1.cri"), 20 * crashing},
		"shims":   {processes(t, "-address "+c.socket), 2},
		"cgroups": {tree(t, "/sys/fs/cgroup/memory"+r.config.CgroupRoot), 60 * crashing},
		"mounts":  {mounts(t, c.dir), 4 * crashing},
	}
	list, err := r.client.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{})
	if err != nil {
		t.Fatal(err)
	}
	sandboxes, err := r.client.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		t.Fatal(err)
	}
	all["containers"], all["sandboxes"] = figure{len(list.Containers), 3 * crashing}, figure{len(sandboxes.Items), 2}
	out, err := exec.CommandContext(t.Context(), "ctr", "-a", c.socket, "-n", "k8s.io", "snapshots", "--snapshotter", "native", "ls").Output()
	if err != nil {
		t.Fatal(err)
	}
	all["snapshots"] = figure{strings.Count(string(out), "\n"), 3 * crashing}
	return all
}

// entries returns how many entries a directory has.
func entries(t *testing.T, path string) int {
	t.Helper()
	all, err := os.ReadDir(path)
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// tree returns how many files and directories there are below a directory, of which some go meanwhile.
func tree(t *testing.T, path string) (n int) {
	t.Helper()
	filepath.WalkDir(path, func(_ string, _ fs.DirEntry, err error) error {
		if err == nil {
			n++
		}
		return nil
	})
	return n
}

// resident returns the memory of a process in MiB.
func resident(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	var size, pages int
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize() >> 20
}

// processes returns how many processes have a text in their arguments.
func processes(t *testing.T, text string) (n int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		if line, err := os.ReadFile(path); err == nil && strings.Contains(strings.ReplaceAll(string(line), "\x00", " "), text) {
			n++
		}
	}
	return n
}

// mounts returns how many mounts there are below a directory.
func mounts(t *testing.T, path string) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), " "+path)
}
