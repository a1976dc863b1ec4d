package kubelet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/planekit/planekit/kubelet/internal/lifecycle"
	"github.com/planekit/planekit/kubelet/internal/mirror"
	"github.com/planekit/planekit/kubelet/internal/podconfig"
	"github.com/planekit/planekit/kubelet/internal/turns"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// maxRounds bounds the rounds of one sync; each init container and each cleanup takes a round.
	maxRounds = 32
	// refreshVolumes is the maximum age of config maps, secrets and tokens in volumes.
	refreshVolumes = time.Minute
)

// sync moves the pod toward its desired state until nothing is left to do. It returns when to sync
// again; zero means only after an event.
func (w *worker) sync(ctx context.Context, pod *corev1.Pod) time.Time {
	var again time.Time
	pod = w.kubelet.allocations.Sync(pod)
	for range maxRounds {
		state, err := w.observer.Look(ctx)
		if err != nil {
			w.failed(ctx, err)
			return time.Now().Add(retrySync)
		}
		pod = w.withEnd(pod)
		if until := w.admit(ctx, pod, state); !until.IsZero() {
			return until
		}
		w.assignCPUs(pod, state)
		w.memory.Rejection = w.rejected()
		lifecycle.Recall(pod, state)
		w.probe(pod, state)
		state.Actuated, state.Cgroup = w.kubelet.allocations.Actuated(w.uid)
		d := lifecycle.Plan(pod, state, w.memory, time.Now())
		w.kubelet.allocations.Progress(pod, d.Resizing)
		w.holdRemovals(&d)
		w.holdResize(pod, &d)
		if d.Overdue && !w.overdue {
			w.overdue = true
			w.kubelet.events.Pod(pod, nil, corev1.EventTypeNormal, lifecycle.DeadlineExceeded, lifecycle.DeadlineMessage)
		}
		finished := d.Finished && state.Running() == 0
		if finished {
			w.kubelet.leave(w.uid)
			w.kubelet.cpus.Release(w.uid)
		}
		w.report(pod, state, d)
		if finished {
			w.setEnded()
		}
		again = d.Again
		acted, err := w.act(ctx, pod, state, &d)
		if err != nil {
			return w.retryAfter(ctx, pod, err)
		}
		if !acted {
			if finished {
				if err := w.release(ctx); err != nil {
					return w.retryAfter(ctx, pod, &removalError{err})
				}
			}
			break
		}
	}
	// This includes the volumes of a pod that an earlier kubelet has started.
	if pod.Status.Phase == corev1.PodRunning && len(pod.Spec.Volumes) > 0 && time.Since(w.volumesAt) > refreshVolumes {
		if err := w.mountVolumes(ctx, pod); err != nil {
			w.retryAfter(ctx, pod, err)
		}
	}
	return again
}

// retryAfter logs err and returns when to retry. It logs nothing while volumes are held back,
// because the failed attempt was logged.
func (w *worker) retryAfter(ctx context.Context, pod *corev1.Pod, err error) time.Time {
	if held, ok := errors.AsType[*mountHeldError](err); ok {
		return held.until
	}
	if _, ok := errors.AsType[*removalError](err); ok {
		w.refused(ctx, pod, false, err)
		return w.removal.until
	}
	w.failed(ctx, err)
	if _, ok := errors.AsType[*setUpError](err); ok {
		return w.mounting.until
	}
	return time.Now().Add(retrySync)
}

// failed logs an error unless the work was interrupted.
func (w *worker) failed(ctx context.Context, err error) {
	if ctx.Err() == nil {
		w.kubelet.log.Error(err, "sync pod", "uid", w.uid)
	}
}

// report passes the status to the reporter; it does not block.
func (w *worker) report(pod *corev1.Pod, state *lifecycle.State, d lifecycle.Decision) {
	o := lifecycle.Observation{
		Pod: pod, State: state, Decision: d,
		HostIPs: w.kubelet.config.hostIPs(), Runtime: w.kubelet.runtimeName, Now: time.Now(),
		RecursiveReadOnly: w.kubelet.podConfig.RecursiveReadOnly(pod),
	}
	o.ResizePending, o.ResizeInProgress = w.kubelet.allocations.Conditions(w.uid)
	status := o.Status()
	w.meterInit(pod, state)
	w.meterPhase(status.Phase)
	if status.Phase == corev1.PodSucceeded || status.Phase == corev1.PodFailed {
		w.final = &status
	}
	if mirror.IsStatic(pod) {
		w.remember(status)
		return
	}
	newest, _ := w.current() // with the desired resources, not the allocated ones
	w.reporter.Set(newest, status)
}

