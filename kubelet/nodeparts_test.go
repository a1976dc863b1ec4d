package kubelet_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/cri/memruntime"
	"github.com/planekit/planekit/kubelet/eviction"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestNodeStatus: what is reserved is not allocatable, resources of other programs stay, and the
// status is written when it changes or has not been for five minutes.
func TestNodeStatus(t *testing.T) {
	inBubble(t, memruntime.Config{}, func(t *testing.T, r *rig) {
		thresholds, err := eviction.Parse(eviction.Settings{Hard: map[string]string{"memory.available": "100Mi"}})
		if err != nil {
			t.Fatal(err)
		}
		r.config.Eviction = kubelet.Eviction{Thresholds: thresholds, Interval: 24 * time.Hour}
		r.config.KubeReserved = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200m")}
		r.config.SystemReserved = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("300m"), corev1.ResourceMemory: resource.MustParse("1Gi")}
		r.start()
		get := func() *corev1.Node {
			node, err := nodeAPI{r.api}.Get(t.Context(), "", "node-1")
			if err != nil {
				t.Fatal(err)
			}
			return node
		}
		node := get()
		cpu, memory := node.Status.Allocatable[corev1.ResourceCPU], node.Status.Allocatable[corev1.ResourceMemory]
		if cpu.String() != "1500m" || memory.String() != "2972Mi" || node.Status.Capacity.Cpu().String() != "2" {
			t.Errorf("allocatable: %v", node.Status.Allocatable)
		}
		var kinds []string
		for _, c := range node.Status.Conditions {
			kinds = append(kinds, string(c.Type))
		}
		if got := strings.Join(kinds, " "); got != "MemoryPressure DiskPressure PIDPressure Ready" {
			t.Errorf("conditions: %s", got)
		}
		// Without the first, kube-apiserver translates WebSockets itself.
		declared := []string{"ExtendWebSocketsToKubelet", "RestartAllContainersOnContainerExits"}
		if got := node.Status.DeclaredFeatures; !slices.Equal(got, declared) {
			t.Errorf("declaredFeatures of a node with a port = %q, want %q", got, declared)
		}
		r.api.create(cpuPod("large", "1600m"))
		r.api.await(t, "large", "refused", failed("OutOfcpu", "Pod was rejected: Node didn't have enough resource: cpu, requested: 1600, used: 0, capacity: 1500"))
		r.api.create(webPod("web"))
		r.api.await(t, "web", "running", running)

		r.api.mu.Lock()
		r.api.node = r.api.node.DeepCopy()
		r.api.node.Status.Capacity["example.com/gpu"] = resource.MustParse("1")
		r.api.mu.Unlock()
		time.Sleep(31 * time.Second)
		node = get()
		if q := node.Status.Allocatable["example.com/gpu"]; q.Value() != 1 {
			t.Errorf("allocatable: %v", node.Status.Allocatable)
		}
		if len(node.Status.Images) != 1 || !strings.HasPrefix(node.Status.Images[0].Names[0], "docker.io/library/nginx@sha256:") || node.Status.Images[0].SizeBytes == 0 {
			t.Errorf("images: %+v", node.Status.Images)
		}
		time.Sleep(time.Second)
		version := get().ResourceVersion
		time.Sleep(4 * time.Minute)
		if get().ResourceVersion != version {
			t.Error("an unchanged status was written")
		}
		time.Sleep(70 * time.Second)
		if get().ResourceVersion == version {
			t.Error("the status was not written for five minutes")
		}
	})
}

// TestReservationIsEnforced: the cgroup of all pods is limited to what is not reserved. A kubelet that
// cannot do that says so and goes on.
func TestReservationIsEnforced(t *testing.T) {
	inBubble(t, memruntime.Config{}, func(t *testing.T, r *rig) {
		mount := t.TempDir()
		if err := os.WriteFile(filepath.Join(mount, "cgroup.controllers"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		r.config.CgroupMount, r.config.CgroupRoot = mount, "/planekit/kubepods"
		r.config.KubeReserved = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi"), corev1.ResourceCPU: resource.MustParse("1")}
		r.start()
		for file, want := range map[string]string{"memory.max": "3221225472", "cpu.weight": "39"} {
			if got, err := os.ReadFile(filepath.Join(mount, r.config.CgroupRoot, file)); err != nil || string(got) != want {
				t.Errorf("%s: %q %v, want %s", file, got, err, want)
			}
		}
		r.api.awaitEvent(t, "node-1", "NodeAllocatableEnforced", "Updated Node Allocatable limit across pods")
		r.stop()
		r.config.CgroupMount = filepath.Join(mount, "cgroup.controllers")
		r.start()
		eventually(t, "the failure is an event", func() bool {
			r.api.mu.Lock()
			defer r.api.mu.Unlock()
			return slices.ContainsFunc(r.api.events, func(e *corev1.Event) bool {
				return e.Reason == "FailedNodeAllocatableEnforcement" && e.Type == corev1.EventTypeWarning
			})
		})
	})
}

// TestReservedTooMuch: a kubelet does not run if more is reserved than the machine has.
func TestReservedTooMuch(t *testing.T) {
	inBubble(t, memruntime.Config{}, func(t *testing.T, r *rig) {
		r.stop = func() {}
		r.config.KubeReserved = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3")}
		k, err := kubelet.New(r.config)
		if err != nil {
			t.Fatal(err)
		}
		const want = `kubelet: invalid Node Allocatable configuration. Resource "cpu" has a reservation of 3 but capacity of 2. Expected capacity >= reservation.`
		if err := k.Run(t.Context()); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	})
}
