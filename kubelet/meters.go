package kubelet

import (
	"time"

	"github.com/planekit/planekit/kubelet/internal/resize"
	corev1 "k8s.io/api/core/v1"
)

// Meters are called with what the kubelet does. Each may be nil. They must be safe for concurrent use and
// must not block. Package metrics has them for Prometheus.
type Meters struct {
	// Relisted is called with the time that a list of the runtime's containers took.
	Relisted func(took time.Duration)
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

// meterResize calls ResizeRequested for a change of a pod.
func (m *Meters) meterResize(old, pod *corev1.Pod) {
	if m.ResizeRequested == nil || old == nil || pod == nil || old.UID != pod.UID || old.Generation == pod.Generation {
		return
	}
	for _, r := range resize.Requested(old, pod) {
		m.ResizeRequested(r.Resource, r.Requirement, r.Operation)
	}
}
