package kubelet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// observer reads the state of one pod from the runtime. It caches what cannot change: an exited
// container, the start of a running one, a sandbox's addresses. It is used by one goroutine.
type observer struct {
	runtime    Runtime
	labels     map[string]string
	containers map[containerKey]containerState
	sandboxes  map[string]sandboxState
}

type containerKey struct {
	id    string
	phase containerPhase
}

func (k *Kubelet) observer(uid podUID) *observer {
	return &observer{
		runtime: k.config.Runtime,
		labels:  map[string]string{labelPodUID: string(uid), labelNode: k.config.NodeName},
	}
}

// look returns the current state of the pod.
func (o *observer) look(ctx context.Context) (*podState, error) {
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
	s := &podState{}
	known := map[string]sandboxState{}
	for _, item := range sandboxes.Items {
		sandbox, err := o.sandbox(ctx, item)
		if status.Code(err) == codes.NotFound {
			continue
		}
		if err != nil {
			return nil, err
		}
		known[item.Id] = sandbox
		s.sandboxes = append(s.sandboxes, sandbox)
	}
	seen := map[containerKey]containerState{}
	for _, item := range containers.Containers {
		c, err := o.container(ctx, item)
		if status.Code(err) == codes.NotFound {
			continue
		}
		if err != nil {
			return nil, err
		}
		seen[containerKey{c.id, c.phase}] = c
		s.containers = append(s.containers, c)
	}
	o.sandboxes, o.containers = known, seen
	slices.SortFunc(s.sandboxes, func(a, b sandboxState) int { return cmp.Compare(b.attempt, a.attempt) })
	slices.SortFunc(s.containers, func(a, b containerState) int {
		return cmp.Or(cmp.Compare(b.attempt, a.attempt), b.created.Compare(a.created))
	})
	return s, nil
}

func (o *observer) sandbox(ctx context.Context, item *runtimeapi.PodSandbox) (sandboxState, error) {
	ready := item.State == runtimeapi.PodSandboxState_SANDBOX_READY
	if s, known := o.sandboxes[item.Id]; known && s.ready == ready {
		return s, nil
	}
	s := sandboxState{id: item.Id, attempt: item.GetMetadata().GetAttempt(), ready: ready}
	if !ready {
		return s, nil
	}
	out, err := o.runtime.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: item.Id})
	if err != nil {
		return s, fmt.Errorf("sandbox status: %w", err)
	}
	s.hostNetwork = out.GetStatus().GetLinux().GetNamespaces().GetOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE
	if network := out.GetStatus().GetNetwork(); network.GetIp() != "" && !s.hostNetwork {
		s.ips = append(s.ips, network.GetIp())
		for _, more := range network.GetAdditionalIps() {
			s.ips = append(s.ips, more.GetIp())
		}
	}
	return s, nil
}

var phases = map[runtimeapi.ContainerState]containerPhase{
	runtimeapi.ContainerState_CONTAINER_CREATED: containerCreated,
	runtimeapi.ContainerState_CONTAINER_RUNNING: containerRunning,
	runtimeapi.ContainerState_CONTAINER_EXITED:  containerExited,
	runtimeapi.ContainerState_CONTAINER_UNKNOWN: containerUnknown,
}

func (o *observer) container(ctx context.Context, item *runtimeapi.Container) (containerState, error) {
	if c, known := o.containers[containerKey{item.Id, phases[item.State]}]; known {
		return c, nil
	}
	out, err := o.runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: item.Id})
	if err != nil {
		return containerState{}, fmt.Errorf("container status: %w", err)
	}
	s := out.GetStatus()
	c := containerState{
		id: item.Id, sandbox: item.PodSandboxId, name: item.GetMetadata().GetName(), attempt: item.GetMetadata().GetAttempt(),
		spec: item.GetAnnotations()[annotationSpec], phase: phases[s.GetState()],
		created: nanoseconds(s.GetCreatedAt()), started: nanoseconds(s.GetStartedAt()), finished: nanoseconds(s.GetFinishedAt()),
		exitCode: s.GetExitCode(), reason: s.GetReason(), message: s.GetMessage(),
		image: s.GetImage().GetImage(), imageID: s.GetImageRef(),
	}
	if c.phase == containerExited {
		if words := lastWords(s); words != "" {
			c.message = words
		}
	}
	return c, nil
}

func nanoseconds(n int64) time.Time {
	if n <= 0 {
		return time.Time{}
	}
	return time.Unix(0, n)
}

// podOf returns a pod from the labels of one of its sandboxes: enough to stop it and clean up after
// it.
func podOf(labels map[string]string) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Name, pod.Namespace = labels[labelPodName], labels[labelPodNamespace]
	pod.UID = podUID(labels[labelPodUID])
	return pod
}
