package legacy

import (
	"github.com/planekit/planekit/schedule"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// ResourceLimits gives the score 1 to nodes that have as much CPU or as much memory as a pod's limits, and 0
// to others, so that it decides only between nodes that are otherwise equal. A pod without limits likes all
// nodes the same.
func ResourceLimits() schedule.Priority {
	return survey{"NodeResourceLimits", func(p *schedule.PodInfo, _ schedule.Cluster, _ []*schedule.NodeInfo) func(*schedule.NodeInfo) int64 {
		cpu, memory := limitOf(&p.Pod.Spec, corev1.ResourceCPU), limitOf(&p.Pod.Spec, corev1.ResourceMemory)
		if cpu.IsZero() && memory.IsZero() {
			return nil
		}
		return func(n *schedule.NodeInfo) int64 {
			if within(cpu, resource.NewMilliQuantity(n.Allocatable.MilliCPU, resource.DecimalSI)) ||
				within(memory, resource.NewQuantity(n.Allocatable.Memory, resource.BinarySI)) {
				return 1
			}
			return 0
		}
	}}
}

// within reports whether a limit that is set is not more than a node has.
func within(limit, all *resource.Quantity) bool { return !limit.IsZero() && limit.Cmp(*all) <= 0 }

// limitOf returns the limits of all containers of a pod together, or that of an init container if it is more.
func limitOf(spec *corev1.PodSpec, name corev1.ResourceName) *resource.Quantity {
	sum := &resource.Quantity{}
	for i := range spec.Containers {
		sum.Add(spec.Containers[i].Resources.Limits[name])
	}
	for i := range spec.InitContainers {
		if q := spec.InitContainers[i].Resources.Limits[name]; q.Cmp(*sum) > 0 {
			*sum = q.DeepCopy()
		}
	}
	return sum
}