// withEnd returns pod with the status that it has ended, if that was reported. The pod that the worker
// has may be older, and the runtime may have lost the containers that show that nothing must run again.
func (w *worker) withEnd(pod *corev1.Pod) *corev1.Pod {
	if w.final == nil || ended(pod) {
		return pod
	}
	known := *pod
	known.Status = *w.final
	return &known
}

// act carries out a decision. It reports whether the pod must be observed again.
func (w *worker) act(ctx context.Context, pod *corev1.Pod, state *lifecycle.State, d *lifecycle.Decision) (bool, error) {
	if d.Changes() {
		return w.change(ctx, pod, state, d)
	}
	if len(d.Start) == 0 {
		w.heldBack(pod, d)
		return false, nil
	}
	if err := w.mountVolumes(ctx, pod); err != nil {
		return false, err
	}
	sandbox := state.Sandbox()
	config, err := w.kubelet.podConfig.Sandbox(pod, sandbox.Attempt)
	if err != nil {
		return false, err
	}
	if err := w.protect(ctx, pod, sandbox); err != nil {
		return false, err
	}
	known := withAddresses(pod, sandbox.IPs, w.kubelet.config.hostIPs())
	w.imageVolumes = map[string]*runtimeapi.ImageSpec{}
	for _, action := range d.Start {
		w.start(ctx, known, sandbox.ID, config, action)
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
	}
	w.heldBack(pod, d)
	return true, nil
}

// change carries out the parts of a decision that come before starting containers.
func (w *worker) change(ctx context.Context, pod *corev1.Pod, state *lifecycle.State, d *lifecycle.Decision) (bool, error) {
	k := w.kubelet
	for _, wave := range d.Stop {
		for _, action := range wave {
			if action.Unhealthy || action.Resize {
				w.memory.Unhealthy[action.Container.Name] = action.Container.ID
			}
		}
		if err := w.stopWave(ctx, pod, wave, grace(pod)); err != nil {
			return false, err
		}
	}
	for _, id := range d.StopSandboxes {
		if d.ReplacesSandbox {
			k.events.Pod(pod, nil, corev1.EventTypeNormal, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
		}
		if _, err := k.config.Runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id}); err != nil {
			return false, &removalError{fmt.Errorf("stop sandbox %s: %w", id, err)}
		}
	}
	if len(d.Remove)+len(d.RemoveSandboxes) > 0 {
		// Dead containers and sandboxes that remain do not prevent later steps.
		if err := w.removeDead(ctx, pod, state, d); err != nil {
			w.refused(ctx, pod, false, err)
		} else {
			w.removal = removal{}
		}
	}
	if len(d.Resize) > 0 || d.ResizePod {
		if err := w.resize(ctx, pod, state, d); err != nil {
			if ctx.Err() != nil {
				return false, err
			}
			w.resizeFailed(pod, err)
		}
	}
	if d.CreateSandbox {
		return w.createSandbox(ctx, pod, d)
	}
	return true, nil
}

// createSandbox creates the pod's sandbox, once its volumes and, unless it uses the host's network,
// the network are ready.
func (w *worker) createSandbox(ctx context.Context, pod *corev1.Pod, d *lifecycle.Decision) (bool, error) {
	k := w.kubelet
	if !pod.Spec.HostNetwork && !k.network.IsOpen() {
		k.events.Pod(pod, nil, corev1.EventTypeWarning, "NetworkNotReady", "network is not ready: "+k.network.Reason())
		return false, nil
	}
	if err := w.mountVolumes(ctx, pod); err != nil {
		return false, err
	}
	err := k.makePodCgroup(pod)
	if err != nil {
		k.events.Pod(pod, nil, corev1.EventTypeWarning, "FailedCreatePodContainer", fmt.Sprintf("unable to ensure pod container exists: %v", err))
		return false, err
	}
	if err = w.runSandbox(ctx, pod, d.SandboxAttempt); err == nil {
		w.memory.SandboxFailed = time.Time{}
		return true, nil
	}
	if ctx.Err() != nil {
		return false, err
	}
	w.memory.SandboxFailed = time.Now()
	if strings.Contains(err.Error(), "is reserved for") {
		// A timed-out attempt is still in progress. If it succeeds, its sandbox is stopped as a
		// spare.
		w.memory.SandboxAttempt = d.SandboxAttempt + 1
	}
	k.events.Pod(pod, nil, corev1.EventTypeWarning, "FailedCreatePodSandBox", fmt.Sprintf("Failed to create pod sandbox: %v", err))
	return false, err
}

