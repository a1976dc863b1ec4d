package admission

import (
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Amounts holds amounts of resources: thousandths of a cpu, and all others in their own units.
type Amounts map[corev1.ResourceName]int64

// Shortage says that a node has too little of a resource. The numbers are those of [Amounts].
type Shortage struct {
	Resource                  corev1.ResourceName
	Requested, Used, Capacity int64
}

// Missing returns how much is missing.
func (s Shortage) Missing() int64 { return s.Requested - (s.Capacity - s.Used) }

// String returns the message of a refusal.
func (s Shortage) String() string {
	return fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d", s.Resource, s.Requested, s.Used, s.Capacity)
}

// core are the resources that are compared first, in this order.
var core = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}

// Fits returns the resources that pod lacks on a node that has allocatable and runs others; none
// means that it fits. A resource that pod does not request is never short, even on an overcommitted
// node. Extended resources that the node does not know are not its own to count.
func Fits(pod *corev1.Pod, others []*corev1.Pod, allocatable corev1.ResourceList) []Shortage {
	var short []Shortage
	room := allocatable.Pods().Value()
	if n := int64(len(others)); n+1 > room {
		short = append(short, Shortage{corev1.ResourcePods, 1, n, room})
	}
	wanted := Requests(pod)
	used := Amounts{}
	for _, p := range others {
		used.add(Requests(p))
	}
	for _, name := range sortedNames(wanted) {
		if !slices.Contains(core, name) && !counted(name, allocatable) {
			continue
		}
		has := allocatable[name]
		capacity := amount(name, has)
		if n := wanted[name]; n > 0 && n > capacity-used[name] {
			short = append(short, Shortage{name, n, used[name], capacity})
		}
	}
	return short
}

// counted reports whether a node counts a resource other than the core ones.
func counted(name corev1.ResourceName, allocatable corev1.ResourceList) bool {
	if Extended(name) {
		_, known := allocatable[name]
		return known
	}
	return strings.Contains(string(name), "/") || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) ||
		strings.HasPrefix(string(name), corev1.ResourceAttachableVolumesPrefix)
}

// Extended reports whether a resource is an extended one, which is not Kubernetes' own.
func Extended(name corev1.ResourceName) bool {
	s := string(name)
	return strings.Contains(s, "/") && !strings.Contains(s, corev1.ResourceDefaultNamespacePrefix) &&
		!strings.HasPrefix(s, corev1.DefaultResourceRequestsPrefix)
}

// Requests returns the most that a pod needs at any time: its containers and sidecars together, or
// one init container with the sidecars started before it, whichever is more. Requests of the pod as
// a whole replace the sum over its containers. Its overhead is added.
// https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers
func Requests(pod *corev1.Pod) Amounts {
	sum, sidecars, peak := Amounts{}, Amounts{}, Amounts{}
	for i := range pod.Spec.Containers {
		sum.add(amounts(pod.Spec.Containers[i].Resources.Requests))
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		own := amounts(c.Resources.Requests)
		if sidecar(c) {
			sidecars.add(own)
			peak.raise(sidecars)
			continue
		}
		own.add(sidecars)
		peak.raise(own)
	}
	sum.add(sidecars)
	sum.raise(peak)
	if own := pod.Spec.Resources; own != nil {
		for name, q := range own.Requests {
			if name == corev1.ResourceCPU || name == corev1.ResourceMemory || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
				sum[name] = amount(name, q)
			}
		}
	}
	sum.add(amounts(pod.Spec.Overhead))
	return sum
}

func sidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

func amounts(list corev1.ResourceList) Amounts {
	a := Amounts{}
	for name, q := range list {
		a[name] = amount(name, q)
	}
	return a
}

// amount returns a quantity in the unit of [Amounts]. More than an int64 holds is its maximum.
func amount(name corev1.ResourceName, q resource.Quantity) int64 {
	most := int64(math.MaxInt64)
	if name == corev1.ResourceCPU {
		most /= 1000
	}
	switch {
	case q.CmpInt64(most) > 0: // of which Value may return 0
		return math.MaxInt64
	case name == corev1.ResourceCPU:
		return q.MilliValue()
	}
	return q.Value()
}

// add adds b to a. A sum that an int64 cannot hold is its maximum, so that no pod fits by overflow.
func (a Amounts) add(b Amounts) {
	for name, n := range b {
		if n > 0 && a[name] > math.MaxInt64-n {
			a[name] = math.MaxInt64
			continue
		}
		a[name] += n
	}
}

// raise raises a to at least b.
func (a Amounts) raise(b Amounts) {
	for name, n := range b {
		a[name] = max(a[name], n)
	}
}
