// Package relist notices what changes in a container runtime: it lists the contents at intervals, and follows
// the runtime's events where there are any.
//
//	lister := relist.New(relist.Config{Runtime: runtime, NodeName: "node-1", Wake: wake, ...})
//	go lister.Run(ctx)
//	go lister.Follow(ctx)
//
// A runtime that reports events is listed every ten seconds instead of every second, as a safeguard.
package relist

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/kubelet/internal/observe"
	"github.com/planekit/planekit/kubelet/internal/pause"
	"github.com/planekit/planekit/kubelet/internal/podconfig"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	period = time.Second
	// slowPeriod is for runtimes that report changes themselves.
	slowPeriod = 10 * time.Second
	// threshold is the time without a list of the runtime's contents after which the Node is not ready.
	threshold = 3 * time.Minute
)

// Runtime lists the contents of a runtime.
type Runtime interface {
	ListPodSandbox(context.Context, *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error)
	ListContainers(context.Context, *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error)
}

// EventSource is an optional interface of a Runtime. It passes on container events until ctx is done or the
// connection breaks, and always returns an error.
type EventSource interface {
	ContainerEvents(ctx context.Context, handle func(*runtimeapi.ContainerEventResponse)) error
}

// Config describes a Lister. All fields but Listed and Log must be set.
type Config struct {
	Runtime Runtime
	// NodeName is in the label of the sandboxes and containers that are listed.
	NodeName string
	// SyncPeriod is the interval at which WakeAll is called.
	SyncPeriod time.Duration
	// Changed is called for a pod whose sandboxes or containers differ from the list before, with their digest
	// (observe.Digest), which is empty if none is left. Wake is called for a pod after an event.
	Changed func(uid types.UID, digest string)
	Wake    func(uid types.UID)
	WakeAll func()
	// Listed is called with the time that a list took. It may be nil.
	Listed func(took time.Duration)
	Log    logr.Logger
}

// Lister lists the contents of a runtime.
type Lister struct {
	config Config
	// flow is true while container events are followed. Listing is then only a safeguard.
	flow   atomic.Bool
	listed atomic.Pointer[time.Time] // when the last successful list began
}

// New returns a lister, which lists nothing before Run.
func New(c Config) *Lister { return &Lister{config: c} }

// Run lists the contents of the runtime until ctx is done, and tells which pods have changed.
func (l *Lister) Run(ctx context.Context) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	// Empty, so that the first list wakes all pods in it.
	before := map[types.UID]string{}
	listed, synced, start := time.Time{}, time.Now(), time.Now()
	l.listed.Store(&start)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if time.Since(synced) >= l.config.SyncPeriod {
			synced = time.Now()
			l.config.WakeAll()
		}
		if l.flow.Load() && time.Since(listed) < slowPeriod {
			continue
		}
		began := time.Now()
		now, err := l.summary(ctx)
		if meter := l.config.Listed; meter != nil {
			meter(time.Since(began))
		}
		if err != nil {
			if ctx.Err() == nil {
				l.config.Log.Error(err, "relist")
			}
			continue
		}
		listed = time.Now()
		l.listed.Store(&began)
		for uid := range now {
			if before[uid] != now[uid] {
				l.config.Changed(uid, now[uid])
			}
		}
		for uid := range before {
			if _, there := now[uid]; !there {
				l.config.Changed(uid, "")
			}
		}
		before = now
	}
}

// Health returns an error if the contents of the runtime could not be listed for long. The words are
// those of Kubernetes, whose name for relisting is PLEG.
func (l *Lister) Health() error {
	last := l.listed.Load()
	if last == nil { // it has not begun
		return nil
	}
	if since := time.Since(*last); since > threshold {
		return fmt.Errorf("PLEG is not healthy: pleg was last seen active %v ago; threshold is %v", since, threshold)
	}
	return nil
}

// summary returns a text for each pod that changes with the IDs and states of its sandboxes and
// containers.
func (l *Lister) summary(ctx context.Context) (map[types.UID]string, error) {
	node := map[string]string{podconfig.LabelNode: l.config.NodeName}
	sandboxes, err := l.config.Runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{
		Filter: &runtimeapi.PodSandboxFilter{LabelSelector: node},
	})
	if err != nil {
		return nil, err
	}
	containers, err := l.config.Runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{
		Filter: &runtimeapi.ContainerFilter{LabelSelector: node},
	})
	if err != nil {
		return nil, err
	}
	return observe.Digest(sandboxes.Items, containers.Containers), nil
}

// Follow wakes pods as soon as the runtime reports an event about them, if it supports events. It returns when
// ctx is done, or if there are none.
func (l *Lister) Follow(ctx context.Context) {
	source, ok := l.config.Runtime.(EventSource)
	if !ok {
		return
	}
	for {
		started := false
		err := source.ContainerEvents(ctx, func(e *runtimeapi.ContainerEventResponse) {
			// Wait for the first event: the runtime may not support them.
			if !started {
				started = true
				l.flow.Store(true)
			}
			if e.GetContainerEventType() != runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT {
				l.config.Wake(types.UID(e.GetPodSandboxStatus().GetMetadata().GetUid()))
			}
		})
		l.flow.Store(false)
		if status.Code(err) == codes.Unimplemented || !pause.For(ctx, period) {
			return
		}
	}
}
