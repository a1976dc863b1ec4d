package eviction

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Reserved returns the part of a node's capacity that pods never get to use, because they would be
// evicted at once: what the hard thresholds of memory and of the pods' file system keep.
func Reserved(thresholds []Threshold, capacity corev1.ResourceList) corev1.ResourceList {
	reserved := corev1.ResourceList{}
	for _, t := range thresholds {
		name := signals[t.Signal].resource
		if has, ok := capacity[name]; ok && t.Grace == 0 && (t.Signal == MemoryAvailable || t.Signal == NodeFSAvailable) {
			reserved[name] = *resource.NewQuantity(t.Minimum.of(has.Value()), resource.BinarySI)
		}
	}
	return reserved
}
