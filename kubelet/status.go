package kubelet

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// observation is the input of a pod's status.
type observation struct {
	pod      *corev1.Pod
	state    *podState
	decision decision
	// hostIPs are the node's internal addresses.
	hostIPs []string
	// runtime is the scheme of container IDs, such as "containerd".
	runtime string
	now     time.Time
}

// status returns the pod's status as this kubelet sees it. It keeps conditions of other writers,
// and depends only on the observation.
func (o *observation) status() corev1.PodStatus {
	old := &o.pod.Status
	status := *old.DeepCopy()
	status.ObservedGeneration = o.pod.Generation
	status.QOSClass = qosClass(o.pod)
	if status.StartTime == nil {
		status.StartTime = &metav1.Time{Time: o.now.Truncate(time.Second)}
	}
	if len(o.hostIPs) > 0 {
		status.HostIP = o.hostIPs[0]
		status.HostIPs = nil
		for _, ip := range o.hostIPs {
			status.HostIPs = append(status.HostIPs, corev1.HostIP{IP: ip})
		}
	}
	o.addresses(&status)
	status.InitContainerStatuses = o.containers(o.pod.Spec.InitContainers, old.InitContainerStatuses, true)
	status.ContainerStatuses = o.containers(o.pod.Spec.Containers, old.ContainerStatuses, false)
	status.Phase = o.phase(&status)
	if o.decision.reason != "" {
		status.Reason, status.Message = o.decision.reason, o.decision.message
	}
	o.conditions(&status)
	return status
}

// addresses sets the pod's addresses: the sandbox's, or on the host's network the node's. A pod
// that has ended keeps its addresses.
func (o *observation) addresses(status *corev1.PodStatus) {
	var ips []string
	if s := o.state.sandbox(); s != nil {
		if ips = s.ips; o.pod.Spec.HostNetwork {
			ips = o.hostIPs
		}
	} else if o.decision.finished {
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

// phase returns the pod's phase for the container statuses. Succeeded and Failed are final.
func (o *observation) phase(status *corev1.PodStatus) corev1.PodPhase {
	d := &o.decision
	switch {
	case status.Phase == corev1.PodSucceeded || status.Phase == corev1.PodFailed:
		return status.Phase
	case d.finished && o.state.running() > 0 && d.reason == "":
		// Only sidecars still run.
	case d.finished && (d.reason != "" || !d.initialized):
		return corev1.PodFailed
	case d.finished:
		for _, c := range status.ContainerStatuses {
			if c.State.Terminated == nil || c.State.Terminated.ExitCode != 0 {
				return corev1.PodFailed
			}
		}
		return corev1.PodSucceeded
	}
	if !d.initialized {
		return corev1.PodPending
	}
	for _, c := range status.ContainerStatuses {
		if c.State.Waiting != nil && c.LastTerminationState.Terminated == nil {
			return corev1.PodPending
		}
	}
	return corev1.PodRunning
}
