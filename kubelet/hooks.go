package kubelet

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/planekit/planekit/kubelet/hook"
	"github.com/planekit/planekit/kubelet/internal/lifecycle"
	"github.com/planekit/planekit/kubelet/probe"
)

// postStart calls the container's postStart hook, if it has one. If it fails, the container is
// stopped and the error is a *waitError.
func (w *worker) postStart(ctx context.Context, pod *corev1.Pod, spec *corev1.Container, id string) error {
	if spec.Lifecycle == nil || spec.Lifecycle.PostStart == nil {
		return nil
	}
	k := w.kubelet
	err := k.config.Hooks.Call(ctx, target(pod, spec, id), spec.Lifecycle.PostStart)
	if err == nil || ctx.Err() != nil {
		return ctx.Err() // an interrupted hook is not a failed one
	}
	k.log.Error(err, "postStart hook failed", "uid", w.uid, "container", spec.Name)
	k.events.Pod(pod, spec, corev1.EventTypeWarning, "FailedPostStartHook", "PostStartHook failed")
	stop := lifecycle.StopAction{Container: lifecycle.Container{ID: id, Name: spec.Name}, Message: "FailedPostStartHook"}
	if err := w.stopWave(ctx, pod, []lifecycle.StopAction{stop}, grace(pod)); err != nil {
		return err
	}
	return &waitError{reason: reasonPostStart, err: errors.New(hookFailure(pod, spec, spec.Lifecycle.PostStart, err))}
}

// hookFailure describes the failure of a hook as Kubernetes does.
func hookFailure(pod *corev1.Pod, c *corev1.Container, h *corev1.LifecycleHandler, err error) string {
	what := ""
	switch {
	case h.Exec != nil:
		what = fmt.Sprintf("Exec lifecycle hook (%v)", h.Exec.Command)
	case h.HTTPGet != nil:
		what = fmt.Sprintf("HTTP lifecycle hook (%s)", h.HTTPGet.Path)
	case h.Sleep != nil:
		what = fmt.Sprintf("Sleep lifecycle hook (%d)", h.Sleep.Seconds)
	}
	said := fmt.Sprintf("%s for Container %q in Pod %q failed - error: %v", what, c.Name, lifecycle.PodName(pod), err)
	if h.Exec == nil {
		return said
	}
	output := ""
	if exit, ok := errors.AsType[*hook.ExitError](err); ok {
		output = exit.Output
	}
	return fmt.Sprintf("%s, message: %q", said, output)
}

// reasonPostStart is why a container waits whose postStart hook has failed.
const reasonPostStart = "PostStartHookError"

// preStop calls the container's preStop hook, if it has one, for at most timeout seconds. It
// returns what is left of them, at least minGrace. A hook that was interrupted, because the pod must
// end sooner, is not called again.
func (w *worker) preStop(ctx context.Context, pod *corev1.Pod, id string, spec *corev1.Container, timeout int64) int64 {
	if spec == nil || spec.Lifecycle == nil || spec.Lifecycle.PreStop == nil || timeout <= 0 || !w.firstPreStop(id) {
		return timeout
	}
	k := w.kubelet
	limited, cancel := context.WithTimeout(ctx, time.Duration(timeout)*time.Second)
	defer cancel()
	begin := time.Now()
	err := k.config.Hooks.Call(limited, target(pod, spec, id), spec.Lifecycle.PreStop)
	switch {
	case err == nil || ctx.Err() != nil:
	case limited.Err() != nil:
		k.log.Info("preStop hook did not end within the grace period", "uid", w.uid, "container", spec.Name, "seconds", timeout)
	default:
		k.log.Error(err, "preStop hook failed", "uid", w.uid, "container", spec.Name)
		k.events.Pod(pod, spec, corev1.EventTypeWarning, "FailedPreStopHook", "PreStopHook failed")
	}
	return max(timeout-int64(time.Since(begin).Seconds()), minGrace)
}

// firstPreStop reports whether the container's preStop hook was not called before.
func (w *worker) firstPreStop(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped[id] {
		return false
	}
	if w.stopped == nil {
		w.stopped = map[string]bool{}
	}
	w.stopped[id] = true
	return true
}

func target(pod *corev1.Pod, spec *corev1.Container, id string) probe.Target {
	return probe.Target{Pod: pod, Container: spec, ID: id, PodIP: pod.Status.PodIP}
}
