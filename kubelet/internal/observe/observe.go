// Package observe reads the state of pods from a container runtime.
package observe

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/planekit/planekit/kubelet/internal/lifecycle"
	"github.com/planekit/planekit/kubelet/internal/podconfig"
	"github.com/planekit/planekit/kubelet/internal/qos"
	"github.com/planekit/planekit/kubelet/internal/resize"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Runtime lists the sandboxes and containers of a runtime and reads their status.
type Runtime interface {
	ListPodSandbox(context.Context, *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error)
	PodSandboxStatus(context.Context, *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error)
	ListContainers(context.Context, *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error)
	ContainerStatus(context.Context, *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error)
}

// Observer reads the state of one pod from the runtime. It caches what cannot change: an exited
// container, the start of a running one, a sandbox's addresses. It is used by one goroutine.
type Observer struct {
	runtime    Runtime
	labels     map[string]string
	containers map[containerKey]lifecycle.Container
	sandboxes  map[string]lifecycle.Sandbox
	seen       atomic.Pointer[string]
}

// Seen returns what the last Look has seen, as [Digest] puts it. It is empty if there was none, or if
// something went in its course. It may be called at any time.
func (o *Observer) Seen() string {
	if seen := o.seen.Load(); seen != nil {
		return *seen
	}
	return ""
}

// Digest returns a text for each pod that changes with the IDs and states of its sandboxes and containers.
func Digest(sandboxes []*runtimeapi.PodSandbox, containers []*runtimeapi.Container) map[types.UID]string {
	parts := map[types.UID][]string{}
	for _, s := range sandboxes {
		uid := types.UID(s.GetLabels()[podconfig.LabelPodUID])
		parts[uid] = append(parts[uid], fmt.Sprint(s.GetId(), s.GetState()))
	}
	for _, c := range containers {
		uid := types.UID(c.GetLabels()[podconfig.LabelPodUID])
		parts[uid] = append(parts[uid], fmt.Sprint(c.GetId(), c.GetState()))
	}
	out := map[types.UID]string{}
	for uid, list := range parts {
		slices.Sort(list)
		out[uid] = strings.Join(list, " ")
	}
	return out
}

type containerKey struct {
	id    string
	phase lifecycle.Phase
}

// New returns an observer of the pod uid on a node.
func New(runtime Runtime, uid types.UID, node string) *Observer {
	return &Observer{
		runtime: runtime,
		labels:  map[string]string{podconfig.LabelPodUID: string(uid), podconfig.LabelNode: node},
	}
}

// Look returns the current state of the pod.
func (o *Observer) Look(ctx context.Context) (*lifecycle.State, error) {
	// List containers first: if a sandbox stops between the two calls, the result is live containers
	// in a dead sandbox, which are stopped. In the other order, it would be dead containers in a
	// sandbox that still appears ready, where they would be restarted.
	containers, err := o.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{
		Filter: &runtimeapi.ContainerFilter{LabelSelector: o.labels},
	})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	sandboxes, err := o.runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{
		Filter: &runtimeapi.PodSandboxFilter{LabelSelector: o.labels},
	})
	if err != nil {
		return nil, fmt.Errorf("list sandboxes: %w", err)
	}
	items, list := owned(o, sandboxes.GetItems()), owned(o, containers.GetContainers())
	o.seen.Store(nil)
	whole := true // nothing went in the meantime
	s := &lifecycle.State{}
	known := map[string]lifecycle.Sandbox{}
	for _, item := range items {
		sandbox, err := o.sandbox(ctx, item)
		if status.Code(err) == codes.NotFound {
			whole = false
			continue
		}
		if err != nil {
			return nil, err
		}
		known[item.Id] = sandbox
		s.Sandboxes = append(s.Sandboxes, sandbox)
	}
	seen := map[containerKey]lifecycle.Container{}
	for _, item := range list {
		c, err := o.container(ctx, item)
		if status.Code(err) == codes.NotFound {
			whole = false
			continue
		}
		if err != nil {
			return nil, err
		}
		seen[containerKey{c.ID, c.Phase}] = c
		s.Containers = append(s.Containers, c)
	}
	o.sandboxes, o.containers = known, seen
	if whole {
		o.seen.Store(new(Digest(items, list)[types.UID(o.labels[podconfig.LabelPodUID])]))
	}
	slices.SortFunc(s.Sandboxes, func(a, b lifecycle.Sandbox) int { return cmp.Compare(b.Attempt, a.Attempt) })
	slices.SortFunc(s.Containers, func(a, b lifecycle.Container) int {
		return cmp.Or(cmp.Compare(b.Attempt, a.Attempt), b.Created.Compare(a.Created))
	})
	return s, nil
}

