package kubelet_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/cri/memruntime"
	"github.com/planekit/planekit/kubelet/internal/cgroup"
	"github.com/planekit/planekit/kubelet/internal/machine"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// realCgroups returns the machine's cgroups and the path of one that the test may use.
func realCgroups(t *testing.T) (cgroup.FS, string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("control groups need root")
	}
	g, top := cgroup.FS{Mount: "/sys/fs/cgroup"}, fmt.Sprintf("/planekit-test-pods-%d", os.Getpid())
	if err := g.Create(top, cgroup.Settings{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Remove(top); err != nil {
			t.Error(err)
		}
	})
	return g, top
}

// processLimit returns the content of pids.max of a cgroup.
func processLimit(t *testing.T, g cgroup.FS, path string) string {
	t.Helper()
	controller := "pids"
	if g.Unified() {
		controller = ""
	}
	text, err := os.ReadFile(filepath.Join(g.Mount, controller, path, "pids.max"))
	if err != nil {
		t.Error(err)
	}
	return strings.TrimSpace(string(text))
}

// sharesAre checks the weight of a cgroup. Version 2 has steps of 26 shares.
func sharesAre(t *testing.T, g cgroup.FS, path string, want int64) {
	t.Helper()
	l, err := g.Limits(path)
	if err != nil || l.Shares > want || l.Shares < want-26 {
		t.Errorf("%s has %d shares (%v), want %d", path, l.Shares, err, want)
	}
}

