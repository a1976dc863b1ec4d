package podspec

import (
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	corev1 "k8s.io/api/core/v1"
)

// qosResources lists the resources that determine a pod's quality of service class.
var qosResources = [...]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// QOSClass computes a pod's class
// (https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/). Where the pod
// as a whole has resources, only these count.
func QOSClass(spec *corev1.PodSpec) corev1.PodQOSClass {
	if spec.Resources != nil {
		return qosOf([]corev1.ResourceRequirements{*spec.Resources})
	}
	var all []corev1.ResourceRequirements
	for i := range spec.Containers {
		all = append(all, spec.Containers[i].Resources)
	}
	for i := range spec.InitContainers {
		all = append(all, spec.InitContainers[i].Resources)
	}
	return qosOf(all)
}

// qosOf returns BestEffort if no part requests anything, and Guaranteed if each part is limited in
// both resources and the requests equal the limits.
func qosOf(parts []corev1.ResourceRequirements) corev1.PodQOSClass {
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	guaranteed := true
	for _, r := range parts {
		addPositive(requests, r.Requests)
		if addPositive(limits, r.Limits) < len(qosResources) {
			guaranteed = false
		}
	}
	if len(requests) == 0 && len(limits) == 0 {
		return corev1.PodQOSBestEffort
	}
	if guaranteed && len(requests) == len(limits) {
		for name, request := range requests {
			if limit, ok := limits[name]; !ok || limit.Cmp(request) != 0 {
				return corev1.PodQOSBurstable
			}
		}
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}

// addPositive adds the amounts of list that matter to sum and counts them.
func addPositive(sum, list corev1.ResourceList) int {
	n := 0
	for _, name := range qosResources {
		if q, ok := list[name]; ok && q.Sign() > 0 {
			total := sum[name]
			total.Add(q)
			sum[name] = total
			n++
		}
	}
	return n
}

// requestsOf and limitsOf pick a side of a container's resources.
func requestsOf(c *corev1.Container) corev1.ResourceList { return c.Resources.Requests }

func limitsOf(c *corev1.Container) corev1.ResourceList { return c.Resources.Limits }

// atOnce returns the resources that the containers of a pod take at the same time: the sum of the
// long-running ones, or the most that init containers take
// (https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers).
func atOnce(spec *corev1.PodSpec, of func(*corev1.Container) corev1.ResourceList) corev1.ResourceList {
	running, sidecars, peak := corev1.ResourceList{}, corev1.ResourceList{}, corev1.ResourceList{}
	for i := range spec.Containers {
		addAll(running, of(&spec.Containers[i]))
	}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		if IsSidecar(c) {
			addAll(running, of(c))
			addAll(sidecars, of(c))
			raise(peak, sidecars)
			continue
		}
		step := sidecars.DeepCopy()
		addAll(step, of(c))
		raise(peak, step)
	}
	raise(running, peak)
	return running
}

func addAll(sum, list corev1.ResourceList) {
	for name, q := range list {
		total := sum[name]
		total.Add(q)
		sum[name] = total
	}
}

// raise makes every amount of list at least that of other.
func raise(list, other corev1.ResourceList) {
	for name, q := range other {
		if have, ok := list[name]; !ok || have.Cmp(q) < 0 {
			list[name] = q.DeepCopy()
		}
	}
}

// IsSidecar reports whether an init container runs as long as the pod.
func IsSidecar(c *corev1.Container) bool {
	return optional.Deref(c.RestartPolicy) == corev1.ContainerRestartPolicyAlways
}
