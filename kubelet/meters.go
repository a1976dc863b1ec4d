package kubelet

import (
	"slices"
	"time"

	"github.com/planekit/planekit/kubelet/internal/lifecycle"
	"github.com/planekit/planekit/kubelet/internal/mirror"
	"github.com/planekit/planekit/kubelet/internal/resize"
	"github.com/planekit/planekit/kubelet/internal/startup"
	corev1 "k8s.io/api/core/v1"
)

// Meters are called with what the kubelet does. Each may be nil. They must be safe for concurrent use and
// must not block. Package metrics has them for Prometheus.
type Meters struct {
	// Relisted is called with the time that a list of the runtime's containers took.
	Relisted func(took time.Duration)
	// WorkerStarted is called with the time from when a pod was first seen to its first sync.
	WorkerStarted func(after time.Duration)
	// Synced is called with the time that the work on a pod took: create for the first, update after a
	// change of its spec, sync for any other, kill while the pod ends, and terminated when it has.
	Synced func(operation string, took time.Duration)
	// PodRunning is called when a pod's phase becomes Running, with the time since the pod was first seen.
	PodRunning func(took time.Duration)
	// PodStarted is called when the API shows for the first time that all containers of a pod run, with the
	// time since the pod was created. sli is without pulls and init containers; see package
	// internal/startup. Static pods and pods that an earlier kubelet has started are left out.
	PodStarted func(total, sli time.Duration, stateful bool)
	// ContainerStarting is called for each attempt to start a container: container, init_container or
	// ephemeral_container; ContainerFailed if it fails, with the reason, such as ErrImagePull.
	ContainerStarting func(kind string)
	ContainerFailed   func(kind, reason string)
	// Evicted is called with the signal for which a pod is evicted, such as memory.available.
	Evicted func(signal string)
	// ResizeRequested is called for each resource of a container that a change of a pod's spec
	// resizes: cpu or memory; requests or limits; add, remove, increase or decrease.
	ResizeRequested func(resource, requirement, operation string)
	// ResizeInfeasible is called when a resize is impossible, with the reason.
	ResizeInfeasible func(detail string)
	// ResizeAccepted is called when a deferred resize is allocated, with what made the kubelet decide
	// again, such as pod_resized.
	ResizeAccepted func(trigger string)
	// Resized is called with the time that an attempt to carry out a resize took, and whether it
	// succeeded.
	Resized func(took time.Duration, ok bool)
}

// Resizes returns how many pods have a pending resize, by the reason of the condition PodResizePending, and how
// many one in progress.
func (k *Kubelet) Resizes() (pending map[string]int, progress int) { return k.allocations.Counts() }

// meterStart calls PodStarted for a version of a pod from the API.
func (m *Meters) meterStart(t *startup.Timer, pod *corev1.Pod) {
	if m.PodStarted == nil || mirror.IsStatic(pod) {
		return
	}
	if took, ok := t.Observe(pod, time.Now()); ok {
		m.PodStarted(took.Total, took.SLI, took.Stateful)
	}
}

// meterContainer calls ContainerStarting, or if reason is not empty ContainerFailed.
func (m *Meters) meterContainer(pod *corev1.Pod, name, reason string) {
	kind := "container"
	if slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == name }) {
		kind = "init_container"
	} else if slices.ContainsFunc(pod.Spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool { return c.Name == name }) {
		kind = "ephemeral_container"
	}
	switch {
	case reason != "" && m.ContainerFailed != nil:
		m.ContainerFailed(kind, reason)
	case reason == "" && m.ContainerStarting != nil:
		m.ContainerStarting(kind)
	}
}

// meterPhase notes the phase of a pod, and calls PodRunning. Only run calls it.
func (w *worker) meterPhase(phase corev1.PodPhase) {
	if meter := w.kubelet.config.Meters.PodRunning; meter != nil && w.phase == corev1.PodPending && phase == corev1.PodRunning {
		meter(time.Since(w.seen))
	}
	w.phase = phase
}

// meterInit notes how long the init containers of a pod have run, while it starts.
func (w *worker) meterInit(pod *corev1.Pod, state *lifecycle.State) {
	if len(pod.Spec.InitContainers) == 0 || w.startup.Done() {
		return
	}
	var ran time.Duration
	for i := range pod.Spec.InitContainers {
		spec := &pod.Spec.InitContainers[i]
		for _, c := range state.Containers {
			if c.Name == spec.Name && c.Phase == lifecycle.Exited && !lifecycle.IsSidecar(spec) && c.Finished.After(c.Started) {
				ran += c.Finished.Sub(c.Started)
			}
		}
	}
	w.startup.Init(ran)
}

// workTimer calls WorkerStarted and Synced for a worker. Only run uses it.
type workTimer struct {
	begun      time.Time // zero before the first work
	generation int64     // of the pod at the last work
	kind       string    // empty between two works
}

// begin notes that the work on a pod begins, which ends the pod or not.
func (t *workTimer) begin(w *worker, pod *corev1.Pod, ends bool) {
	first := t.begun.IsZero()
	t.begun = time.Now()
	switch {
	case first:
		t.kind = "create"
		if meter := w.kubelet.config.Meters.WorkerStarted; meter != nil {
			meter(t.begun.Sub(w.seen))
		}
	case ends:
		t.kind = "kill"
	case t.generation != pod.Generation:
		t.kind = "update"
	default:
		t.kind = "sync"
	}
	t.generation = pod.Generation
}

// end notes that the work has ended, and whether nothing is left of the pod.
func (t *workTimer) end(w *worker, cleaned bool) {
	if t.kind == "" {
		return
	}
	if cleaned {
		t.kind = "terminated"
	}
	if meter := w.kubelet.config.Meters.Synced; meter != nil {
		meter(t.kind, time.Since(t.begun))
	}
	t.kind = ""
}

// meterResize calls ResizeRequested for a change of a pod.
func (m *Meters) meterResize(old, pod *corev1.Pod) {
	if m.ResizeRequested == nil || old == nil || pod == nil || old.UID != pod.UID || old.Generation == pod.Generation {
		return
	}
	for _, r := range resize.Requested(old, pod) {
		m.ResizeRequested(r.Resource, r.Requirement, r.Operation)
	}
}
