package kubelet

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/planekit/planekit/kubelet/internal/observe"
	"github.com/planekit/planekit/kubelet/internal/podconfig"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	relistPeriod = time.Second
	// slowRelistPeriod is for runtimes that report changes themselves.
	slowRelistPeriod = 10 * time.Second
	// relistThreshold is the time without a list of the runtime's contents after which the Node is not ready.
	relistThreshold = 3 * time.Minute
)

// eventsFlow is true while container events are followed. Listing is then only a safeguard.
type eventsFlow struct{ atomic.Bool }

// relist lists the contents of the runtime and wakes the pods whose sandboxes or containers have
// changed.
func (k *Kubelet) relist(ctx context.Context) {
	tick := time.NewTicker(relistPeriod)
	defer tick.Stop()
	// Empty, so that the first list wakes all pods in it.
	before := map[podUID]string{}
	listed, synced, start := time.Time{}, time.Now(), time.Now()
	k.relisted.Store(&start)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if time.Since(synced) >= k.config.SyncPeriod {
			synced = time.Now()
			k.wakeAll()
		}
		if k.flow.Load() && time.Since(listed) < slowRelistPeriod {
			continue
		}
		began := time.Now()
		now, err := k.summary(ctx)
		if meter := k.config.Meters.Relisted; meter != nil {
			meter(time.Since(began))
		}
		if err != nil {
			if ctx.Err() == nil {
				k.log.Error(err, "relist")
			}
			continue
		}
		listed = time.Now()
		k.relisted.Store(&began)
		for uid := range now {
			if before[uid] != now[uid] {
				k.wakeUnlessSeen(uid, now[uid])
			}
		}
		for uid := range before {
			if _, there := now[uid]; !there {
				k.wakeUnlessSeen(uid, "")
			}
		}
		before = now
	}
}

// wakeUnlessSeen requests a sync of a pod unless its worker has seen the same itself: of what the worker
// does, nobody has to tell it.
func (k *Kubelet) wakeUnlessSeen(uid podUID, digest string) {
	if w := k.find(uid); w != nil && (digest == "" || w.observer.Seen() != digest) {
		w.poke()
	}
}

// relistHealth returns an error if the contents of the runtime could not be listed for long. The words are
// those of Kubernetes, whose name for relisting is PLEG.
func (k *Kubelet) relistHealth() error {
	last := k.relisted.Load()
	if last == nil { // it has not begun
		return nil
	}
	if since := time.Since(*last); since > relistThreshold {
		return fmt.Errorf("PLEG is not healthy: pleg was last seen active %v ago; threshold is %v", since, relistThreshold)
	}
	return nil
}

// summary returns a text for each pod that changes with the IDs and states of its sandboxes and
// containers.
func (k *Kubelet) summary(ctx context.Context) (map[podUID]string, error) {
	node := map[string]string{podconfig.LabelNode: k.config.NodeName}
	sandboxes, err := k.config.Runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{
		Filter: &runtimeapi.PodSandboxFilter{LabelSelector: node},
	})
	if err != nil {
		return nil, err
	}
	containers, err := k.config.Runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{
		Filter: &runtimeapi.ContainerFilter{LabelSelector: node},
	})
	if err != nil {
		return nil, err
	}
	return observe.Digest(sandboxes.Items, containers.Containers), nil
}

// followEvents wakes pods as soon as the runtime reports an event about them, if it supports
// events.
func (k *Kubelet) followEvents(ctx context.Context) {
	source, ok := k.config.Runtime.(EventSource)
	if !ok {
		return
	}
	for {
		started := false
		err := source.ContainerEvents(ctx, func(e *runtimeapi.ContainerEventResponse) {
			// Wait for the first event: the runtime may not support them.
			if !started {
				started = true
				k.flow.Store(true)
			}
			if e.GetContainerEventType() != runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT {
				k.wake(podUID(e.GetPodSandboxStatus().GetMetadata().GetUid()))
			}
		})
		k.flow.Store(false)
		if status.Code(err) == codes.Unimplemented || !sleep(ctx, relistPeriod) {
			return
		}
	}
}