func (w *worker) runSandbox(ctx context.Context, pod *corev1.Pod, attempt uint32) error {
	k := w.kubelet
	handler, err := k.runtimeHandler(pod)
	if err != nil {
		return err
	}
	config, err := k.podConfig.Sandbox(pod, attempt)
	if err != nil {
		return err
	}
	end, err := k.turns.Take(ctx, turns.Fresh)
	if err != nil {
		return err
	}
	defer end()
	whole, done := k.unbroken(ctx)
	defer done()
	_, err = k.config.Runtime.RunPodSandbox(whole, &runtimeapi.RunPodSandboxRequest{Config: config, RuntimeHandler: handler})
	if err != nil {
		return answer(err, "RunPodSandbox").Err()
	}
	return nil
}

// runtimeHandler returns the handler of a pod's runtime class; empty, which is the runtime's default,
// for a pod without a class.
func (k *Kubelet) runtimeHandler(pod *corev1.Pod) (string, error) {
	if pod.Spec.RuntimeClassName == nil || *pod.Spec.RuntimeClassName == "" {
		return "", nil
	}
	if k.config.RuntimeClasses != nil {
		if class, ok := k.config.RuntimeClasses.Get(*pod.Spec.RuntimeClassName); ok {
			return class.Handler, nil
		}
	}
	return "", apierrors.NewNotFound(nodev1.Resource("runtimeclass"), *pod.Spec.RuntimeClassName)
}

// mountVolumes sets up or refreshes the volumes. What cannot be set up is retried with a
// backoff, until which the error is a *mountHeldError.
func (w *worker) mountVolumes(ctx context.Context, pod *corev1.Pod) error {
	if w.volumes != nil && time.Since(w.volumesAt) <= refreshVolumes {
		return nil
	}
	if time.Now().Before(w.mounting.until) {
		return &mountHeldError{until: w.mounting.until}
	}
	paths, err := w.kubelet.setUpVolumes(ctx, pod)
	if err != nil {
		if setUp, ok := errors.AsType[*setUpError](err); ok && ctx.Err() == nil {
			w.mounting = w.mounting.next(time.Now())
			w.kubelet.events.Pod(pod, nil, corev1.EventTypeWarning, setUp.reason, setUp.message)
		}
		return err
	}
	w.volumes, w.volumesAt, w.mounting = paths, time.Now(), mountBackoff{}
	w.setMounted(paths)
	return nil
}

// heldBack records events for the containers that a backoff holds.
func (w *worker) heldBack(pod *corev1.Pod, d *lifecycle.Decision) {
	for name, waiting := range d.Waiting {
		c := podconfig.FindContainer(pod, name)
		switch waiting.Reason {
		case "CrashLoopBackOff":
			w.kubelet.events.Pod(pod, c, corev1.EventTypeWarning, "BackOff",
				fmt.Sprintf("Back-off restarting failed container %s in pod %s", name, lifecycle.PodName(pod)))
		case "ImagePullBackOff":
			w.kubelet.events.Pod(pod, c, corev1.EventTypeNormal, "BackOff", fmt.Sprintf("Back-off pulling image %q", w.memory.Pulls[name].Reference()))
			w.kubelet.events.Pod(pod, c, corev1.EventTypeWarning, "Failed", "Error: ImagePullBackOff")
		}
	}
}

// withAddresses returns pod with its addresses, which its containers may need before they are in
// the API.
func withAddresses(pod *corev1.Pod, ips, hostIPs []string) *corev1.Pod {
	if pod.Spec.HostNetwork {
		ips = hostIPs
	}
	known := *pod
	known.Status.PodIP, known.Status.PodIPs = "", nil
	for i, ip := range ips {
		if i == 0 {
			known.Status.PodIP = ip
		}
		known.Status.PodIPs = append(known.Status.PodIPs, corev1.PodIP{IP: ip})
	}
	return &known
}

// stopWave stops containers concurrently, after their preStop hooks, each with the grace of its action or else with grace, in
// seconds.
func (w *worker) stopWave(ctx context.Context, pod *corev1.Pod, wave []lifecycle.StopAction, grace int64) error {
	errs := make([]error, len(wave))
	var group sync.WaitGroup
	for i, action := range wave {
		w.kubelet.events.Pod(pod, podconfig.FindContainer(pod, action.Container.Name), corev1.EventTypeNormal, "Killing", action.Message)
		group.Go(func() {
			timeout := grace
			if action.Grace != nil {
				timeout = graceOf(*action.Grace)
			}
			if !action.SkipHook {
				timeout = w.preStop(ctx, pod, action.Container.ID, podconfig.FindContainer(pod, action.Container.Name), timeout)
			}
			_, errs[i] = w.kubelet.config.Runtime.StopContainer(ctx, &runtimeapi.StopContainerRequest{
				ContainerId: action.Container.ID, Timeout: timeout,
			})
		})
	}
	group.Wait()
	return errors.Join(errs...)
}
