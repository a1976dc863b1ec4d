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
	if len(r.Extended) == 0 {
		return // to range over no map takes longer than all of the above
	}
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
		a.MilliCPU = mostAmount
		if !huge(q) && q.CmpInt64(mostAmount/1000) < 0 {
			a.MilliCPU = q.MilliValue()
		}
	case corev1.ResourceMemory:
		a.Memory = amount(q)
	case corev1.ResourceEphemeralStorage:
		a.EphemeralStorage = amount(q)
	case corev1.ResourcePods:
	default:
		if a.Extended == nil {
			a.Extended = make(map[corev1.ResourceName]int64)
		}
		a.Extended[name] = amount(q)
	}
}

// mostAmount is the largest amount of a resource. More than that counts as it: no node has as much, and
// sums over the pods of a node do not overflow, so that no pod fits by a negative sum.
const mostAmount = 1 << 55

// huge reports whether a quantity is at least 10^19 by its power of ten alone. To compare such as 1e99999999
// with a number takes minutes.
func huge(q resource.Quantity) bool {
	if _, ok := q.AsInt64(); ok || q.Sign() <= 0 {
		return false
	}
	return q.AsDec().Scale() <= -19
}

// amount returns a quantity, at most mostAmount. Value may return 0 for one that no int64 holds.
func amount(q resource.Quantity) int64 {
	if huge(q) || q.CmpInt64(mostAmount) >= 0 {
		return mostAmount
	}
	return q.Value()
}

// bound reduces a to mostAmount of each resource.
func (a *Resources) bound() {
	a.MilliCPU = min(a.MilliCPU, mostAmount)
	a.Memory = min(a.Memory, mostAmount)
	a.EphemeralStorage = min(a.EphemeralStorage, mostAmount)
	for name, n := range a.Extended {
		a.Extended[name] = min(n, mostAmount)
	}
}

// raise raises a to at least b in every resource.
func (a *Resources) raise(b Resources) {
	a.MilliCPU = max(a.MilliCPU, b.MilliCPU)
	a.Memory = max(a.Memory, b.Memory)
	a.EphemeralStorage = max(a.EphemeralStorage, b.EphemeralStorage)
	if len(b.Extended) == 0 {
		return
	}
	for name, n := range b.Extended {
		if a.Extended == nil {
			a.Extended = make(map[corev1.ResourceName]int64)
		}
		a.Extended[name] = max(a.Extended[name], n)
	}
}

// any reports whether there is any of a resource.
func (a Resources) any() bool {
	for _, n := range a.Extended {
		if n > 0 {
			return true
		}
	}
	return a.MilliCPU > 0 || a.Memory > 0 || a.EphemeralStorage > 0
}

func (a Resources) clone() Resources {
	var c Resources
	c.add(a, 1)
	return c
}

// request returns the requests of a container. With nonZero, missing requests of CPU and memory are
// replaced by the defaults. While a container is resized in place, the larger of its sizes counts:
// that in its spec, unless its node can never grant it, and those that the node has granted. given is
// the container's status; nil if it has none.
func request(c *corev1.Container, given *corev1.ContainerStatus, infeasible, nonZero bool) Resources {
	sizes := []corev1.ResourceList{c.Resources.Requests}
	if given != nil && given.Resources != nil {
		sizes = append(sizes, given.Resources.Requests, given.AllocatedResources)
		if infeasible {
			sizes = sizes[1:]
		}
	}
	var r Resources
	cpu, memory := false, false
	for _, list := range sizes {
		r.raise(resources(list))
		_, hasCPU := list[corev1.ResourceCPU]
		_, hasMemory := list[corev1.ResourceMemory]
		cpu, memory = cpu || hasCPU, memory || hasMemory
	}
	if nonZero && !cpu {
		r.MilliCPU = defaultMilliCPU
	}
	if nonZero && !memory {
		r.Memory = defaultMemory
	}
	return r
}

// statusOf returns the status of the container called name; nil if there is none. It is mostly at
// index i, because statuses are in the order of the spec.
func statusOf(list []corev1.ContainerStatus, i int, name string) *corev1.ContainerStatus {
	if i < len(list) && list[i].Name == name {
		return &list[i]
	}
	for j := range list {
		if list[j].Name == name {
			return &list[j]
		}
	}
	return nil
}

// infeasible reports whether the node said that it can never grant the size in the pod's spec.
func infeasible(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodResizePending {
			return c.Reason == corev1.PodReasonInfeasible
		}
	}
	return false
}

// requests returns the maximum resources that a pod needs at any time: its containers and sidecars
// together, or one init container with the sidecars started before it, whichever is more, plus the
// overhead. Requests for the whole pod replace the sum over its containers.
// https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers
func requests(pod *corev1.Pod, nonZero bool) Resources {
	var sum, sidecars, peak Resources
	never := infeasible(pod)
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		sum.add(request(c, statusOf(pod.Status.ContainerStatuses, i, c.Name), never, nonZero), 1)
		sum.bound()
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if sidecar(c) {
			sidecars.add(request(c, statusOf(pod.Status.InitContainerStatuses, i, c.Name), never, nonZero), 1)
			sidecars.bound()
			peak.raise(sidecars)
			continue
		}
		with := sidecars.clone()
		with.add(request(c, nil, never, nonZero), 1)
		peak.raise(with)
	}
	sum.add(sidecars, 1)
	sum.raise(peak)
	if pod.Spec.Resources != nil {
		for name := range pod.Spec.Resources.Requests {
			sum.set(name, wholeRequest(pod, name, never))
		}
	}
	sum.add(resources(pod.Spec.Overhead), 1)
	sum.bound()
	return sum
}

// wholeRequest returns what a pod requests of name as a whole: the larger of the amount in its spec and
// those that its node has granted.
func wholeRequest(pod *corev1.Pod, name corev1.ResourceName, infeasible bool) resource.Quantity {
	most := pod.Spec.Resources.Requests[name]
	if pod.Status.Resources == nil {
		return most
	}
	if infeasible {
		most = resource.Quantity{}
	}
	for _, list := range []corev1.ResourceList{pod.Status.Resources.Requests, pod.Status.AllocatedResources} {
		if q, ok := list[name]; ok && q.Cmp(most) > 0 {
			most = q
		}
	}
	return most
}

func sidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}
