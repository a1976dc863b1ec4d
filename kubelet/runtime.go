package kubelet

import (
	"context"
	"strings"

	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Runtime is the container runtime that a kubelet requires: CRI v1, with gRPC codes in errors. All
// methods must be safe for concurrent use and limit their time. Package cri has an implementation.
type Runtime interface {
	Machine
	Sandboxes
	Containers
}

// Machine holds the methods of the runtime as a whole.
type Machine interface {
	Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error)
	Status(context.Context, *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error)
	UpdateRuntimeConfig(context.Context, *runtimeapi.UpdateRuntimeConfigRequest) (*runtimeapi.UpdateRuntimeConfigResponse, error)
}

// Sandboxes manages the sandboxes of pods. Stop and remove are idempotent.
type Sandboxes interface {
	RunPodSandbox(context.Context, *runtimeapi.RunPodSandboxRequest) (*runtimeapi.RunPodSandboxResponse, error)
	StopPodSandbox(context.Context, *runtimeapi.StopPodSandboxRequest) (*runtimeapi.StopPodSandboxResponse, error)
	RemovePodSandbox(context.Context, *runtimeapi.RemovePodSandboxRequest) (*runtimeapi.RemovePodSandboxResponse, error)
	PodSandboxStatus(context.Context, *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error)
	ListPodSandbox(context.Context, *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error)
}

// Containers manages the containers in sandboxes. Stop and remove are idempotent.
type Containers interface {
	CreateContainer(context.Context, *runtimeapi.CreateContainerRequest) (*runtimeapi.CreateContainerResponse, error)
	StartContainer(context.Context, *runtimeapi.StartContainerRequest) (*runtimeapi.StartContainerResponse, error)
	StopContainer(context.Context, *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error)
	RemoveContainer(context.Context, *runtimeapi.RemoveContainerRequest) (*runtimeapi.RemoveContainerResponse, error)
	ContainerStatus(context.Context, *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error)
	ListContainers(context.Context, *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error)
	UpdateContainerResources(context.Context, *runtimeapi.UpdateContainerResourcesRequest) (*runtimeapi.UpdateContainerResourcesResponse, error)
}

// Images manages container images. ImageStatus returns a nil Image for a missing image.
type Images interface {
	ImageStatus(context.Context, *runtimeapi.ImageStatusRequest) (*runtimeapi.ImageStatusResponse, error)
	PullImage(context.Context, *runtimeapi.PullImageRequest) (*runtimeapi.PullImageResponse, error)
}

// ImageRemover is an optional interface of Images. Without it, or if the Runtime is no StatsSource,
// unused images stay.
type ImageRemover interface {
	ListImages(context.Context, *runtimeapi.ListImagesRequest) (*runtimeapi.ListImagesResponse, error)
	RemoveImage(context.Context, *runtimeapi.RemoveImageRequest) (*runtimeapi.RemoveImageResponse, error)
}

// Executor is an optional interface of a Runtime. Without it, exec probes are errors.
type Executor interface {
	ExecSync(context.Context, *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error)
}

// LogReopener is an optional interface of a Runtime. Without it, logs are not rotated.
type LogReopener interface {
	ReopenContainerLog(context.Context, *runtimeapi.ReopenContainerLogRequest) (*runtimeapi.ReopenContainerLogResponse, error)
}

// StatsSource is an optional interface of a Runtime. Without it, no pod is evicted.
type StatsSource interface {
	ListContainerStats(context.Context, *runtimeapi.ListContainerStatsRequest) (*runtimeapi.ListContainerStatsResponse, error)
	ImageFsInfo(context.Context, *runtimeapi.ImageFsInfoRequest) (*runtimeapi.ImageFsInfoResponse, error)
}

// EventSource is an optional interface of a Runtime. It passes on container events until ctx is
// done or the connection breaks, and always returns an error. With it, the runtime's state is
// listed every 10 seconds instead of every second.
type EventSource interface {
	ContainerEvents(ctx context.Context, handle func(*runtimeapi.ContainerEventResponse)) error
}

// answer returns the runtime's error about a call as it came. A client puts the name of the call
// before the message (package cri does), which Kubernetes does not show to users.
func answer(err error, call string) *status.Status {
	s := status.Convert(err)
	return status.New(s.Code(), strings.TrimPrefix(s.Message(), call+": "))
}
