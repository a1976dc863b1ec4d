package qos

import (
	"github.com/planekit/planekit/internal/usage"
	corev1 "k8s.io/api/core/v1"
)

// OOMScoreAdj returns the priority with which the kernel kills a container when memory runs out:
// -997 for Guaranteed, 1000 for BestEffort, and in between the lower, the more memory it requests.
func OOMScoreAdj(class corev1.PodQOSClass, request, capacity int64) int64 {
	switch class {
	case corev1.PodQOSGuaranteed:
		return -997
	case corev1.PodQOSBestEffort:
		return 1000
	}
	if capacity <= 0 {
		return 999
	}
	return min(max(1000-1000*min(request, capacity)/capacity, 3), 999)
}

// OOMScore returns the OOMScoreAdj of a container of a pod on a machine with capacity bytes of memory.
// What a pod requests as a whole beyond its containers counts in equal parts for each. A sidecar is not
// killed before the container that requests least. A pod that is critical for the node is killed last.
func OOMScore(pod *corev1.Pod, c *corev1.Container, capacity int64) int64 {
	class := Class(pod)
	if nodeCritical(pod) {
		class = corev1.PodQOSGuaranteed
	}
	request := c.Resources.Requests.Memory().Value()
	if isSidecar(pod, c) && len(pod.Spec.Containers) > 0 {
		request = max(request, leastMemory(pod.Spec.Containers))
	}
	return OOMScoreAdj(class, request+spareMemory(pod), capacity)
}

// nodeCritical reports whether the machine does not work without a pod.
func nodeCritical(pod *corev1.Pod) bool {
	const systemCritical = 2_000_000_000 // the least priority of the system's pods
	source, named := pod.Annotations["kubernetes.io/config.source"]
	static := named && source != "api"
	return pod.Spec.PriorityClassName == "system-node-critical" && (static || pod.Spec.Priority != nil && *pod.Spec.Priority >= systemCritical)
}

func isSidecar(pod *corev1.Pod, c *corev1.Container) bool {
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == c.Name {
			return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		}
	}
	return false
}

// leastMemory returns the smallest request of memory of containers.
func leastMemory(containers []corev1.Container) int64 {
	least := containers[0].Resources.Requests.Memory().Value()
	for i := range containers {
		least = min(least, containers[i].Resources.Requests.Memory().Value())
	}
	return least
}

// spareMemory returns the part for each container of what a pod requests as a whole beyond them.
func spareMemory(pod *corev1.Pod) int64 {
	if pod.Spec.Resources == nil {
		return 0
	}
	own := pod.Spec.Resources.Requests.Memory().Value()
	containers := int64(len(pod.Spec.Containers) + len(pod.Spec.InitContainers))
	if own == 0 || containers == 0 {
		return 0
	}
	sum := usage.Containers(pod, func(c *corev1.Container) corev1.ResourceList { return c.Resources.Requests })
	return (own - sum.Memory().Value()) / containers
}
