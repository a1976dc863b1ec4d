package kubelet_test

import (
	"context"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet/cri/memruntime"
)

// requirements parses amounts; empty ones are left out.
func requirements(cpu, memory, cpuLimit, memoryLimit string) corev1.ResourceRequirements {
	list := func(cpu, memory string) corev1.ResourceList {
		l := corev1.ResourceList{}
		if cpu != "" {
			l[corev1.ResourceCPU] = resource.MustParse(cpu)
		}
		if memory != "" {
			l[corev1.ResourceMemory] = resource.MustParse(memory)
		}
		return l
	}
	return corev1.ResourceRequirements{Requests: list(cpu, memory), Limits: list(cpuLimit, memoryLimit)}
}

func sizedPod(name string, sizes ...corev1.ResourceRequirements) *corev1.Pod {
	pod := webPod(name)
	pod.Spec.Containers = nil
	for i, r := range sizes {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: fmt.Sprint("c", i), Image: "nginx", Resources: r})
	}
	return pod
}

// resize changes the size of containers as an API server does.
func (a *api) resize(name string, sizes ...corev1.ResourceRequirements) {
	a.mu.Lock()
	defer a.mu.Unlock()
	old, _ := a.pods.Get("default/" + name)
	pod := old.DeepCopy()
	for i, r := range sizes {
		pod.Spec.Containers[i].Resources = r
	}
	pod.Generation++
	pod.ResourceVersion = a.touch()
	a.pods.Put(pod)
}

// has reports whether a pod has the sizes, no resize of it is under way, and the status shows it.
func has(sizes ...corev1.ResourceRequirements) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool {
		if !running(pod) || pod.Status.ObservedGeneration != pod.Generation ||
			condition(pod, corev1.PodResizePending)+condition(pod, corev1.PodResizeInProgress) != "" {
			return false
		}
		for i, r := range sizes {
			s := pod.Status.ContainerStatuses[i]
			if !equalSizes(s.Resources, &r) || s.AllocatedResources.Cpu().Cmp(*r.Requests.Cpu()) != 0 || s.AllocatedResources.Memory().Cmp(*r.Requests.Memory()) != 0 {
				return false
			}
		}
		return true
	}
}

func equalSizes(a, b *corev1.ResourceRequirements) bool {
	return a != nil && a.Requests.Cpu().Cmp(*b.Requests.Cpu()) == 0 && a.Requests.Memory().Cmp(*b.Requests.Memory()) == 0 &&
		a.Limits.Cpu().Cmp(*b.Limits.Cpu()) == 0 && a.Limits.Memory().Cmp(*b.Limits.Memory()) == 0
}

// limitsOf returns what the runtime enforces for a container: quota and memory.
func (r *rig) limitsOf(container string) (int64, int64) {
	r.t.Helper()
	for _, c := range r.containers() {
		if c.Metadata.Name != container || c.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
			continue
		}
		s, err := r.client.ContainerStatus(r.t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: c.Id})
		if err != nil {
			r.t.Fatal(err)
		}
		l := s.GetStatus().GetResources().GetLinux()
		return l.GetCpuQuota(), l.GetMemoryLimitInBytes()
	}
	return 0, 0
}

func pendingFor(reason string) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodResizePending {
				return c.Reason == reason && c.Status == corev1.ConditionTrue
			}
		}
		return false
	}
}

func TestResizeInPlace(t *testing.T) {
	r := newRig(t, memruntime.Config{})
	r.start()
	small, large := requirements("100m", "100Mi", "200m", "200Mi"), requirements("300m", "50Mi", "500m", "400Mi")
	r.api.create(sizedPod("web", small))
	before := r.api.await(t, "web", "small", has(small))
	r.api.resize("web", large)
	after := r.api.await(t, "web", "large", has(large))
	if a, b := after.Status.ContainerStatuses[0], before.Status.ContainerStatuses[0]; a.ContainerID != b.ContainerID || a.RestartCount != 0 {
		t.Errorf("container %s became %s", b.ContainerID, a.ContainerID)
	}
	if quota, memory := r.limitsOf("c0"); quota != 50000 || memory != 400<<20 {
		t.Errorf("the runtime has %d %d", quota, memory)
	}
	if got := after.Status.Resources; got.Requests.Cpu().String() != "300m" || got.Limits.Memory().String() != "400Mi" || after.Status.AllocatedResources.Memory().String() != "50Mi" {
		t.Errorf("the pod as a whole: %+v %v", got, after.Status.AllocatedResources)
	}
	const size = `{"containers":[{"name":"c0","resources":{"limits":{"cpu":"500m","memory":"400Mi"},"requests":{"cpu":"300m","memory":"50Mi"}}}],"generation":2}`
	r.api.awaitEvent(t, "web", "ResizeStarted", "Pod resize started: "+size)
	r.api.awaitEvent(t, "web", "ResizeCompleted", "Pod resize completed: "+size)
}