// TestCgroupPlaces runs pods of each quality of service in the machine's own cgroups.
func TestCgroupPlaces(t *testing.T) {
	g, top := realCgroups(t)
	root := top + "/kubepods"
	inBubble(t, memruntime.Config{}, func(t *testing.T, r *rig) {
		r.config.CgroupRoot = root
		r.config.Cgroups.PodPids = 77
		r.config.SystemReserved = corev1.ResourceList{"pid": resource.MustParse("1000"), corev1.ResourceCPU: resource.MustParse("500m")}
		places := map[string]string{}
		create := func(name, place string, size corev1.ResourceRequirements) *corev1.Pod {
			pod := r.api.create(sizedPod(name, size))
			places[name] = filepath.Join(root, place, "pod"+string(pod.UID))
			return pod
		}
		here := func(name string, want bool) {
			t.Helper()
			if g.Exists(places[name]) != want {
				t.Errorf("%s: that there is %s is %t", name, places[name], !want)
			}
		}
		// An earlier kubelet had this burstable pod below the root. Others have ended without it.
		create("old", "", requirements("100m", "", "", ""))
		for _, path := range []string{places["old"], root + "/podgone1", root + "/burstable/podgone2/container", root + "/besteffort/podgone3"} {
			if err := g.Create(path, cgroup.Settings{}); err != nil {
				t.Fatal(err)
			}
		}
		create("large", "", requirements("500m", "64Mi", "500m", "64Mi"))
		create("some", "burstable", requirements("400m", "", "", "32Mi"))
		create("none", "besteffort", corev1.ResourceRequirements{})
		r.start()
		for name := range places {
			r.api.await(t, name, "running", running)
			here(name, true)
			if got := processLimit(t, g, places[name]); got != "77" {
				t.Errorf("%s may have %s processes", name, got)
			}
		}
		sharesAre(t, g, root, 1536)
		sharesAre(t, g, root+"/burstable", 512)
		sharesAre(t, g, root+"/besteffort", 2)
		sharesAre(t, g, places["old"], 102)
		if l, err := g.Limits(places["some"]); err != nil || l.Memory != 32<<20 {
			t.Errorf("limits %+v %v", l, err)
		}
		_, most, err := machine.Processes("/proc")
		if got, want := processLimit(t, g, root), fmt.Sprint(most-1000); got != want || err != nil {
			t.Errorf("all pods may have %s processes, want %s of the machine's %d (%v)", got, want, most, err)
		}
		time.Sleep(5 * time.Second)
		for _, path := range []string{root + "/podgone1", root + "/burstable/podgone2", root + "/besteffort/podgone3"} {
			if g.Exists(path) {
				t.Errorf("%s was not removed", path)
			}
		}
		// What another program changes is set again within a minute.
		if err := errors.Join(g.SetShares(root+"/burstable", 9000), g.SetShares(root+"/besteffort", 9000)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(61 * time.Second)
		sharesAre(t, g, root+"/burstable", 512)
		sharesAre(t, g, root+"/besteffort", 2)

		r.api.resize("some", requirements("900m", "", "", "32Mi"))
		time.Sleep(30 * time.Second)
		sharesAre(t, g, places["some"], 921)
		sharesAre(t, g, root+"/burstable", 1024)
		r.api.delete("old", 0)
		r.api.await(t, "old", "gone", gone)
		time.Sleep(time.Second)
		here("old", false)
		sharesAre(t, g, root+"/burstable", 921)

		// Without cgroups, those that there are stay until their pods end.
		r.stop()
		r.config.Cgroups = kubelet.Cgroups{PerQOS: new(false)}
		r.start()
		r.api.create(sizedPod("later", requirements("100m", "", "", "")))
		r.api.await(t, "later", "running", running)
		if names, err := g.Children(root + "/burstable"); err != nil || len(names) != 1 {
			t.Errorf("burstable has %v (%v)", names, err)
		}
		here("some", true)
		if err := g.Remove(places["large"]); err != nil { // as when the machine was started again
			t.Fatal(err)
		}
		for _, resized := range []struct {
			name string
			size corev1.ResourceRequirements
		}{{"some", requirements("800m", "", "", "32Mi")}, {"large", requirements("600m", "64Mi", "600m", "64Mi")}} {
			r.api.resize(resized.name, resized.size)
			r.api.await(t, resized.name, "resized", has(resized.size))
		}
		sharesAre(t, g, places["some"], 819)
		here("large", false)
		r.api.delete("some", 0)
		r.api.await(t, "some", "gone", gone)
		time.Sleep(time.Second)
		here("some", false)
	})
}

// TestCgroupOfEndedPod: a pod that has ended has no cgroup, although the API still has the pod.
func TestCgroupOfEndedPod(t *testing.T) {
	g, top := realCgroups(t)
	inBubble(t, memruntime.Config{}, func(t *testing.T, r *rig) {
		r.config.CgroupRoot = top + "/kubepods"
		r.start()
		pod := sizedPod("job", requirements("700m", "", "", ""))
		pod.Spec.ActiveDeadlineSeconds = new(int64(20))
		created := r.api.create(pod)
		r.api.await(t, "job", "running", running)
		path := r.config.CgroupRoot + "/burstable/pod" + string(created.UID)
		if !g.Exists(path) {
			t.Errorf("%s does not exist", path)
		}
		sharesAre(t, g, r.config.CgroupRoot+"/burstable", 716)
		r.api.await(t, "job", "failed", func(pod *corev1.Pod) bool { return pod != nil && pod.Status.Phase == corev1.PodFailed })
		time.Sleep(40 * time.Second)
		if g.Exists(path) {
			t.Errorf("%s was not removed", path)
		}
		sharesAre(t, g, r.config.CgroupRoot+"/burstable", 2)
	})
}

// TestReservedCgroups: what is reserved limits the cgroups of the programs that it is reserved for. A
// kubelet that cannot limit them does not run.
func TestReservedCgroups(t *testing.T) {
	g, top := realCgroups(t)
	inBubble(t, memruntime.Config{}, func(t *testing.T, r *rig) {
		r.config.CgroupRoot = top + "/kubepods"
		r.config.SystemReserved = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("1Gi"), "pid": resource.MustParse("1000"),
		}
		r.config.KubeReserved = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("1Gi")}
		r.config.Cgroups = kubelet.Cgroups{
			Enforce: []string{kubelet.EnforcePods, kubelet.EnforceSystemReserved, kubelet.EnforceKubeReservedCompressible}, SystemReserved: top + "/system", KubeReserved: top + "/kube",
		}
		if err := errors.Join(g.Create(top+"/system", cgroup.Settings{}), g.Create(top+"/kube", cgroup.Settings{})); err != nil {
			t.Fatal(err)
		}
		r.start()
		sharesAre(t, g, r.config.CgroupRoot, 1280)
		sharesAre(t, g, top+"/system", 512)
		sharesAre(t, g, top+"/kube", 256)
		for path, memory := range map[string]int64{r.config.CgroupRoot: 2 << 30, top + "/system": 1 << 30, top + "/kube": 0} {
			if l, err := g.Limits(path); err != nil || l.Memory != memory {
				t.Errorf("Limits(%s) = %+v, %v, want memory %d", path, l, err, memory)
			}
		}
		if got := processLimit(t, g, top+"/system"); got != "1000" {
			t.Errorf("the system may have %s processes", got)
		}
		r.api.awaitEvent(t, "node-1", "NodeAllocatableEnforced", "Updated limits on system reserved cgroup "+top+"/system")
		r.stop()
		r.stop = func() {}
		r.config.Cgroups.KubeReserved = top + "/none"
		k, err := kubelet.New(r.config)
		if err != nil {
			t.Fatal(err)
		}
		want := `kubelet: Failed to enforce Kube Reserved Compressible Cgroup Limits on "` + top + `/none": cgroup "` + top + `/none" does not exist`
		if err := k.Run(t.Context()); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	})
}

