package memruntime

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// CreateContainer creates a container in a ready sandbox from a pulled image.
func (r *Runtime) CreateContainer(_ context.Context, in *runtimeapi.CreateContainerRequest) (*runtimeapi.CreateContainerResponse, error) {
	name := in.GetConfig().GetMetadata().GetName()
	if name == "" {
		return nil, status.Error(codes.InvalidArgument, "container config must include metadata with a name")
	}
	if security := in.GetConfig().GetLinux().GetSecurityContext(); security.GetRunAsGroup() != nil && security.GetRunAsUser() == nil && security.GetRunAsUsername() == "" {
		return nil, status.Error(codes.InvalidArgument, "user group is specified without user")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sandboxes[in.GetPodSandboxId()]
	if s == nil {
		return nil, status.Errorf(codes.NotFound, "failed to find sandbox id %q: not found", in.GetPodSandboxId())
	}
	if !s.ready {
		return nil, status.Errorf(codes.Unknown, "sandbox container %q is not running", s.id)
	}
	image := r.image(in.GetConfig().GetImage().GetImage())
	if image == nil {
		return nil, status.Errorf(codes.NotFound, "failed to resolve image %q: not found", in.GetConfig().GetImage().GetImage())
	}
	m := s.config.GetMetadata()
	c := &container{
		id: newID(), sandbox: s, config: in.GetConfig(), image: image,
		resources: in.GetConfig().GetLinux().GetResources(),
		name:      strings.Join([]string{name, m.GetName(), m.GetNamespace(), m.GetUid(), fmt.Sprint(in.GetConfig().GetMetadata().GetAttempt())}, "_"),
	}
	c.life, c.end = context.WithCancel(context.Background())
	if err := r.reserve("container", c.name, c.id); err != nil {
		return nil, err
	}
	c.created = r.now()
	r.containers[c.id] = c
	r.announce(c, runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT)
	return &runtimeapi.CreateContainerResponse{ContainerId: c.id}, nil
}

// RemoveContainer removes a container, killing it if it runs. An unknown container counts as
// removed.
func (r *Runtime) RemoveContainer(_ context.Context, in *runtimeapi.RemoveContainerRequest) (*runtimeapi.RemoveContainerResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.containers[in.GetContainerId()]; c != nil {
		r.exit(c, exitKilled)
		r.remove(c)
	}
	return &runtimeapi.RemoveContainerResponse{}, nil
}

func (r *Runtime) remove(c *container) {
	delete(r.containers, c.id)
	delete(r.names, c.name)
	r.announce(c, runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT)
}

// ContainerStatus returns the status of a container.
func (r *Runtime) ContainerStatus(_ context.Context, in *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := r.find(in.GetContainerId())
	if err != nil {
		return nil, err
	}
	return &runtimeapi.ContainerStatusResponse{Status: c.status()}, nil
}

// find returns a container by ID. The caller holds r.mu.
func (r *Runtime) find(id string) (*container, error) {
	c := r.containers[id]
	if c == nil {
		return nil, status.Errorf(codes.NotFound, "container %q: not found", id)
	}
	return c, nil
}

// running returns a container that runs. r.mu must be held.
func (r *Runtime) running(id string) (*container, error) {
	c, err := r.find(id)
	if err == nil && c.state() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		err = status.Errorf(codes.Unknown, "container %q is not running", c.id)
	}
	return c, err
}

// ListContainers lists the containers that match the filter, oldest first.
func (r *Runtime) ListContainers(_ context.Context, in *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	f := in.GetFilter()
	r.mu.Lock()
	defer r.mu.Unlock()
	out := &runtimeapi.ListContainersResponse{}
	for _, c := range r.containers {
		if f.GetId() != "" && f.GetId() != c.id ||
			f.GetPodSandboxId() != "" && f.GetPodSandboxId() != c.sandbox.id ||
			f.GetState() != nil && f.GetState().GetState() != c.state() ||
			!selects(f.GetLabelSelector(), c.config.GetLabels()) {
			continue
		}
		out.Containers = append(out.Containers, &runtimeapi.Container{
			Id: c.id, PodSandboxId: c.sandbox.id, Metadata: c.config.GetMetadata(), Image: c.config.GetImage(),
			ImageRef: c.image.GetId(), ImageId: c.image.GetId(), State: c.state(), CreatedAt: c.created,
			Labels: c.config.GetLabels(), Annotations: c.config.GetAnnotations(),
		})
	}
	slices.SortFunc(out.Containers, func(a, b *runtimeapi.Container) int { return int(a.CreatedAt - b.CreatedAt) })
	return out, nil
}

// UpdateContainerResources changes the resources of a created or running container. As with other
// runtimes, zero and empty fields change nothing.
func (r *Runtime) UpdateContainerResources(_ context.Context, in *runtimeapi.UpdateContainerResourcesRequest) (*runtimeapi.UpdateContainerResourcesResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := r.find(in.GetContainerId())
	if err != nil {
		return nil, err
	}
	if c.state() == runtimeapi.ContainerState_CONTAINER_EXITED {
		return nil, status.Errorf(codes.Unknown, "failed to update container %q: it has exited", c.id)
	}
	c.resources = merged(c.resources, in.GetLinux())
	return &runtimeapi.UpdateContainerResourcesResponse{}, nil
}

// merged returns the resources that a container has after an update. Both may be nil.
func merged(have, update *runtimeapi.LinuxContainerResources) *runtimeapi.LinuxContainerResources {
	return &runtimeapi.LinuxContainerResources{
		CpuPeriod: cmp.Or(update.GetCpuPeriod(), have.GetCpuPeriod()), CpuQuota: cmp.Or(update.GetCpuQuota(), have.GetCpuQuota()),
		CpuShares:              cmp.Or(update.GetCpuShares(), have.GetCpuShares()),
		MemoryLimitInBytes:     cmp.Or(update.GetMemoryLimitInBytes(), have.GetMemoryLimitInBytes()),
		MemorySwapLimitInBytes: cmp.Or(update.GetMemorySwapLimitInBytes(), have.GetMemorySwapLimitInBytes()),
		OomScoreAdj:            have.GetOomScoreAdj(),
		CpusetCpus:             cmp.Or(update.GetCpusetCpus(), have.GetCpusetCpus()), CpusetMems: cmp.Or(update.GetCpusetMems(), have.GetCpusetMems()),
		HugepageLimits: have.GetHugepageLimits(), Unified: have.GetUnified(),
	}
}
