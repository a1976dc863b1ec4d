package cri

import (
	"context"
	"math"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// call makes one call with a timeout; zero means only the caller's. The error keeps its gRPC code
// and names the call.
func call[Request, Response any](
	ctx context.Context, limit time.Duration, name string,
	do func(context.Context, Request, ...grpc.CallOption) (Response, error), in Request,
) (Response, error) {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	out, err := do(ctx, in)
	if err != nil {
		var none Response
		return none, named(name, err)
	}
	return out, nil
}

// maxErrorMessage bounds the message of an error, in bytes: it gets into events and statuses.
const maxErrorMessage = 32 << 10

// named returns an error of the runtime with the name of the call. Its message is valid UTF-8.
func named(name string, err error) error {
	s := status.Convert(err)
	message := s.Message()
	message = strings.ToValidUTF8(message[:min(len(message), maxErrorMessage)], "")
	return status.Error(s.Code(), name+": "+message)
}

// seconds returns a timeout of CRI, at most 68 years: a time.Duration does not hold all of them.
func seconds(n int64) time.Duration {
	return time.Duration(min(max(n, 0), math.MaxInt32)) * time.Second
}

// Version returns the name and version of the runtime.
func (c *Client) Version(ctx context.Context, in *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return call(ctx, c.options.Timeout, "Version", c.runtime.Version, in)
}

// Status returns whether the runtime and its network are ready.
func (c *Client) Status(ctx context.Context, in *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	return call(ctx, c.options.Timeout, "Status", c.runtime.Status, in)
}

// UpdateRuntimeConfig sets the runtime's pod address range.
func (c *Client) UpdateRuntimeConfig(ctx context.Context, in *runtimeapi.UpdateRuntimeConfigRequest) (*runtimeapi.UpdateRuntimeConfigResponse, error) {
	return call(ctx, c.options.Timeout, "UpdateRuntimeConfig", c.runtime.UpdateRuntimeConfig, in)
}

// RunPodSandbox creates and starts a sandbox, network included.
func (c *Client) RunPodSandbox(ctx context.Context, in *runtimeapi.RunPodSandboxRequest) (*runtimeapi.RunPodSandboxResponse, error) {
	return call(ctx, c.options.SandboxTimeout, "RunPodSandbox", c.runtime.RunPodSandbox, in)
}

// StopPodSandbox stops the containers of a sandbox and removes its network.
func (c *Client) StopPodSandbox(ctx context.Context, in *runtimeapi.StopPodSandboxRequest) (*runtimeapi.StopPodSandboxResponse, error) {
	return call(ctx, c.options.Timeout, "StopPodSandbox", c.runtime.StopPodSandbox, in)
}

// RemovePodSandbox removes a sandbox and its containers.
func (c *Client) RemovePodSandbox(ctx context.Context, in *runtimeapi.RemovePodSandboxRequest) (*runtimeapi.RemovePodSandboxResponse, error) {
	return call(ctx, c.options.Timeout, "RemovePodSandbox", c.runtime.RemovePodSandbox, in)
}

// PodSandboxStatus returns the status of a sandbox, including its addresses.
func (c *Client) PodSandboxStatus(ctx context.Context, in *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	return call(ctx, c.options.Timeout, "PodSandboxStatus", c.runtime.PodSandboxStatus, in)
}

// ListPodSandbox lists sandboxes by filter.
func (c *Client) ListPodSandbox(ctx context.Context, in *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	return call(ctx, c.options.Timeout, "ListPodSandbox", c.runtime.ListPodSandbox, in)
}

// CreateContainer creates a container in a sandbox.
func (c *Client) CreateContainer(ctx context.Context, in *runtimeapi.CreateContainerRequest) (*runtimeapi.CreateContainerResponse, error) {
	return call(ctx, c.options.Timeout, "CreateContainer", c.runtime.CreateContainer, in)
}

// StartContainer starts a created container.
func (c *Client) StartContainer(ctx context.Context, in *runtimeapi.StartContainerRequest) (*runtimeapi.StartContainerResponse, error) {
	return call(ctx, c.options.Timeout, "StartContainer", c.runtime.StartContainer, in)
}

// StopContainer stops a container: TERM, then KILL after in.Timeout seconds, which are added to the
// call's timeout.
func (c *Client) StopContainer(ctx context.Context, in *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error) {
	grace := seconds(in.GetTimeout())
	return call(ctx, c.options.Timeout+grace, "StopContainer", c.runtime.StopContainer, in)
}

// RemoveContainer removes a container, even if it is running.
func (c *Client) RemoveContainer(ctx context.Context, in *runtimeapi.RemoveContainerRequest) (*runtimeapi.RemoveContainerResponse, error) {
	return call(ctx, c.options.Timeout, "RemoveContainer", c.runtime.RemoveContainer, in)
}

// ListContainers lists containers by filter.
func (c *Client) ListContainers(ctx context.Context, in *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	return call(ctx, c.options.Timeout, "ListContainers", c.runtime.ListContainers, in)
}

// UpdateContainerResources changes the resources of a container. Fields that are zero keep their values.
func (c *Client) UpdateContainerResources(ctx context.Context, in *runtimeapi.UpdateContainerResourcesRequest) (*runtimeapi.UpdateContainerResourcesResponse, error) {
	return call(ctx, c.options.Timeout, "UpdateContainerResources", c.runtime.UpdateContainerResources, in)
}

// ReopenContainerLog makes the runtime write to a new file with the name of the container's log.
func (c *Client) ReopenContainerLog(ctx context.Context, in *runtimeapi.ReopenContainerLogRequest) (*runtimeapi.ReopenContainerLogResponse, error) {
	return call(ctx, c.options.Timeout, "ReopenContainerLog", c.runtime.ReopenContainerLog, in)
}

// ContainerStatus returns the status of a container, including its exit.
func (c *Client) ContainerStatus(ctx context.Context, in *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	return call(ctx, c.options.Timeout, "ContainerStatus", c.runtime.ContainerStatus, in)
}

// ListContainerStats returns the resource usage of running containers.
func (c *Client) ListContainerStats(ctx context.Context, in *runtimeapi.ListContainerStatsRequest) (*runtimeapi.ListContainerStatsResponse, error) {
	return call(ctx, c.options.Timeout, "ListContainerStats", c.runtime.ListContainerStats, in)
}

// ExecSync runs a command in a container. The runtime waits in.Timeout seconds, which are added to
// the call's timeout; zero means that only ctx limits the call.
func (c *Client) ExecSync(ctx context.Context, in *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
	patience := seconds(in.GetTimeout())
	limit := c.options.Timeout + patience
	if patience == 0 {
		limit = 0
	}
	return call(ctx, limit, "ExecSync", c.runtime.ExecSync, in)
}

// Exec prepares a command in a container and returns the URL of its streams.
func (c *Client) Exec(ctx context.Context, in *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	return call(ctx, c.options.Timeout, "Exec", c.runtime.Exec, in)
}

// Attach prepares a connection to a container's own streams and returns their URL.
func (c *Client) Attach(ctx context.Context, in *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	return call(ctx, c.options.Timeout, "Attach", c.runtime.Attach, in)
}

// PortForward prepares connections into a sandbox and returns their URL.
func (c *Client) PortForward(ctx context.Context, in *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error) {
	return call(ctx, c.options.Timeout, "PortForward", c.runtime.PortForward, in)
}

// ListImages lists the runtime's images.
func (c *Client) ListImages(ctx context.Context, in *runtimeapi.ListImagesRequest) (*runtimeapi.ListImagesResponse, error) {
	return call(ctx, c.options.Timeout, "ListImages", c.image.ListImages, in)
}

// ImageStatus returns the status of an image. Its Image is nil if the runtime does not have it.
func (c *Client) ImageStatus(ctx context.Context, in *runtimeapi.ImageStatusRequest) (*runtimeapi.ImageStatusResponse, error) {
	return call(ctx, c.options.Timeout, "ImageStatus", c.image.ImageStatus, in)
}

// PullImage pulls an image. Only ctx limits its time.
func (c *Client) PullImage(ctx context.Context, in *runtimeapi.PullImageRequest) (*runtimeapi.PullImageResponse, error) {
	return call(ctx, 0, "PullImage", c.image.PullImage, in)
}

// RemoveImage removes an image.
func (c *Client) RemoveImage(ctx context.Context, in *runtimeapi.RemoveImageRequest) (*runtimeapi.RemoveImageResponse, error) {
	return call(ctx, c.options.Timeout, "RemoveImage", c.image.RemoveImage, in)
}

// ImageFsInfo returns the usage of the file system with the images.
func (c *Client) ImageFsInfo(ctx context.Context, in *runtimeapi.ImageFsInfoRequest) (*runtimeapi.ImageFsInfoResponse, error) {
	return call(ctx, c.options.Timeout, "ImageFsInfo", c.image.ImageFsInfo, in)
}

// ContainerEvents passes every container event to handle until ctx is done or the connection
// breaks, and always returns an error. Runtimes without events return codes.Unimplemented.
func (c *Client) ContainerEvents(ctx context.Context, handle func(*runtimeapi.ContainerEventResponse)) error {
	stream, err := c.runtime.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	if err != nil {
		return named("GetContainerEvents", err)
	}
	for {
		event, err := stream.Recv()
		if err != nil {
			return named("GetContainerEvents", err)
		}
		handle(event)
	}
}