// owned returns what in list is the pod's.
func owned[T interface{ GetLabels() map[string]string }](o *Observer, list []T) []T {
	var out []T
	for _, item := range list {
		if o.owns(item.GetLabels()) {
			out = append(out, item)
		}
	}
	return out
}

// owns reports whether labels are those of the pod on its node. A runtime that ignores the filter of
// a list must not make other pods' containers stop.
func (o *Observer) owns(labels map[string]string) bool {
	for key, value := range o.labels {
		if labels[key] != value {
			return false
		}
	}
	return true
}

func (o *Observer) sandbox(ctx context.Context, item *runtimeapi.PodSandbox) (lifecycle.Sandbox, error) {
	ready := item.State == runtimeapi.PodSandboxState_SANDBOX_READY
	if s, known := o.sandboxes[item.Id]; known && s.Ready == ready {
		return s, nil
	}
	s := lifecycle.Sandbox{ID: item.Id, Attempt: item.GetMetadata().GetAttempt(), Ready: ready}
	if !ready {
		return s, nil
	}
	out, err := o.runtime.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: item.Id})
	if err != nil {
		return s, fmt.Errorf("sandbox status: %w", err)
	}
	s.HostNetwork = out.GetStatus().GetLinux().GetNamespaces().GetOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE
	if network := out.GetStatus().GetNetwork(); network.GetIp() != "" && !s.HostNetwork {
		s.IPs = append(s.IPs, network.GetIp())
		for _, more := range network.GetAdditionalIps() {
			s.IPs = append(s.IPs, more.GetIp())
		}
	}
	return s, nil
}

var phases = map[runtimeapi.ContainerState]lifecycle.Phase{
	runtimeapi.ContainerState_CONTAINER_CREATED: lifecycle.Created,
	runtimeapi.ContainerState_CONTAINER_RUNNING: lifecycle.Running,
	runtimeapi.ContainerState_CONTAINER_EXITED:  lifecycle.Exited,
	runtimeapi.ContainerState_CONTAINER_UNKNOWN: lifecycle.Unknown,
}

func (o *Observer) container(ctx context.Context, item *runtimeapi.Container) (lifecycle.Container, error) {
	if c, known := o.containers[containerKey{item.Id, phases[item.State]}]; known {
		return c, nil
	}
	out, err := o.runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: item.Id})
	if err != nil {
		return lifecycle.Container{}, fmt.Errorf("container status: %w", err)
	}
	s := out.GetStatus()
	c := lifecycle.Container{
		ID: item.Id, Sandbox: item.PodSandboxId, Name: item.GetMetadata().GetName(), Attempt: item.GetMetadata().GetAttempt(),
		Spec: item.GetAnnotations()[podconfig.AnnotationSpec], Phase: phases[s.GetState()],
		Created: nanoseconds(s.GetCreatedAt()), Started: nanoseconds(s.GetStartedAt()), Finished: nanoseconds(s.GetFinishedAt()),
		ExitCode: s.GetExitCode(), Reason: s.GetReason(), Message: s.GetMessage(),
		Image: s.GetImage().GetImage(), ImageID: s.GetImageRef(),
	}
	c.Round, c.First = podconfig.Round(item.GetAnnotations())
	if user := s.GetUser().GetLinux(); user != nil {
		c.User = &corev1.LinuxContainerUser{UID: user.GetUid(), GID: user.GetGid(), SupplementalGroups: user.GetSupplementalGroups()}
	}
	if c.Phase == lifecycle.Running {
		c.Size = reported(s.GetResources().GetLinux())
	}
	if c.Phase == lifecycle.Exited {
		if message := terminationMessage(s); message != "" {
			c.Message = message
		}
	}
	return c, nil
}

// Forget makes the next Look read the status of a container again, whose resources have changed.
func (o *Observer) Forget(id string) {
	delete(o.containers, containerKey{id, lifecycle.Running})
}

// reported translates the resources of a running container; nil if the runtime reports none.
func reported(r *runtimeapi.LinuxContainerResources) *resize.Reported {
	out := resize.Reported{
		MilliRequest: qos.MilliOfShares(r.GetCpuShares()), MilliLimit: qos.MilliOfQuota(r.GetCpuQuota(), r.GetCpuPeriod()),
		Memory: max(r.GetMemoryLimitInBytes(), 0),
	}
	if out == (resize.Reported{}) {
		return nil
	}
	return &out
}

func nanoseconds(n int64) time.Time {
	if n <= 0 {
		return time.Time{}
	}
	return time.Unix(0, n)
}

// Pod returns a pod from the labels of one of its sandboxes: enough to stop it and clean up after
// it.
func Pod(labels map[string]string) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Name, pod.Namespace = labels[podconfig.LabelPodName], labels[podconfig.LabelPodNamespace]
	pod.UID = types.UID(labels[podconfig.LabelPodUID])
	return pod
}
