package lifecycle

import (
	"cmp"
	"time"

	"github.com/planekit/planekit/kubelet/internal/qos"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Observation is the input of a pod's status.
type Observation struct {
	Pod      *corev1.Pod
	State    *State
	Decision Decision
	// ResizePending and ResizeInProgress are the pod's conditions of these types; nil means none.
	ResizePending, ResizeInProgress *corev1.PodCondition
	// HostIPs are the node's internal addresses.
	HostIPs []string
	// Runtime is the scheme of container IDs, such as "containerd".
	Runtime string
	// RecursiveReadOnly says that the runtime handler supports recursive read-only mounts.
	RecursiveReadOnly bool

	Now time.Time
}

// Status returns the pod's status as this kubelet sees it. It keeps conditions of other writers,
// and depends only on the observation.
func (o *Observation) Status() corev1.PodStatus {
	old := &o.Pod.Status
	status := *old.DeepCopy()
	status.ObservedGeneration = o.Pod.Generation
	status.QOSClass = qos.Class(o.Pod)
	if status.StartTime == nil {
		status.StartTime = &metav1.Time{Time: o.Now.Truncate(time.Second)}
	}
	if o.neverStarted() {
		if !hasEnded(status.Phase) {
			status.Phase, status.Reason, status.Message = corev1.PodFailed, o.Decision.reason, o.Decision.message
		}
		return status
	}
	if len(o.HostIPs) > 0 {
		status.HostIP = o.HostIPs[0]
		status.HostIPs = nil
		for _, ip := range o.HostIPs {
			status.HostIPs = append(status.HostIPs, corev1.HostIP{IP: ip})
		}
	}
	o.addresses(&status)
	status.InitContainerStatuses = o.containers(o.Pod.Spec.InitContainers, old.InitContainerStatuses, true)
	status.ContainerStatuses = o.containers(o.Pod.Spec.Containers, old.ContainerStatuses, false)
	status.EphemeralContainerStatuses = o.ephemeral(old.EphemeralContainerStatuses)
	shortenMessages(&status)
	status.Phase = o.phase(&status)
	if o.Decision.reason != "" && hasEnded(status.Phase) {
		status.Reason, status.Message = o.Decision.reason, o.Decision.message
	}
	o.conditions(&status)
	o.podSize(&status)
	return status
}

// neverStarted reports whether the pod has ended before it had any container. Such a pod has no
// addresses, no statuses of containers, and none of the conditions that follow from them.
func (o *Observation) neverStarted() bool {
	old := &o.Pod.Status
	return len(o.State.Sandboxes)+len(o.State.Containers) == 0 &&
		(o.Decision.refused || hasEnded(old.Phase) && len(old.InitContainerStatuses)+len(old.ContainerStatuses) == 0)
}

// addresses sets the pod's addresses: the sandbox's, or on the host's network the node's. A pod
// that has ended keeps its addresses.
func (o *Observation) addresses(status *corev1.PodStatus) {
	var ips []string
	if s := o.State.Sandbox(); s != nil {
		if ips = s.IPs; o.Pod.Spec.HostNetwork {
			ips = o.HostIPs
		}
	} else if o.Decision.Finished {
		return
	}
	status.PodIP, status.PodIPs = "", nil
	for i, ip := range ips {
		if i == 0 {
			status.PodIP = ip
		}
		status.PodIPs = append(status.PodIPs, corev1.PodIP{IP: ip})
	}
}

// hasEnded reports whether a phase is final.
func hasEnded(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}

// phase returns the pod's phase for the container statuses. Succeeded and Failed are final, and no
// pod has them before its containers have stopped: only then are its resources free.
func (o *Observation) phase(status *corev1.PodStatus) corev1.PodPhase {
	d := &o.Decision
	switch {
	case hasEnded(status.Phase):
		return status.Phase
	case d.Finished && o.State.Running() > 0 && d.reason != "":
		return cmp.Or(status.Phase, corev1.PodPending)
	case d.Finished && o.State.Running() > 0:
		// Only sidecars still run.
	case d.Finished && (d.reason != "" || !d.Initialized):
		return corev1.PodFailed
	case d.Finished:
		for _, c := range status.ContainerStatuses {
			if c.State.Terminated == nil || c.State.Terminated.ExitCode != 0 {
				return corev1.PodFailed
			}
		}
		return corev1.PodSucceeded
	}
	if !d.Initialized {
		return corev1.PodPending
	}
	for _, c := range status.ContainerStatuses {
		if c.State.Waiting != nil && c.LastTerminationState.Terminated == nil {
			return corev1.PodPending
		}
	}
	return corev1.PodRunning
}
