package kubelet_test

import (
	"context"
	"sync"
	"testing"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/cri/memruntime"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// heard is a runtime that keeps what it was asked to make. If offers is set, it is added to the
// runtime's status.
type heard struct {
	kubelet.Runtime
	offers func(*runtimeapi.StatusResponse)
	// fill completes the status of a container.
	fill func(*runtimeapi.ContainerStatus)

	mu sync.Mutex
	// mu guards the fields below.
	sandboxes  []*runtimeapi.RunPodSandboxRequest
	containers []*runtimeapi.CreateContainerRequest
}

func (h *heard) Status(ctx context.Context, in *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	out, err := h.Runtime.Status(ctx, in)
	if err == nil && h.offers != nil {
		h.offers(out)
	}
	return out, err
}

func (h *heard) ContainerStatus(ctx context.Context, in *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	out, err := h.Runtime.ContainerStatus(ctx, in)
	if err == nil && h.fill != nil {
		h.fill(out.Status)
	}
	return out, err
}

func (h *heard) RunPodSandbox(ctx context.Context, in *runtimeapi.RunPodSandboxRequest) (*runtimeapi.RunPodSandboxResponse, error) {
	h.mu.Lock()
	h.sandboxes = append(h.sandboxes, in)
	h.mu.Unlock()
	return h.Runtime.RunPodSandbox(ctx, in)
}

func (h *heard) CreateContainer(ctx context.Context, in *runtimeapi.CreateContainerRequest) (*runtimeapi.CreateContainerResponse, error) {
	h.mu.Lock()
	h.containers = append(h.containers, in)
	h.mu.Unlock()
	return h.Runtime.CreateContainer(ctx, in)
}

// sandbox returns the last request for a sandbox of a pod; nil if there was none.
func (h *heard) sandbox(pod string) *runtimeapi.RunPodSandboxRequest {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := len(h.sandboxes) - 1; i >= 0; i-- {
		if h.sandboxes[i].GetConfig().GetMetadata().GetName() == pod {
			return h.sandboxes[i]
		}
	}
	return nil
}

// container returns the last request for a container of a pod; nil if there was none.
func (h *heard) container(pod string) *runtimeapi.CreateContainerRequest {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := len(h.containers) - 1; i >= 0; i-- {
		if h.containers[i].GetSandboxConfig().GetMetadata().GetName() == pod {
			return h.containers[i]
		}
	}
	return nil
}

// newHeardRig is a node whose runtime keeps what it was asked to make.
func newHeardRig(t *testing.T) (*rig, *heard) {
	t.Helper()
	r := newRig(t, memruntime.Config{})
	h := &heard{Runtime: r.client}
	r.config.Runtime = h
	return r, h
}

// TestRuntimeClass checks that the runtime is given the handler of a pod's class, and that a pod of
// an unknown class starts when there is one.
func TestRuntimeClass(t *testing.T) {
	r, runtime := newHeardRig(t)
	classes := localcache.NewMap[*nodev1.RuntimeClass]()
	class := func(name, handler string) *nodev1.RuntimeClass {
		return &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Handler: handler}
	}
	classes.Put(class("sandboxed", "kata"))
	r.config.RuntimeClasses = classes
	r.start()

	of := func(name, class string) *corev1.Pod {
		pod := webPod(name)
		pod.Spec.RuntimeClassName = &class
		return pod
	}
	r.api.create(of("web", "sandboxed"))
	r.api.create(of("late", "gvisor"))
	r.api.create(webPod("plain"))
	r.api.await(t, "web", "running", running)
	r.api.await(t, "plain", "running", running)
	if handler := runtime.sandbox("web").GetRuntimeHandler(); handler != "kata" {
		t.Errorf("handler %q", handler)
	}
	if handler := runtime.sandbox("plain").GetRuntimeHandler(); handler != "" {
		t.Errorf("handler %q without a class", handler)
	}
	r.api.awaitEvent(t, "late", "FailedCreatePodSandBox", `Failed to create pod sandbox: runtimeclass.node.k8s.io "gvisor" not found`)
	if runtime.sandbox("late") != nil {
		t.Error("a sandbox for a class that does not exist")
	}
	classes.Put(class("gvisor", "runsc"))
	r.api.await(t, "late", "running", running)
	if handler := runtime.sandbox("late").GetRuntimeHandler(); handler != "runsc" {
		t.Errorf("handler %q", handler)
	}
}