// TestResizeRestarts resizes a container whose policy is to restart.
func TestResizeRestarts(t *testing.T) {
	for _, policy := range []corev1.RestartPolicy{corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure} {
		t.Run(string(policy), func(t *testing.T) {
			r := newRig(t, memruntime.Config{})
			r.start()
			small := requirements("100m", "100Mi", "200m", "200Mi")
			pod := sizedPod("web", small, small)
			pod.Spec.RestartPolicy = policy
			pod.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}}
			r.api.create(pod)
			before := r.api.await(t, "web", "small", has(small, small))
			cpu := requirements("100m", "100Mi", "300m", "200Mi")
			r.api.resize("web", cpu)
			after := r.api.await(t, "web", "with more cpu", has(cpu, small))
			if after.Status.ContainerStatuses[0].ContainerID != before.Status.ContainerStatuses[0].ContainerID {
				t.Error("more cpu restarted the container")
			}
			memory := requirements("100m", "100Mi", "300m", "300Mi")
			r.api.resize("web", memory)
			after = r.api.await(t, "web", "with more memory", has(memory, small))
			if c := after.Status.ContainerStatuses[0]; c.RestartCount != 1 || after.Status.ContainerStatuses[1].RestartCount != 0 {
				t.Errorf("restarts: %+v", after.Status.ContainerStatuses)
			}
			if quota, memory := r.limitsOf("c0"); quota != 30000 || memory != 300<<20 {
				t.Errorf("the runtime has %d %d", quota, memory)
			}
			r.api.awaitEvent(t, "web", "Killing", "Container c0 resize requires restart")
		})
	}
}

// TestResizeDeferred waits for room, also while the kubelet is restarted.
func TestResizeDeferred(t *testing.T) {
	r := newRig(t, memruntime.Config{})
	r.config.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	r.start()
	small, large := requirements("100m", "", "", ""), requirements("900m", "", "", "")
	r.api.create(sizedPod("big", requirements("500m", "", "", "")))
	r.api.await(t, "big", "running", running)
	r.api.create(sizedPod("web", small))
	before := r.api.await(t, "web", "small", has(small))
	r.api.resize("web", large)
	pod := r.api.await(t, "web", "deferred", pendingFor("Deferred"))
	if s := pod.Status.ContainerStatuses[0]; !equalSizes(s.Resources, &small) || s.AllocatedResources.Cpu().String() != "100m" {
		t.Errorf("status %+v", s)
	}
	r.api.awaitEvent(t, "web", "ResizeDeferred", `Pod resize OutOfcpu: {"containers":[{"name":"c0","resources":{"requests":{"cpu":"900m"}}}],"generation":2,"error":"Node didn't have enough resource: cpu, requested: 900, used: 500, capacity: 1000"}`)
	r.stop()
	r.start()
	r.api.create(sizedPod("later", requirements("50m", "", "", "")))
	r.api.await(t, "later", "running", running)
	if pod := r.api.await(t, "web", "still deferred", pendingFor("Deferred")); pod.Status.ContainerStatuses[0].AllocatedResources.Cpu().String() != "100m" {
		t.Errorf("status %+v", pod.Status.ContainerStatuses[0])
	}
	r.api.delete("big", 0)
	after := r.api.await(t, "web", "large", has(large))
	if after.Status.ContainerStatuses[0].ContainerID != before.Status.ContainerStatuses[0].ContainerID {
		t.Error("the container was restarted")
	}
}

// TestResizeFails reports what the runtime refuses, and carries the next resize out.
func TestResizeFails(t *testing.T) {
	var mu sync.Mutex
	refuse := true
	r := newRig(t, memruntime.Config{Intercept: func(ctx context.Context, in any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		if refuse && strings.HasSuffix(info.FullMethod, "UpdateContainerResources") {
			return nil, status.Error(codes.Unknown, "no such thing")
		}
		return handler(ctx, in)
	}})
	r.start()
	small, large := requirements("100m", "100Mi", "200m", "200Mi"), requirements("100m", "100Mi", "500m", "200Mi")
	r.api.create(sizedPod("web", small))
	r.api.await(t, "web", "small", has(small))
	r.api.resize("web", large)
	pod := r.api.await(t, "web", "in error", func(pod *corev1.Pod) bool {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodResizeInProgress && c.Reason == "Error" {
				return strings.Contains(c.Message, "no such thing") && c.ObservedGeneration == 2
			}
		}
		return false
	})
	if s := pod.Status.ContainerStatuses[0]; !equalSizes(s.Resources, &small) || s.State.Running == nil {
		t.Errorf("status %+v", s)
	}
	mu.Lock()
	refuse = false
	mu.Unlock()
	larger := requirements("100m", "100Mi", "600m", "200Mi")
	r.api.resize("web", larger) // does not wait for the next attempt
	r.api.await(t, "web", "larger", has(larger))
}

