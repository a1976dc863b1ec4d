package schedule

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Resources are amounts of resources.
type Resources struct {
	// MilliCPU is in thousandths of a core.
	MilliCPU int64
	// Memory and EphemeralStorage are in bytes.
	Memory, EphemeralStorage int64
	// Extended holds all other resources in their own units; nil means none.
	Extended map[corev1.ResourceName]int64
}

// The default requests of a container in scores, so that pods without requests do not all go to one
// node. The values are kube-scheduler's.
const (
	defaultMilliCPU = 100
	defaultMemory   = 200 << 20
)

// add adds r to a, multiplied by sign.
func (a *Resources) add(r Resources, sign int64) {
	a.MilliCPU += sign * r.MilliCPU
	a.Memory += sign * r.Memory
	a.EphemeralStorage += sign * r.EphemeralStorage
	for name, n := range r.Extended {
		if a.Extended == nil {
			a.Extended = make(map[corev1.ResourceName]int64)
		}
		if a.Extended[name] += sign * n; a.Extended[name] == 0 {
			delete(a.Extended, name)
		}
	}
}

// resources converts a list, without the resource pods.
func resources(list corev1.ResourceList) Resources {
	var r Resources
	for name, q := range list {
		r.set(name, q)
	}
	return r
}

func (a *Resources) set(name corev1.ResourceName, q resource.Quantity) {
	switch name {
	case corev1.ResourceCPU:
		a.MilliCPU = q.MilliValue()
	case corev1.ResourceMemory:
		a.Memory = q.Value()
	case corev1.ResourceEphemeralStorage:
		a.EphemeralStorage = q.Value()
	case corev1.ResourcePods:
	default:
		if a.Extended == nil {
			a.Extended = make(map[corev1.ResourceName]int64)
		}
		a.Extended[name] = q.Value()
	}
}

// raise raises a to at least b in every resource.
func (a *Resources) raise(b Resources) {
	a.MilliCPU = max(a.MilliCPU, b.MilliCPU)
	a.Memory = max(a.Memory, b.Memory)
	a.EphemeralStorage = max(a.EphemeralStorage, b.EphemeralStorage)
	for name, n := range b.Extended {
		if a.Extended == nil {
			a.Extended = make(map[corev1.ResourceName]int64)
		}
		a.Extended[name] = max(a.Extended[name], n)
	}
}

func (a Resources) clone() Resources {
	var c Resources
	c.add(a, 1)
	return c
}

// request returns the requests of a container. With nonZero, missing requests of CPU and memory are
// replaced by the defaults.
func request(c *corev1.Container, nonZero bool) Resources {
	r := resources(c.Resources.Requests)
	if nonZero {
		if _, ok := c.Resources.Requests[corev1.ResourceCPU]; !ok {
			r.MilliCPU = defaultMilliCPU
		}
		if _, ok := c.Resources.Requests[corev1.ResourceMemory]; !ok {
			r.Memory = defaultMemory
		}
	}
	return r
}

// requests returns the maximum resources that a pod needs at any time: its containers and sidecars
// together, or one init container with the sidecars started before it, whichever is more, plus the
// overhead. Requests for the whole pod replace the sum over its containers.
// https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers
func requests(pod *corev1.Pod, nonZero bool) Resources {
	var sum, sidecars, peak Resources
	for i := range pod.Spec.Containers {
		sum.add(request(&pod.Spec.Containers[i], nonZero), 1)
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if sidecar(c) {
			sidecars.add(request(c, nonZero), 1)
			peak.raise(sidecars)
			continue
		}
		with := sidecars.clone()
		with.add(request(c, nonZero), 1)
		peak.raise(with)
	}
	sum.add(sidecars, 1)
	sum.raise(peak)
	if pod.Spec.Resources != nil {
		for name, q := range pod.Spec.Resources.Requests {
			sum.set(name, q)
		}
	}
	sum.add(resources(pod.Spec.Overhead), 1)
	return sum
}

func sidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}
