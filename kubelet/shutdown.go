package kubelet

import (
	"context"
	"time"

	"github.com/planekit/planekit/kubelet/internal/lifecycle"
	"github.com/planekit/planekit/kubelet/shutdown"
	corev1 "k8s.io/api/core/v1"
)

// Shutdown ends the pods because the machine shuts down, and returns when they have ended or their
// time is over. From then on the node is reported as not ready and refuses new pods. Pods end in the
// order of their priority, see Config.Shutdown; if that is zero, the pods go on and Shutdown returns
// at once. Run must be running. The pods that were asked to end do so also after ctx is done.
func (k *Kubelet) Shutdown(ctx context.Context) error {
	periods, err := k.config.Shutdown.Periods()
	if err != nil {
		return err
	}
	k.events.Node(corev1.EventTypeNormal, eventShutdown, "Shutdown manager detected shutdown event")
	k.shuttingDown.Store(true)
	k.reportNow()
	for _, group := range shutdown.Plan(periods, k.gate.Pods()) {
		var workers []*worker
		for _, pod := range group.Pods {
			if w := k.find(pod.UID); w != nil {
				w.reject(shutdownRejection(&pod.Grace))
				workers = append(workers, w)
			}
		}
		if err := k.awaitEnd(ctx, workers, group.Wait); err != nil {
			return err
		}
	}
	return nil
}

// eventShutdown is the reason of the events about a machine that shuts down.
const eventShutdown = "NodeShutdown"

// CancelShutdown records that the machine does not shut down after all: the node is reported as ready and takes
// pods again. The pods that were asked to end do so. It must not be called while Shutdown runs.
func (k *Kubelet) CancelShutdown() {
	k.events.Node(corev1.EventTypeNormal, eventShutdown, "Shutdown manager detected shutdown cancellation")
	k.shuttingDown.Store(false)
	k.reportNow()
}

// shutdownRejection ends a pod with a grace period in seconds; nil keeps the pod's own.
func shutdownRejection(grace *int64) lifecycle.Rejection {
	return lifecycle.Rejection{Reason: shutdown.Reason, Message: shutdown.Message, Grace: grace, Disruption: true}
}

// awaitEnd waits until the pods of workers have ended and that is reported, but no longer than limit.
func (k *Kubelet) awaitEnd(ctx context.Context, workers []*worker, limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for _, w := range workers {
		for _, next := range []func() <-chan struct{}{
			func() <-chan struct{} { return w.ended }, w.reporter.Written,
		} {
			select {
			case <-next():
			case <-timer.C:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}

// find returns the worker of a pod; nil if it has none.
func (k *Kubelet) find(uid podUID) *worker {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.workers[uid]
}
