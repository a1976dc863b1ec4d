package kubelet_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/cpumanager"
	"github.com/planekit/planekit/kubelet/cri"
	"github.com/planekit/planekit/kubelet/cri/memruntime"
)

// cpuRuntime remembers the CPUs of containers, by ID.
type cpuRuntime struct {
	*cri.Client
	mu   sync.Mutex
	cpus map[string]string
}

func (c *cpuRuntime) set(id, cpus string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cpus[id] = cpus
}

// of returns the CPUs of a pod's only container.
func (c *cpuRuntime) of(pod *corev1.Pod) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cpus[containerID(pod)]
}

func (c *cpuRuntime) CreateContainer(ctx context.Context, in *runtimeapi.CreateContainerRequest) (*runtimeapi.CreateContainerResponse, error) {
	out, err := c.Client.CreateContainer(ctx, in)
	if err == nil {
		c.set(out.ContainerId, in.GetConfig().GetLinux().GetResources().GetCpusetCpus())
	}
	return out, err
}

func (c *cpuRuntime) UpdateContainerResources(ctx context.Context, in *runtimeapi.UpdateContainerResourcesRequest) (*runtimeapi.UpdateContainerResourcesResponse, error) {
	out, err := c.Client.UpdateContainerResources(ctx, in)
	if err == nil {
		c.set(in.ContainerId, in.GetLinux().GetCpusetCpus())
	}
	return out, err
}

// machineCPUs returns the CPUs of the machine, of which the first is reserved.
func machineCPUs(t *testing.T) (all, reserved cpumanager.Set) {
	t.Helper()
	topology, err := cpumanager.ReadTopology(os.DirFS("/sys/devices/system"))
	if err != nil {
		t.Skip(err)
	}
	if all = topology.All(); all.Len() < 2 {
		t.Skip("the machine has one CPU")
	}
	return all, cpumanager.NewSet(all.List()[0])
}

// pinned is a pod that owns CPUs.
func pinned(pod *corev1.Pod, cpus int) *corev1.Pod {
	list := corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewQuantity(int64(cpus), resource.DecimalSI), corev1.ResourceMemory: resource.MustParse("64Mi"),
	}
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list, Limits: list}
	return pod
}

func TestExclusiveCPUs(t *testing.T) {
	all, reserved := machineCPUs(t)
	r := newRig(t, memruntime.Config{})
	runtime := &cpuRuntime{Client: r.client, cpus: map[string]string{}}
	r.config.Runtime = runtime
	r.config.CPUManager = kubelet.CPUManager{Policy: "static", Reserved: reserved.String()}
	r.start()
	r.api.create(webPod("shared"))
	shared := r.api.await(t, "shared", "running", running)
	if got := runtime.of(shared); got != all.String() {
		t.Errorf("without exclusive CPUs, a container has %s", got)
	}

	r.api.create(pinned(webPod("mine"), 1))
	mine := r.api.await(t, "mine", "running", running)
	own, err := cpumanager.ParseSet(runtime.of(mine))
	if err != nil || own.Len() != 1 || own.Within(reserved) {
		t.Errorf("the container has %s (%v)", own, err)
	}
	eventually(t, "the other container left the CPU", func() bool { return runtime.of(shared) == all.Minus(own).String() })

	// There are not enough CPUs for this one: the reserved one is not allocatable.
	r.api.create(pinned(webPod("more"), all.Len()))
	more := r.api.await(t, "more", "failed", func(pod *corev1.Pod) bool { return pod != nil && pod.Status.Phase == corev1.PodFailed })
	message := fmt.Sprintf("Node didn't have enough resource: cpu, requested: %d, used: 1000, capacity: %d", 1000*all.Len(), 1000*(all.Len()-1))
	if more.Status.Reason != "OutOfcpu" || more.Status.Message != "Pod was rejected: "+message {
		t.Errorf("status: %s: %s", more.Status.Reason, more.Status.Message)
	}
	r.api.awaitEvent(t, "more", "OutOfcpu", message)

	// Containers keep their CPUs when the kubelet is restarted.
	r.stop()
	r.start()
	r.api.create(webPod("late"))
	late := r.api.await(t, "late", "running", running)
	if got := runtime.of(late); got != all.Minus(own).String() || runtime.of(mine) != own.String() {
		t.Errorf("after a restart, containers have %s and %s", got, runtime.of(mine))
	}

	r.api.delete("mine", 1)
	r.api.await(t, "mine", "gone", gone)
	eventually(t, "the CPU is shared again", func() bool { return runtime.of(shared) == all.String() && runtime.of(late) == all.String() })

	// The CPUs of a pod that has ended are free, although the API still has it.
	done := pinned(webPod("done"), all.Len()-1)
	done.Spec.RestartPolicy = corev1.RestartPolicyNever
	deadline := int64(1)
	done.Spec.ActiveDeadlineSeconds = &deadline
	r.api.create(done)
	r.api.await(t, "done", "failed", func(pod *corev1.Pod) bool { return pod != nil && pod.Status.Phase == corev1.PodFailed })
	eventually(t, "the CPUs of a failed pod are shared again", func() bool { return runtime.of(shared) == all.String() })
	r.api.create(pinned(webPod("next"), all.Len()-1))
	r.api.await(t, "next", "running", running)
}

// TestBrokenCPUState checks that Run refuses to start with a broken state file, and names it.
func TestBrokenCPUState(t *testing.T) {
	_, reserved := machineCPUs(t)
	r := newRig(t, memruntime.Config{})
	r.config.CPUManager = kubelet.CPUManager{Policy: "static", Reserved: reserved.String()}
	file := filepath.Join(r.config.Root, "cpu_manager_state")
	if err := os.MkdirAll(r.config.Root, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := kubelet.New(r.config)
	if err != nil {
		t.Fatal(err)
	}
	err = k.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("please drain this node and delete the CPU manager checkpoint file %q before restarting Kubelet", file)) {
		t.Error(err)
	}
}
