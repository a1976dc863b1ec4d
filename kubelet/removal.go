package kubelet

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// removal is the back-off of removing what the runtime has of a pod. The zero
// value has none.
type removal struct {
	delay time.Duration
	// until is when the next try is due, however often the pod is looked at before.
	until time.Time
	told  bool // an event has said that it fails
}

// refused chooses the pause until the next try. What the runtime refuses it is
// likely to refuse again: the pause doubles, and one event tells. A runtime that
// does not answer is expected back soon.
func (w *worker) refused(ctx context.Context, pod *corev1.Pod, gone bool, err error) {
	w.failed(ctx, err)
	r := &w.removal
	if ctx.Err() != nil || status.Code(err) == codes.Unavailable {
		r.delay = retrySync
	} else {
		r.delay = min(max(2*r.delay, retrySync), backoffMost)
		if !gone && !r.told {
			r.told = true
			w.kubelet.events.pod(pod, nil, corev1.EventTypeWarning, "FailedKillPod", "error killing pod: "+err.Error())
		}
	}
	r.until = time.Now().Add(r.delay)
}

// held reports whether the next try is not due yet.
func (r *removal) held() bool { return time.Now().Before(r.until) }

// holdRemovals takes out of a decision what is not due to be tried again: the
// stop of sandboxes that are ready, and the removal of what is dead.
func (w *worker) holdRemovals(d *decision) {
	if !w.removal.held() || len(d.stopSandboxes)+len(d.remove)+len(d.removeSandboxes) == 0 {
		return
	}
	d.stopSandboxes, d.remove, d.removeSandboxes = nil, nil, nil
	d.lookAgain(w.removal.until)
}

// removeDead removes the containers and sandboxes that a decision names.
func (w *worker) removeDead(ctx context.Context, d *decision) error {
	for _, id := range d.remove {
		if _, err := w.kubelet.config.Runtime.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: id}); err != nil {
			return fmt.Errorf("remove container %s: %w", id, err)
		}
	}
	for _, id := range d.removeSandboxes {
		if _, err := w.kubelet.config.Runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id}); err != nil {
			return fmt.Errorf("remove sandbox %s: %w", id, err)
		}
	}
	return nil
}

// removalError says that the runtime refused to stop a sandbox.
type removalError struct{ error }

func (e *removalError) Unwrap() error { return e.error }
