package memruntime

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// backlog is the number of events that a watcher may lag behind before it is cut off: a few for
// each container of a full node.
const backlog = 1024

// announce sends an event about a container to the watchers. The caller holds r.mu.
func (r *Runtime) announce(c *container, what runtimeapi.ContainerEventType) {
	if len(r.watchers) == 0 {
		return
	}
	event := &runtimeapi.ContainerEventResponse{
		ContainerId: c.id, ContainerEventType: what, CreatedAt: r.now(),
		PodSandboxStatus: c.sandbox.status(), ContainersStatuses: []*runtimeapi.ContainerStatus{c.status()},
	}
	for w := range r.watchers {
		select {
		case w <- event:
		default: // the watcher must list again
			delete(r.watchers, w)
			close(w)
		}
	}
}

// GetContainerEvents sends the events from now on. A slow watcher is cut off.
func (r *Runtime) GetContainerEvents(_ *runtimeapi.GetEventsRequest, out runtimeapi.RuntimeService_GetContainerEventsServer) error {
	events := make(chan *runtimeapi.ContainerEventResponse, backlog)
	r.mu.Lock()
	r.watchers[events] = struct{}{}
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.watchers, events)
	}()
	for {
		select {
		case event, ok := <-events:
			if !ok {
				return status.Error(codes.ResourceExhausted, "too slow to follow the events")
			}
			if err := out.Send(event); err != nil {
				return err
			}
		case <-out.Context().Done():
			return nil
		}
	}
}
