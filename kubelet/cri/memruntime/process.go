package memruntime

import (
	"context"
	"math"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// container is one container. The times that are set determine its state.
type container struct {
	id      string
	name    string
	sandbox *sandbox
	config  *runtimeapi.ContainerConfig
	image   *runtimeapi.Image
	// resources holds the resources in config, or in the last update.
	resources *runtimeapi.LinuxContainerResources

	behavior Behavior
	created  int64
	started  int64
	finished int64
	exitCode int32
	reason   string
	message  string
	timer    *time.Timer // ends it after Behavior.For; may be nil
	process  *process    // set when it starts, if it has a program, or when a client attaches

	// life is done when it has exited.
	life context.Context
	end  context.CancelFunc
}

func (c *container) state() runtimeapi.ContainerState {
	switch {
	case c.finished != 0:
		return runtimeapi.ContainerState_CONTAINER_EXITED
	case c.started != 0:
		return runtimeapi.ContainerState_CONTAINER_RUNNING
	}
	return runtimeapi.ContainerState_CONTAINER_CREATED
}

func (c *container) status() *runtimeapi.ContainerStatus {
	return &runtimeapi.ContainerStatus{
		Id: c.id, Metadata: c.config.GetMetadata(), State: c.state(),
		CreatedAt: c.created, StartedAt: c.started, FinishedAt: c.finished,
		ExitCode: c.exitCode, Reason: c.reason, Message: c.message,
		Image:    &runtimeapi.ImageSpec{Image: first(c.image.GetRepoTags(), c.config.GetImage().GetImage())},
		ImageRef: first(c.image.GetRepoDigests(), c.image.GetId()), ImageId: c.image.GetId(),
		Labels: c.config.GetLabels(), Annotations: c.config.GetAnnotations(),
		Mounts: c.config.GetMounts(), LogPath: c.logPath(),
		Resources: &runtimeapi.ContainerResources{Linux: c.resources},
	}
}

func first(list []string, otherwise string) string {
	if len(list) > 0 {
		return list[0]
	}
	return otherwise
}

// StartContainer starts a created container.
func (r *Runtime) StartContainer(_ context.Context, in *runtimeapi.StartContainerRequest) (*runtimeapi.StartContainerResponse, error) {
	r.mu.Lock()
	c, err := r.find(in.GetContainerId())
	r.mu.Unlock()
	if err != nil {
		return nil, err
	}
	var behavior Behavior
	if r.config.Behave != nil {
		behavior = r.config.Behave(c.config)
	}
	if err := c.appendLog(appendLines(nil, behavior.Output)); err != nil {
		behavior.StartError = err.Error()
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	if state := c.state(); state != runtimeapi.ContainerState_CONTAINER_CREATED {
		return nil, status.Errorf(codes.Unknown, "container %q is in %v state", c.id, state)
	}
	c.behavior = behavior
	if behavior.StartError != "" {
		c.finished, c.exitCode = r.now(), exitNotStarted
		c.reason, c.message = "StartError", behavior.StartError
		c.end()
		return nil, status.Errorf(codes.Unknown, "failed to start container %q: %s", c.id, behavior.StartError)
	}
	c.started = r.now()
	r.announce(c, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT)
	switch {
	case behavior.Program != nil:
		p := newProcess(c)
		c.process = p
		r.programs.Go(func() {
			code := p.run(behavior.Program)
			r.mu.Lock()
			defer r.mu.Unlock()
			r.exit(c, code)
		})
	case behavior.For > 0 || behavior.Exits:
		c.timer = time.AfterFunc(behavior.For, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.exit(c, behavior.ExitCode)
		})
	}
	return &runtimeapi.StartContainerResponse{}, nil
}

// exit ends a container if it is running. The caller holds r.mu.
func (r *Runtime) exit(c *container, code int32) {
	if c.state() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return
	}
	if c.timer != nil {
		c.timer.Stop()
	}
	c.finished, c.exitCode, c.reason = r.now(), code, "Completed"
	if code != 0 {
		c.reason = "Error"
	}
	c.end()
	r.announce(c, runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT)
}

// StopContainer terminates a container, and kills it after the timeout. An unknown or stopped
// container counts as stopped. If the caller gives up first, the container keeps running.
func (r *Runtime) StopContainer(ctx context.Context, in *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error) {
	r.mu.Lock()
	c := r.containers[in.GetContainerId()]
	running := c != nil && c.state() == runtimeapi.ContainerState_CONTAINER_RUNNING
	stubborn := running && in.GetTimeout() > 0 && c.behavior.IgnoresTerm
	if running && !stubborn {
		code := c.behavior.TermCode
		if in.GetTimeout() <= 0 {
			code = exitKilled
		}
		r.exit(c, code)
	}
	r.mu.Unlock()
	if stubborn {
		timeout := time.NewTimer(time.Duration(min(in.GetTimeout(), math.MaxInt32)) * time.Second)
		defer timeout.Stop()
		select {
		case <-c.life.Done():
		case <-timeout.C:
			r.mu.Lock()
			r.exit(c, exitKilled)
			r.mu.Unlock()
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
	return &runtimeapi.StopContainerResponse{}, nil
}
