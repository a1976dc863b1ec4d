package kubelet

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/planekit/planekit/kubelet/internal/lifecycle"
	"github.com/planekit/planekit/kubelet/internal/turns"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// minGrace is the minimum grace of a container, in seconds.
	minGrace = 2
	// defaultGrace is for pods that say nothing, in seconds.
	defaultGrace = 30
	// maxGrace is the longest grace, in seconds: 68 years. The API has no limit, and more seconds than a
	// time.Duration holds would be none.
	maxGrace = math.MaxInt32
)

// graceOf returns a number of seconds as one that a container can be given.
func graceOf(seconds int64) int64 { return min(max(seconds, minGrace), maxGrace) }

// grace returns the grace period of a pod's containers, in seconds.
func grace(pod *corev1.Pod) int64 {
	switch {
	case pod.DeletionGracePeriodSeconds != nil:
		return graceOf(*pod.DeletionGracePeriodSeconds)
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		return graceOf(*pod.Spec.TerminationGracePeriodSeconds)
	}
	return defaultGrace
}

// terminate stops the pod for good and removes its mounts, directories and cgroups, and then, unless it is
// gone already, the Pod in the API. Its dead containers and sandboxes come last, as in Kubernetes. It may be
// called again after a failure. It reports whether nothing is left.
func (w *worker) terminate(ctx context.Context, pod *corev1.Pod, gone bool) bool {
	err := w.stop(ctx, pod, gone)
	var state *lifecycle.State
	if err == nil {
		state, err = w.clean(ctx, pod)
	}
	if err == nil && !gone {
		w.reporter.Finish(pod)
	}
	if err == nil {
		err = w.removeAll(ctx, state)
	}
	if err != nil {
		w.refused(ctx, pod, gone, fmt.Errorf("terminate: %w", err))
		return false
	}
	return true
}

// stop stops all running containers in order, and reports how they ended.
func (w *worker) stop(ctx context.Context, pod *corev1.Pod, gone bool) error {
	for range maxRounds {
		state, err := w.observer.Look(ctx)
		if err != nil {
			return err
		}
		waves := lifecycle.StopOrder(pod, state)
		lifecycle.Recall(pod, state)
		if gone {
			w.probes.Update(pod, "", nil)
		} else {
			w.probe(pod, state)
		}
		d := lifecycle.Decision{Initialized: lifecycle.InitializedBefore(pod, state), Finished: len(waves) == 0}
		if d.Finished {
			w.kubelet.leave(w.uid)
		}
		if !gone {
			w.report(pod, state, d)
		}
		if len(waves) == 0 {
			return w.stopSandboxes(ctx, state)
		}
		if err := w.stopWave(ctx, pod, waves[0], grace(pod)); err != nil {
			return err
		}
	}
	return errors.New("containers do not stop")
}

func (w *worker) stopSandboxes(ctx context.Context, state *lifecycle.State) error {
	var errs []error
	for _, s := range state.Sandboxes {
		end, err := w.kubelet.turns.Take(ctx, turns.Begun)
		if err != nil {
			return err
		}
		_, err = w.kubelet.config.Runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: s.ID})
		end()
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// clean removes what a stopped pod leaves behind outside of the runtime, and returns what it leaves there.
func (w *worker) clean(ctx context.Context, pod *corev1.Pod) (*lifecycle.State, error) {
	k := w.kubelet
	state, err := w.observer.Look(ctx)
	if err != nil {
		return nil, err
	}
	if state.Running() > 0 {
		return nil, errors.New("a container was started meanwhile")
	}
	k.cpus.Release(w.uid)
	if err := k.removePodDirectory(ctx, pod.UID); err != nil {
		return nil, err
	}
	if err := k.groups.Remove(pod.UID); err != nil {
		return nil, err
	}
	if checkNames(pod) == nil {
		return state, os.RemoveAll(k.podConfig.LogDirectory(pod))
	}
	return state, nil
}

// removeAll removes the dead containers and sandboxes of a pod. Pods that start or stop go first.
func (w *worker) removeAll(ctx context.Context, state *lifecycle.State) error {
	k := w.kubelet
	end, err := k.turns.Take(ctx, turns.Idle)
	if err != nil {
		return err
	}
	defer end()
	// StopPods, after this kubelet has ended, must not meet a removal in progress.
	whole, done := k.unbroken(ctx)
	defer done()
	for _, c := range state.Containers {
		if _, err := k.config.Runtime.RemoveContainer(whole, &runtimeapi.RemoveContainerRequest{ContainerId: c.ID}); err != nil {
			return err
		}
	}
	for _, s := range state.Sandboxes {
		if _, err := k.config.Runtime.RemovePodSandbox(whole, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: s.ID}); err != nil {
			return err
		}
	}
	return nil
}

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

// removeDead removes the containers, with their logs and messages, and the sandboxes in a decision.
func (w *worker) removeDead(ctx context.Context, pod *corev1.Pod, state *lifecycle.State, d *lifecycle.Decision) error {
	for _, id := range d.Remove {
		if _, err := w.kubelet.config.Runtime.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: id}); err != nil {
			return fmt.Errorf("remove container %s: %w", id, err)
		}
		if err := w.removeFiles(pod, state, id); err != nil {
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
