package eviction

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Reason is the reason of an evicted pod, and of the events about it.
const Reason = "Evicted"

// The annotations of events about evictions.
const (
	annotationContainers = "offending_containers"
	annotationUsage      = "offending_containers_usage"
	annotationResource   = "starved_resource"
)

// Message returns Kubernetes' message for a pod that is evicted under a pressure, and the annotations
// of the event.
func Message(p Pressure, u Usage) (message string, annotations map[string]string) {
	name := signals[p.Threshold.Signal].resource
	message = fmt.Sprintf("The node was low on resource: %v. ", name)
	message += fmt.Sprintf("Threshold quantity: %s, available: %s. ",
		quantity(p.Threshold.Minimum.of(p.Level.Capacity), name), quantity(p.Level.Available, name))
	var names, usages []string
	for i := range u.Pod.Spec.Containers {
		c := &u.Pod.Spec.Containers[i]
		used, known := u.Containers[c.Name]
		n := used.Memory
		if name == corev1.ResourceEphemeralStorage {
			n = used.Storage
		}
		request := c.Resources.Requests[name]
		if !known || name != corev1.ResourceMemory && name != corev1.ResourceEphemeralStorage || n <= request.Value() {
			continue
		}
		message += fmt.Sprintf("Container %s was using %s, request is %s, has larger consumption of %v. ", c.Name, quantity(n, name), request.String(), name)
		names, usages = append(names, c.Name), append(usages, quantity(n, name))
	}
	return message, map[string]string{
		annotationContainers: strings.Join(names, ","), annotationUsage: strings.Join(usages, ","), annotationResource: string(name),
	}
}

// quantity formats an amount of a resource: bytes with binary suffixes, as Kubernetes does.
func quantity(n int64, name corev1.ResourceName) string {
	format := resource.BinarySI
	switch {
	case name == inodes || name == processes:
		format = resource.DecimalSI
	case n > 1024 && n%1024 != 0:
		n = n / 1024 * 1024
	}
	return resource.NewQuantity(n, format).String()
}

// Refuse returns why a pod cannot start under the conditions of the node; empty if it can. Under
// memory pressure alone only pods without requests are refused, unless they tolerate it.
func Refuse(pod *corev1.Pod, class corev1.PodQOSClass, conditions []corev1.NodeConditionType) string {
	if len(conditions) == 0 || Critical(pod) {
		return ""
	}
	if len(conditions) == 1 && conditions[0] == corev1.NodeMemoryPressure {
		if class != corev1.PodQOSBestEffort || tolerates(pod) {
			return ""
		}
	}
	return fmt.Sprintf("The node had condition: %v. ", conditions)
}

// tolerates reports whether a pod tolerates the taint of memory pressure.
func tolerates(pod *corev1.Pod) bool {
	for i := range pod.Spec.Tolerations {
		t := &pod.Spec.Tolerations[i]
		effect := t.Effect == "" || t.Effect == corev1.TaintEffectNoSchedule
		exists := t.Operator == corev1.TolerationOpExists && (t.Key == "" || t.Key == corev1.TaintNodeMemoryPressure)
		equal := t.Operator != corev1.TolerationOpExists && t.Key == corev1.TaintNodeMemoryPressure && t.Value == ""
		if effect && (exists || equal) {
			return true
		}
	}
	return false
}
