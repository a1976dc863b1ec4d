package kubelet

import (
	"context"
	"fmt"
	"time"

	"github.com/planekit/planekit/kubelet/internal/lifecycle"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// removal is the backoff of removing a pod's sandboxes and containers. The zero value has no delay.
type removal struct {
	delay time.Duration
	// until is when to retry, even if the pod is synced before.
	until time.Time
	told  bool // the failure was reported in an event
}

// refused sets the delay until the next attempt. If the runtime has refused, it will probably
// refuse again: the delay doubles, and one event reports it. A runtime that does not answer is
// expected back soon.
func (w *worker) refused(ctx context.Context, pod *corev1.Pod, gone bool, err error) {
	w.failed(ctx, err)
	r := &w.removal
	if ctx.Err() != nil || status.Code(err) == codes.Unavailable {
		r.delay = retrySync
	} else {
		r.delay = min(max(2*r.delay, retrySync), lifecycle.BackoffMost)
		if !gone && !r.told {
			r.told = true
			w.kubelet.events.Pod(pod, nil, corev1.EventTypeWarning, "FailedKillPod", "error killing pod: "+err.Error())
		}
	}
	r.until = time.Now().Add(r.delay)
}

// held reports whether it is too early to retry.
func (r *removal) held() bool { return time.Now().Before(r.until) }

// holdRemovals removes actions from a decision that must not be retried yet: stopping ready
// sandboxes, and removing dead ones and containers.
func (w *worker) holdRemovals(d *lifecycle.Decision) {
	if !w.removal.held() || len(d.StopSandboxes)+len(d.Remove)+len(d.RemoveSandboxes) == 0 {
		return
	}
	d.StopSandboxes, d.Remove, d.RemoveSandboxes = nil, nil, nil
	d.LookAgain(w.removal.until)
}

// removeDead removes the containers, with their logs, and the sandboxes in a decision.
func (w *worker) removeDead(ctx context.Context, pod *corev1.Pod, state *lifecycle.State, d *lifecycle.Decision) error {
	for _, id := range d.Remove {
		if _, err := w.kubelet.config.Runtime.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: id}); err != nil {
			return fmt.Errorf("remove container %s: %w", id, err)
		}
		if err := w.removeLogs(pod, state, id); err != nil {
			return err
		}
	}
	for _, id := range d.RemoveSandboxes {
		if _, err := w.kubelet.config.Runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id}); err != nil {
			return fmt.Errorf("remove sandbox %s: %w", id, err)
		}
	}
	return nil
}

// release gives back what a pod holds whose containers and sandboxes have stopped for good: its
// volumes, with what is in them, and its cgroup.
func (w *worker) release(ctx context.Context) error {
	if isClosed(w.released) {
		return nil
	}
	if err := w.kubelet.removeVolumes(ctx, w.uid); err != nil {
		return fmt.Errorf("remove volumes: %w", err)
	}
	w.volumes = nil
	w.setMounted(nil)
	if err := w.endCgroup(); err != nil {
		return err
	}
	w.setReleased()
	return nil
}

// removalError means that the runtime refused to stop a sandbox, or that something of a pod that has
// ended is still in use.
type removalError struct{ error }

func (e *removalError) Unwrap() error { return e.error }
