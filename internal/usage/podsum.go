package usage

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Containers returns the maximum that a pod uses at any time, where of returns the amounts of one
// container: the sum of its containers and sidecars, or of one init container and the sidecars that
// were started before it, whichever is more.
// https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
func Containers(pod *corev1.Pod, of func(*corev1.Container) corev1.ResourceList) corev1.ResourceList {
	sum, sidecars, peak := corev1.ResourceList{}, corev1.ResourceList{}, corev1.ResourceList{}
	for i := range pod.Spec.Containers {
		Add(sum, of(&pod.Spec.Containers[i]))
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		takes := of(c)
		if sidecar(c) {
			Add(sum, takes)
			Add(sidecars, takes)
			Raise(peak, sidecars)
			continue
		}
		with := corev1.ResourceList{}
		Add(with, takes)
		Add(with, sidecars)
		Raise(peak, with)
	}
	Raise(sum, peak)
	return sum
}

func sidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// Requests returns the requests of a pod: those of its containers, or of the pod as a whole, and
// its overhead. While a running container is being resized, the larger of its sizes counts.
func Requests(pod *corev1.Pod) corev1.ResourceList {
	given := states(pod)
	infeasible := resizeInfeasible(pod)
	sum := Containers(pod, func(c *corev1.Container) corev1.ResourceList {
		state, ok := given[c.Name]
		if !ok || state.Resources == nil {
			return c.Resources.Requests
		}
		return larger(c.Resources.Requests, infeasible, state.Resources.Requests, state.AllocatedResources)
	})
	if pod.Spec.Resources != nil {
		whole := pod.Spec.Resources.Requests
		if now := pod.Status.Resources; now != nil {
			whole = larger(whole, infeasible, now.Requests, pod.Status.AllocatedResources)
		}
		override(sum, whole)
	}
	Add(sum, pod.Spec.Overhead)
	return sum
}

// Limits returns the limits of a pod. The overhead is added to existing limits.
func Limits(pod *corev1.Pod) corev1.ResourceList {
	given := states(pod)
	infeasible := resizeInfeasible(pod)
	sum := Containers(pod, func(c *corev1.Container) corev1.ResourceList {
		state, ok := given[c.Name]
		if !ok || state.Resources == nil {
			return c.Resources.Limits
		}
		return larger(c.Resources.Limits, infeasible, state.Resources.Limits)
	})
	if pod.Spec.Resources != nil {
		whole := pod.Spec.Resources.Limits
		if now := pod.Status.Resources; now != nil {
			whole = larger(whole, infeasible, now.Limits)
		}
		override(sum, whole)
	}
	for name, q := range pod.Spec.Overhead {
		if limit, ok := sum[name]; ok && !limit.IsZero() {
			limit.Add(q)
			sum[name] = limit
		}
	}
	return sum
}

// larger returns the larger of the amounts in the spec and those given by the kubelet. The spec of an
// infeasible resize does not count.
func larger(spec corev1.ResourceList, infeasible bool, given ...corev1.ResourceList) corev1.ResourceList {
	list := corev1.ResourceList{}
	if !infeasible {
		Raise(list, spec)
	}
	for _, amounts := range given {
		Raise(list, amounts)
	}
	return list
}

// states returns the sizes that a kubelet has given to containers, without init containers that run
// once.
func states(pod *corev1.Pod) map[string]*corev1.ContainerStatus {
	if len(pod.Status.ContainerStatuses)+len(pod.Status.InitContainerStatuses) == 0 {
		return nil
	}
	all := map[string]*corev1.ContainerStatus{}
	for i := range pod.Status.ContainerStatuses {
		all[pod.Status.ContainerStatuses[i].Name] = &pod.Status.ContainerStatuses[i]
	}
	for i := range pod.Status.InitContainerStatuses {
		all[pod.Status.InitContainerStatuses[i].Name] = &pod.Status.InitContainerStatuses[i]
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; !sidecar(c) {
			delete(all, c.Name)
		}
	}
	return all
}

func resizeInfeasible(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodResizePending {
			return c.Reason == corev1.PodReasonInfeasible
		}
	}
	return false
}

// override replaces amounts in list by those of the pod as a whole.
func override(list, whole corev1.ResourceList) {
	for name, q := range whole {
		if wholePod(name) {
			list[name] = q.DeepCopy()
		}
	}
}

// wholePod reports whether a pod can have an amount of name for the pod as a whole.
func wholePod(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}
