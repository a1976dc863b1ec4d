package eviction

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// criticalPriority is the lowest priority of the classes system-cluster-critical and
// system-node-critical.
const criticalPriority = 2_000_000_000

// configSource marks pods that do not come from the API server.
const configSource = "kubernetes.io/config.source"

// Critical reports whether a pod is never evicted: a static pod, or one of a critical priority. In
// a pod from the API, which has a resourceVersion, the mark of a static pod does not count, because
// any client can set it.
func Critical(pod *corev1.Pod) bool {
	if source := pod.Annotations[configSource]; source != "" && source != "api" && pod.ResourceVersion == "" {
		return true
	}
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return true
	}
	return pod.Spec.Priority != nil && *pod.Spec.Priority >= criticalPriority
}

// Usage holds the usage of one pod. What is not known is zero.
type Usage struct {
	Pod *corev1.Pod
	// Memory is the working set, in bytes.
	Memory int64
	// Storage is the local storage of the pod in bytes, and Inodes the number of files: writable
	// layers, logs, and volumes on the node's disk.
	Storage, Inodes int64
	// Processes is the number of processes and threads.
	Processes int64
	// Containers holds the usage of containers by name.
	Containers map[string]ContainerUsage
	// Volumes holds the bytes in emptyDir volumes by name.
	Volumes map[string]int64
}

// ContainerUsage holds the usage of one container, in bytes. Storage is its writable layer and its logs.
type ContainerUsage struct{ Memory, Storage int64 }

// Rank returns the pods in the order in which they are evicted for a signal, without critical ones.
// Pods that use more than they have requested come first, then those of a lower priority, then those
// that exceed their requests by more.
func Rank(signal Signal, pods []Usage) []Usage {
	list := slices.DeleteFunc(slices.Clone(pods), func(u Usage) bool { return Critical(u.Pod) })
	used := usedOf[signals[signal].resource]
	name := signals[signal].resource
	excess := func(u Usage) int64 { return used(u) - requested(u.Pod, name) }
	slices.SortStableFunc(list, func(a, b Usage) int {
		first := 0
		if name != processes { // they cannot be requested
			first = compareFlags(excess(b) > 0, excess(a) > 0)
		}
		return cmp.Or(first, cmp.Compare(priority(a.Pod), priority(b.Pod)), cmp.Compare(excess(b), excess(a)))
	})
	return list
}

var usedOf = map[corev1.ResourceName]func(Usage) int64{
	corev1.ResourceMemory:           func(u Usage) int64 { return u.Memory },
	corev1.ResourceEphemeralStorage: func(u Usage) int64 { return u.Storage },
	inodes:                          func(u Usage) int64 { return u.Inodes },
	processes:                       func(u Usage) int64 { return u.Processes },
}

func compareFlags(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

func priority(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// requested returns the sum of the requests of a pod's containers. Init containers may request more,
// and count as much as they do.
func requested(pod *corev1.Pod, name corev1.ResourceName) int64 {
	return podSum(pod, name, func(c *corev1.Container) corev1.ResourceList { return c.Resources.Requests })
}

func podSum(pod *corev1.Pod, name corev1.ResourceName, of func(*corev1.Container) corev1.ResourceList) int64 {
	var sum, sidecars, most int64
	for i := range pod.Spec.Containers {
		sum += value(of(&pod.Spec.Containers[i]), name)
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		n := value(of(c), name)
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecars += n
			n = 0
		}
		most = max(most, sidecars+n)
	}
	return max(sum+sidecars, most) + value(pod.Spec.Overhead, name)
}

func value(list corev1.ResourceList, name corev1.ResourceName) int64 {
	q, ok := list[name]
	if !ok {
		q = resource.Quantity{}
	}
	return q.Value()
}
