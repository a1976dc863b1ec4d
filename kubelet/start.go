package kubelet

import (
	"context"
	"errors"
	"time"

	"github.com/planekit/planekit/kubelet/internal/lifecycle"
	"github.com/planekit/planekit/kubelet/internal/podconfig"
	"github.com/planekit/planekit/kubelet/internal/turns"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// startsPerProcessor bounds the sandboxes and containers that the runtime starts at once. With
	// more for each processor, no pod is ready sooner.
	startsPerProcessor = 4
	// startPatience is the time after which a start no longer delays others.
	startPatience = 500 * time.Millisecond
)

// start creates and starts one container. It records a failure for the status and for the backoff.
func (w *worker) start(ctx context.Context, pod *corev1.Pod, sandbox string, config *runtimeapi.PodSandboxConfig, action lifecycle.StartAction) {
	name := action.Spec.Name
	w.kubelet.config.Meters.meterContainer(pod, name, "")
	err := w.tryStart(ctx, pod, sandbox, config, action)
	if err == nil {
		delete(w.memory.Starts, name)
		return
	}
	if ctx.Err() != nil {
		return
	}
	failure := lifecycle.StartFailure{At: time.Now(), Sandbox: sandbox, Reason: "CreateContainerError", Message: err.Error()}
	wait, ok := errors.AsType[*waitError](err)
	if ok {
		failure.Reason = wait.reason
	}
	w.kubelet.config.Meters.meterContainer(pod, name, failure.Reason)
	if ok && wait.image {
		w.kubelet.events.Pod(pod, action.Spec, corev1.EventTypeWarning, "Failed", "Error: "+wait.reason)
	}
	if ok && wait.pull {
		return // recorded with its own backoff
	}
	w.memory.Starts[name] = failure
	if failure.Reason != reasonPostStart && !(ok && wait.image) {
		w.kubelet.events.Pod(pod, action.Spec, corev1.EventTypeWarning, "Failed", "Error: "+failure.Message)
	}
	w.kubelet.log.V(1).Info("container not started", "uid", w.uid, "container", name, "reason", failure.Reason, "message", failure.Message)
}

func (w *worker) tryStart(ctx context.Context, pod *corev1.Pod, sandbox string, config *runtimeapi.PodSandboxConfig, action lifecycle.StartAction) error {
	k := w.kubelet
	image, err := w.ensureImages(ctx, pod, action.Spec, config)
	if err != nil {
		return err
	}
	if !action.Failed.IsZero() {
		// From here on the attempt counts, even if it fails.
		w.memory.Restarts[action.Spec.Name] = w.memory.Restarts[action.Spec.Name].NextWithin(k.config.MaxRestartBackoff, action.Failed, time.Now())
	}
	container, err := k.podConfig.Container(ctx, pod, action.Spec, action.Attempt, image, podconfig.Volumes{Paths: w.volumes, Images: w.imageVolumes}, action.Target)
	if err != nil {
		return &waitError{reason: "CreateContainerConfigError", err: err}
	}
	podconfig.SetRound(container, action.Round, action.First)
	w.confine(container)
	end, err := k.turns.Take(ctx, turns.Begun)
	if err != nil {
		return err
	}
	defer end()
	// Before the container exists: no other container of that name runs, and one that was created is
	// never mistaken for one of another size.
	k.allocations.SetContainer(pod.UID, action.Spec.Name, action.Spec.Resources)
	whole, done := k.unbroken(ctx)
	defer done()
	created, err := k.config.Runtime.CreateContainer(whole, &runtimeapi.CreateContainerRequest{
		PodSandboxId: sandbox, Config: container, SandboxConfig: config,
	})
	if err != nil {
		return &waitError{reason: "CreateContainerError", err: errors.New(answer(err, "CreateContainer").Message())}
	}
	k.events.Pod(pod, action.Spec, corev1.EventTypeNormal, "Created", "Container created")
	if _, err := k.config.Runtime.StartContainer(whole, &runtimeapi.StartContainerRequest{ContainerId: created.GetContainerId()}); err != nil {
		return &waitError{reason: "RunContainerError", err: errors.New(answer(err, "StartContainer").Message())}
	}
	end()
	k.events.Pod(pod, action.Spec, corev1.EventTypeNormal, "Started", "Container started")
	return w.postStart(ctx, pod, action.Spec, created.GetContainerId())
}

// unbrokenPatience is how long a call that changes the runtime may continue after its context has
// ended.
const unbrokenPatience = 20 * time.Second

// unbroken returns a context for a call that must not be interrupted: a runtime that is interrupted
// while it creates a sandbox leaks a network namespace. It outlives ctx by unbrokenPatience, or
// until Config.StopNow is closed.
func (k *Kubelet) unbroken(ctx context.Context) (context.Context, context.CancelFunc) {
	whole, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		patience := time.NewTimer(unbrokenPatience)
		defer patience.Stop()
		select {
		case <-patience.C:
		case <-k.config.StopNow:
		case <-whole.Done():
		}
		cancel()
	})
	return whole, func() {
		stop()
		cancel()
	}
}