// TestLimitIsRetried: all pods are limited as soon as the kernel accepts the limit.
func TestLimitIsRetried(t *testing.T) {
	inBubble(t, memruntime.Config{}, func(t *testing.T, r *rig) {
		mount := t.TempDir()
		if err := os.WriteFile(filepath.Join(mount, "cgroup.controllers"), []byte("memory pids\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		r.config.CgroupMount, r.config.CgroupRoot = mount, "/kubepods"
		r.config.Cgroups.Enforce = []string{kubelet.EnforceNone}
		r.config.SystemReserved = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
		limit := filepath.Join(mount, "kubepods/memory.max")
		if err := os.MkdirAll(limit, 0o755); err != nil {
			t.Fatal(err)
		}
		r.start()
		r.api.awaitEvent(t, "node-1", "FailedNodeAllocatableEnforcement", `Failed to update Node Allocatable Limits "/kubepods": open `+limit+": is a directory")
		if err := os.Remove(limit); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2*time.Minute + time.Second)
		r.api.awaitEvent(t, "node-1", "NodeAllocatableEnforced", "Updated Node Allocatable limit across pods")
		// Nothing is enforced, so that the limit is the capacity of the machine.
		if text, err := os.ReadFile(limit); err != nil || string(text) != "4294967296" {
			t.Errorf("limit %s %v", text, err)
		}
		for file, want := range map[string]string{"burstable/cpu.weight": "1", "besteffort/cpu.weight": "1", "cpu.weight": "79"} {
			if text, err := os.ReadFile(filepath.Join(mount, "kubepods", file)); err != nil || string(text) != want {
				t.Errorf("%s: %s %v, want %s", file, text, err, want)
			}
		}
	})
}

// TestKillTogether: where cgroups have version 2, all processes of a container are killed together,
// unless the configuration says otherwise.
func TestKillTogether(t *testing.T) {
	for _, single := range []*bool{nil, new(false), new(true)} {
		told := make(chan *runtimeapi.ContainerConfig, 1)
		behave := func(c *runtimeapi.ContainerConfig) memruntime.Behavior {
			told <- c
			return memruntime.Behavior{}
		}
		inBubble(t, memruntime.Config{Behave: behave}, func(t *testing.T, r *rig) {
			r.config.CgroupMount = t.TempDir()
			if single == nil || *single {
				r.start()
				r.api.create(webPod("v1"))
				if c := <-told; len(c.Linux.Resources.Unified) > 0 {
					t.Errorf("version 1: %v", c.Linux.Resources.Unified)
				}
				r.stop()
			} else {
				r.config.Cgroups.SingleProcessOOMKill = single
				k, err := kubelet.New(r.config)
				if err != nil {
					t.Fatal(err)
				}
				if err := k.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "singleProcessOOMKill must not be explicitly set to false when using cgroup v1") {
					t.Error(err)
				}
			}
			if err := os.WriteFile(filepath.Join(r.config.CgroupMount, "cgroup.controllers"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			r.config.Cgroups.SingleProcessOOMKill = single
			r.start()
			r.api.create(webPod("v2"))
			want := map[bool]string{false: "1"}[single != nil && *single]
			if c := <-told; c.Linux.Resources.Unified["memory.oom.group"] != want {
				t.Errorf("version 2: %v, want %q", c.Linux.Resources.Unified, want)
			}
		})
	}
}

// TestTooManyProcessesReserved: a kubelet does not run if more processes are reserved than the kernel can
// have.
func TestTooManyProcessesReserved(t *testing.T) {
	inBubble(t, memruntime.Config{}, func(t *testing.T, r *rig) {
		r.stop = func() {}
		r.config.SystemReserved = corev1.ResourceList{"pid": resource.MustParse("1G")}
		k, err := kubelet.New(r.config)
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Run(t.Context()); err == nil || !strings.HasPrefix(err.Error(), `kubelet: invalid Node Allocatable configuration. Resource "pid" has a reservation of 1G but capacity of `) {
			t.Error(err)
		}
	})
}

// TestPodsLeaveProcesses: pods that fork without end leave the machine an eighth of its processes, unless
// the configuration reserves another number.
func TestPodsLeaveProcesses(t *testing.T) {
	_, most, err := machine.Processes("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for reserved, want := range map[string]int64{"": most - most/8, "10": most - 10} {
		inBubble(t, memruntime.Config{}, func(t *testing.T, r *rig) {
			mount := t.TempDir()
			if err := os.WriteFile(filepath.Join(mount, "cgroup.controllers"), []byte("memory pids\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			r.config.CgroupMount, r.config.CgroupRoot = mount, "/kubepods"
			if reserved != "" {
				r.config.KubeReserved = corev1.ResourceList{"pid": resource.MustParse(reserved)}
			}
			r.start()
			if text, err := os.ReadFile(filepath.Join(mount, "kubepods/pids.max")); err != nil || string(text) != fmt.Sprint(want) {
				t.Errorf("pids.max = %s, %v with %q reserved; want %d", text, err, reserved, want)
			}
		})
	}
}