// TestResizeBelowUsage keeps a memory limit that is in use.
func TestResizeBelowUsage(t *testing.T) {
	r := newRig(t, memruntime.Config{Behave: func(*runtimeapi.ContainerConfig) memruntime.Behavior {
		return memruntime.Behavior{Memory: 150 << 20}
	}})
	r.start()
	r.api.create(sizedPod("web", requirements("", "50Mi", "", "200Mi")))
	r.api.await(t, "web", "running", running)
	r.api.resize("web", requirements("", "50Mi", "", "100Mi"))
	const message = `cannot decrease memory limits: attempting to set container "c0" memory limit (104857600) below current usage (157286400)`
	r.api.await(t, "web", "in error", func(pod *corev1.Pod) bool {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodResizeInProgress {
				return c.Reason == "Error" && c.Message == message
			}
		}
		return false
	})
	if _, memory := r.limitsOf("c0"); memory != 200<<20 {
		t.Errorf("the limit is %d", memory)
	}
	r.api.awaitEvent(t, "web", "ResizeError", `Pod resize error: {"containers":[{"name":"c0","resources":{"limits":{"memory":"100Mi"},"requests":{"memory":"50Mi"}}}],"generation":2,"error":"`+
		strings.ReplaceAll(message, `"`, `\"`)+`"}`)
	back := requirements("", "50Mi", "", "160Mi")
	r.api.resize("web", back)
	r.api.await(t, "web", "above its usage", has(back))
}

// TestResizeAfterLoss starts a kubelet without its files: the sizes in the spec apply, and no
// container restarts, whatever its policy.
func TestResizeAfterLoss(t *testing.T) {
	r := newRig(t, memruntime.Config{})
	r.start()
	small, large := requirements("100m", "100Mi", "200m", "200Mi"), requirements("300m", "100Mi", "500m", "400Mi")
	pod := sizedPod("web", small)
	pod.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}}
	created := r.api.create(pod)
	before := r.api.await(t, "web", "small", has(small))
	r.stop()
	if err := os.WriteFile(filepath.Join(r.config.Root, "pods", string(created.UID), "resources.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.api.resize("web", large)
	r.start()
	after := r.api.await(t, "web", "large", has(large))
	if a, b := after.Status.ContainerStatuses[0], before.Status.ContainerStatuses[0]; a.ContainerID != b.ContainerID || a.RestartCount != 0 {
		t.Errorf("container %s became %s", b.ContainerID, a.ContainerID)
	}
	if quota, memory := r.limitsOf("c0"); quota != 50000 || memory != 400<<20 {
		t.Errorf("the runtime has %d %d", quota, memory)
	}
}

// TestResizeModel resizes pods at random, with calls that fail and kubelets that end at any step.
// Each pod gets the last size that fits, its containers are never restarted, and what the runtime
// enforces is what the status says.
func TestResizeModel(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewSource(seed))
	var mu sync.Mutex
	failures := 0
	r := newRig(t, memruntime.Config{Intercept: func(ctx context.Context, in any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		mu.Lock()
		fails := failures > 0 && strings.HasSuffix(info.FullMethod, "UpdateContainerResources")
		if fails {
			failures--
		}
		mu.Unlock()
		if fails {
			return nil, status.Error(codes.Unknown, "refused")
		}
		return handler(ctx, in)
	}})
	r.config.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("64Gi")}
	r.start()
	size := func() corev1.ResourceRequirements {
		milli, mib := 10+random.Int63n(500), 10+random.Int63n(500)
		return requirements(fmt.Sprintf("%dm", milli), fmt.Sprintf("%dMi", mib), fmt.Sprintf("%dm", milli+random.Int63n(500)), fmt.Sprintf("%dMi", mib+random.Int63n(500)))
	}
	ids := map[string]string{}
	names := []string{"one", "two", "three"}
	for _, name := range names {
		a, b := size(), size()
		r.api.create(sizedPod(name, a, b))
		pod := r.api.await(t, name, "running", has(a, b))
		for _, c := range pod.Status.ContainerStatuses {
			ids[name+c.Name] = c.ContainerID
		}
	}
	for range 12 {
		want := map[string][]corev1.ResourceRequirements{}
		for range 4 {
			name := names[random.Intn(len(names))]
			want[name] = []corev1.ResourceRequirements{size(), size()}
			r.api.resize(name, want[name]...)
			switch random.Intn(4) {
			case 0:
				r.stop()
				r.start()
			case 1:
				mu.Lock()
				failures = 1
				mu.Unlock()
			}
		}
		mu.Lock()
		failures = 0
		mu.Unlock()
		// Another generation does not wait for the next attempt.
		for name := range want {
			r.api.resize(name, want[name]...)
		}
		for name := range want {
			pod := r.api.await(t, name, "resized", has(want[name]...))
			for _, c := range pod.Status.ContainerStatuses {
				if c.ContainerID != ids[name+c.Name] || c.RestartCount != 0 {
					t.Fatalf("container %s of %s was restarted", c.Name, name)
				}
			}
		}
	}
}
