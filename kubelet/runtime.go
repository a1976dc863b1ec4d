package kubelet

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Runtime is what is needed of a container runtime: CRI v1, errors with gRPC
// codes. All methods must be safe for concurrent use and bounded in time by
// the implementation. Package cri has one.
type Runtime interface {
	Machine
	Sandboxes
	Containers
}

// Machine is the runtime as a whole.
type Machine interface {
	Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error)
	Status(context.Context, *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error)
	UpdateRuntimeConfig(context.Context, *runtimeapi.UpdateRuntimeConfigRequest) (*runtimeapi.UpdateRuntimeConfigResponse, error)
}

// Sandboxes are the pods of a runtime. Stop and remove are idempotent.
type Sandboxes interface {
	RunPodSandbox(context.Context, *runtimeapi.RunPodSandboxRequest) (*runtimeapi.RunPodSandboxResponse, error)
	StopPodSandbox(context.Context, *runtimeapi.StopPodSandboxRequest) (*runtimeapi.StopPodSandboxResponse, error)
	RemovePodSandbox(context.Context, *runtimeapi.RemovePodSandboxRequest) (*runtimeapi.RemovePodSandboxResponse, error)
	PodSandboxStatus(context.Context, *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error)
	ListPodSandbox(context.Context, *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error)
}

// Containers are what runs in sandboxes. Stop and remove are idempotent.
type Containers interface {
	CreateContainer(context.Context, *runtimeapi.CreateContainerRequest) (*runtimeapi.CreateContainerResponse, error)
	StartContainer(context.Context, *runtimeapi.StartContainerRequest) (*runtimeapi.StartContainerResponse, error)
	StopContainer(context.Context, *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error)
	RemoveContainer(context.Context, *runtimeapi.RemoveContainerRequest) (*runtimeapi.RemoveContainerResponse, error)
	ContainerStatus(context.Context, *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error)
	ListContainers(context.Context, *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error)
}

// Images are what containers are made from. ImageStatus has a nil Image where
// the image is not there.
type Images interface {
	ImageStatus(context.Context, *runtimeapi.ImageStatusRequest) (*runtimeapi.ImageStatusResponse, error)
	PullImage(context.Context, *runtimeapi.PullImageRequest) (*runtimeapi.PullImageResponse, error)
}

// EventSource may be offered by a Runtime: it hands over container events until
// ctx is done or the runtime breaks off, and always returns an error. With it
// the state of the runtime is listed every 10 seconds rather than every second.
type EventSource interface {
	ContainerEvents(ctx context.Context, handle func(*runtimeapi.ContainerEventResponse)) error
}
