package lifecycle

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// conditions sets the kubelet's conditions from the rest of the status. Reasons and messages are
// those of the Kubernetes kubelet.
func (o *Observation) conditions(status *corev1.PodStatus) {
	o.set(status, corev1.PodScheduled, true, "", "")
	sandbox := o.State.Sandbox()
	network := sandbox != nil && (sandbox.HostNetwork || len(sandbox.IPs) > 0)
	o.set(status, corev1.PodReadyToStartContainers, network, "", "")

	reason, message := "", ""
	if status.Phase == corev1.PodSucceeded {
		reason = "PodCompleted"
	}
	before := findCondition(status, corev1.PodInitialized)
	initialized := o.Decision.Initialized || status.Phase == corev1.PodSucceeded ||
		o.State.round() > 0 && before != nil && before.Status == corev1.ConditionTrue
	if !initialized {
		reason = "ContainersNotInitialized"
		message = fmt.Sprintf("containers with incomplete status: %s", unready(status.InitContainerStatuses))
	}
	o.set(status, corev1.PodInitialized, initialized, reason, message)

	if o.Decision.disruption != "" && hasEnded(status.Phase) {
		o.set(status, corev1.DisruptionTarget, true, corev1.PodReasonTerminationByKubelet, o.Decision.disruption)
	}

	ready := false
	reason, message = "ContainersNotReady", ""
	names := unready(status.ContainerStatuses)
	if side := unready(o.sidecars(status)); side != "[]" && names == "[]" {
		names = side
	}
	switch {
	case status.Phase == corev1.PodSucceeded:
		reason = "PodCompleted"
	case status.Phase == corev1.PodFailed:
		reason = "PodFailed"
	case names != "[]":
		message = "containers with unready status: " + names
	default:
		ready, reason = true, ""
	}
	o.set(status, corev1.ContainersReady, ready, reason, message)
	if closed := o.closedGates(status); ready && closed != "" {
		ready, reason, message = false, "ReadinessGatesNotReady", closed
	}
	o.set(status, corev1.PodReady, ready, reason, message)
	o.restartCondition(status)
	o.resizeConditions(status)
}

// sidecars returns the statuses of the sidecars among the init containers.
func (o *Observation) sidecars(status *corev1.PodStatus) []corev1.ContainerStatus {
	var list []corev1.ContainerStatus
	for i := range o.Pod.Spec.InitContainers {
		if IsSidecar(&o.Pod.Spec.InitContainers[i]) {
			list = append(list, status.InitContainerStatuses[i])
		}
	}
	return list
}

// unready lists the containers that are not ready, as in [a b].
func unready(list []corev1.ContainerStatus) string {
	var names []string
	for _, c := range list {
		if !c.Ready {
			names = append(names, c.Name)
		}
	}
	return "[" + strings.Join(names, " ") + "]"
}

// closedGates describes the readiness gates whose conditions are not true; empty if all are.
func (o *Observation) closedGates(status *corev1.PodStatus) string {
	var closed []string
	for _, gate := range o.Pod.Spec.ReadinessGates {
		switch c := findCondition(status, gate.ConditionType); {
		case c == nil:
			closed = append(closed, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", gate.ConditionType))
		case c.Status != corev1.ConditionTrue:
			closed = append(closed, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v", gate.ConditionType, c.Status))
		}
	}
	return strings.Join(closed, ", ")
}

func findCondition(status *corev1.PodStatus, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range status.Conditions {
		if status.Conditions[i].Type == kind {
			return &status.Conditions[i]
		}
	}
	return nil
}

// set sets a condition. Its transition time changes only with its status.
func (o *Observation) set(status *corev1.PodStatus, kind corev1.PodConditionType, is bool, reason, message string) {
	c := findCondition(status, kind)
	if c == nil {
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: kind})
		c = &status.Conditions[len(status.Conditions)-1]
	}
	value := corev1.ConditionFalse
	if is {
		value = corev1.ConditionTrue
	}
	if c.Status != value {
		c.Status = value
		c.LastTransitionTime = Seconds(o.Now)
	}
	c.Reason, c.Message, c.ObservedGeneration = reason, message, o.Pod.Generation
}
