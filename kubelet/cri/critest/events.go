package critest

import (
	"context"
	"slices"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// eventStream reads the events of the runtime.
type eventStream struct {
	events chan *runtimeapi.ContainerEventResponse
	done   chan error
}

// follow starts to read the events and returns a function that ends it.
func (e *env) follow() (*eventStream, func()) {
	// More events than a runtime in use has in a minute; those that do not fit are lost.
	s := &eventStream{events: make(chan *runtimeapi.ContainerEventResponse, 10000), done: make(chan error, 1)}
	ctx, cancel := context.WithCancel(e.ctx)
	go func() {
		s.done <- e.Runtime.ContainerEvents(ctx, func(event *runtimeapi.ContainerEventResponse) {
			select {
			case s.events <- event:
			default:
			}
		})
	}()
	return s, func() {
		cancel()
		if err := <-s.done; err == nil {
			e.Errorf("the stream of events ended without an error")
		}
	}
}

// next returns an event if there is one. It ends the check if the stream has ended.
func (s *eventStream) next(e *env) *runtimeapi.ContainerEventResponse {
	e.Helper()
	select {
	case event := <-s.events:
		return event
	case err := <-s.done:
		s.done <- err
		e.Fatalf("the stream of events has ended: %v", err)
	default:
	}
	return nil
}

// checkEvents: each step of a container's life is an event, in order.
func checkEvents(e *env) {
	stream, end := e.follow()
	defer end()
	sandbox, of := e.sandbox("a")
	// Nothing says when the stream has begun. Containers are made until one is announced.
	var attempt uint32
	e.eventually("a container is announced", func() bool {
		config := e.containerConfig("first", "run")
		config.Metadata.Attempt = attempt
		attempt++
		e.create(sandbox, of, config)
		return stream.next(e) != nil
	})
	id := e.create(sandbox, of, e.containerConfig("a", "exit", "0"))
	e.start(id)
	e.exited(id)
	e.succeeds(e.remove(id), "remove")

	want := []runtimeapi.ContainerEventType{
		runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT,
		runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT, runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT,
	}
	var got []runtimeapi.ContainerEventType
	e.eventually("a container is deleted", func() bool {
		for event := stream.next(e); event != nil; event = stream.next(e) {
			if event.GetContainerId() != id {
				continue
			}
			got = append(got, event.GetContainerEventType())
			if event.GetCreatedAt() == 0 || event.GetPodSandboxStatus().GetId() != sandbox {
				e.Errorf("an event has no time, or not the status of its sandbox: %v", event)
			}
		}
		return slices.Contains(got, runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT)
	})
	if !slices.Equal(got, want) {
		e.Errorf("the events are %v, want %v", got, want)
	}
}
