package kubelet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/planekit/planekit/kubelet/internal/podconfig"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// StopPods stops and removes all sandboxes of this node, its pods' mounts and its cgroups. It does
// not change the API, so that a kubelet that runs later starts the same pods again. Call it after
// Run has returned, or without Run; it uses the runtime's state.
func (k *Kubelet) StopPods(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with ctx
		select {
		case <-k.config.StopNow:
			awaitStall(ctx, func() int { return len(k.Stopping()) })
			cancel()
		case <-ctx.Done():
		}
	}()
	return k.stopPods(ctx)
}

// stopNowPatience is how long StopPods, after Config.StopNow was closed, waits for the next pod to
// be gone. A busy machine needs seconds for each; a runtime that hangs must not hold up the program.
const stopNowPatience = 10 * time.Second

// awaitStall returns when count has been the same for stopNowPatience, or ctx is done.
func awaitStall(ctx context.Context, count func() int) {
	for before := -1; ; {
		now := count()
		if now == before || !sleep(ctx, stopNowPatience) {
			return
		}
		before = now
	}
}

// Stopping returns the sorted namespace/name of the pods that StopPods is stopping.
func (k *Kubelet) Stopping() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Sorted(maps.Keys(k.stopping))
}

func (k *Kubelet) setStopping(s *runtimeapi.PodSandbox, is bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	name := s.GetMetadata().GetNamespace() + "/" + s.GetMetadata().GetName()
	if !is {
		delete(k.stopping, name)
		return
	}
	k.stopping[name] = true
}

func (k *Kubelet) stopPods(ctx context.Context) error {
	node := map[string]string{podconfig.LabelNode: k.config.NodeName}
	sandboxes, err := k.listSandboxes(ctx, node)
	if err != nil {
		return fmt.Errorf("stop pods: %w", err)
	}
	containers, err := k.config.Runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{
		Filter: &runtimeapi.ContainerFilter{LabelSelector: node},
	})
	if err != nil {
		return fmt.Errorf("stop pods: %w", err)
	}
	inside := map[string][]*runtimeapi.Container{}
	for _, c := range containers.Containers {
		inside[c.GetPodSandboxId()] = append(inside[c.GetPodSandboxId()], c)
	}
	errs := make([]error, len(sandboxes.Items))
	var group sync.WaitGroup
	for i, s := range sandboxes.Items {
		k.setStopping(s, true)
		group.Go(func() {
			defer k.setStopping(s, false)
			errs[i] = k.stopSandbox(ctx, s, inside[s.GetId()])
		})
	}
	group.Wait()
	uids := map[podUID]bool{}
	for _, s := range sandboxes.Items {
		uids[podUID(s.GetLabels()[podconfig.LabelPodUID])] = true
	}
	for _, uid := range k.onDisk() {
		uids[uid] = true
	}
	for uid := range uids {
		if uid != "" {
			errs = append(errs, k.tearDownVolumes(ctx, uid), k.groups.Remove(uid))
		}
	}
	errs = append(errs, k.groups.RemoveEmpty())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("stop pods: %w", err)
	}
	return nil
}

// runtimePatience is how long StopPods waits for a runtime that is being restarted.
const runtimePatience = 10 * time.Second

// listSandboxes lists the sandboxes with labels, after it has waited for a runtime that cannot be
// reached.
func (k *Kubelet) listSandboxes(ctx context.Context, labels map[string]string) (*runtimeapi.ListPodSandboxResponse, error) {
	deadline := time.Now().Add(runtimePatience)
	for {
		out, err := k.config.Runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{
			Filter: &runtimeapi.PodSandboxFilter{LabelSelector: labels},
		})
		if status.Code(err) != codes.Unavailable || time.Now().After(deadline) || !sleep(ctx, 100*time.Millisecond) {
			return out, err
		}
	}
}

// stopSandbox stops the containers of a sandbox, with the grace of their pod up to
// Config.StopGrace, and removes it.
func (k *Kubelet) stopSandbox(ctx context.Context, s *runtimeapi.PodSandbox, containers []*runtimeapi.Container) error {
	errs := make([]error, len(containers))
	var group sync.WaitGroup
	for i, c := range containers {
		if c.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
			continue
		}
		grace := int64(defaultGrace)
		if n, err := strconv.ParseInt(c.GetAnnotations()[podconfig.AnnotationGrace], 10, 64); err == nil {
			grace = n
		}
		grace = min(max(grace, minGrace), int64(k.config.StopGrace.Seconds()))
		group.Go(func() { errs[i] = k.stopContainer(ctx, c.GetId(), grace) })
	}
	group.Wait()
	if _, err := k.config.Runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: s.GetId()}); err != nil {
		return errors.Join(append(errs, err)...)
	}
	// Remove containers before the sandbox; otherwise containerd leaves their files behind.
	for _, c := range containers {
		_, err := k.config.Runtime.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: c.GetId()})
		errs = append(errs, err)
	}
	_, err := k.config.Runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: s.GetId()})
	return errors.Join(append(errs, err)...)
}

// stopContainer stops a container with grace in seconds, or without grace once Config.StopNow is
// closed.
func (k *Kubelet) stopContainer(ctx context.Context, id string, grace int64) error {
	stop := func(grace int64) error {
		_, err := k.config.Runtime.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: grace})
		return err
	}
	patient := make(chan error, 1)
	go func() { patient <- stop(grace) }()
	select {
	case err := <-patient:
		return err
	case <-k.config.StopNow:
	}
	return errors.Join(stop(0), <-patient)
}
