package qos

import (
	"strings"

	"github.com/planekit/planekit/internal/usage"
	"github.com/planekit/planekit/kubelet/internal/cgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Limits returns the limits of a pod's cgroup: those of the pod as a whole, or else the most that its
// containers may use at any time, and its overhead in addition. Without limits of its own, a pod has a
// limit only if all its containers have one.
func Limits(pod *corev1.Pod) cgroup.Limits {
	l := cgroup.Limits{Shares: MinShares}
	if Class(pod) == corev1.PodQOSBestEffort {
		return l
	}
	l.Shares = CPUShares(milli(requests(pod)[corev1.ResourceCPU]))
	if q, ok := limit(pod, corev1.ResourceCPU); ok {
		l.Quota = CPUQuota(milli(q))
	}
	if q, ok := limit(pod, corev1.ResourceMemory); ok {
		l.Memory = q.Value()
	}
	return l
}

// BurstableShares returns the shares of the cgroup of all burstable pods: what those among pods request
// together.
func BurstableShares(pods []*corev1.Pod) int64 {
	var sum int64
	for _, pod := range pods {
		if Class(pod) == corev1.PodQOSBurstable {
			sum += milli(requests(pod)[corev1.ResourceCPU])
		}
	}
	return CPUShares(min(sum, maxMilli))
}

// maxMilli is more cpu than shares can express, in thousandths.
const maxMilli = int64(1) << 40

// milli returns thousandths of a cpu, at most maxMilli.
func milli(q resource.Quantity) int64 {
	if q.Value() > maxMilli/1000 {
		return maxMilli
	}
	return q.MilliValue()
}

// HugePages returns the bytes of huge pages that a pod may use, by size.
func HugePages(pod *corev1.Pod) map[int64]int64 { return HugePagesOf(requests(pod)) }

// HugePagesOf returns the bytes of huge pages in a list of resources, by size.
func HugePagesOf(list corev1.ResourceList) map[int64]int64 {
	bytes := map[int64]int64{}
	for name, q := range list {
		if text, ok := strings.CutPrefix(string(name), corev1.ResourceHugePagesPrefix); ok {
			if size, err := resource.ParseQuantity(text); err == nil {
				bytes[size.Value()] += max(q.Value(), 0)
			}
		}
	}
	return bytes
}

// bare returns a pod without its status: the limits of its cgroup follow its allocated size.
func bare(pod *corev1.Pod) *corev1.Pod {
	out := *pod
	out.Status = corev1.PodStatus{}
	return &out
}

// requests returns what a pod requests by its spec, with its overhead.
func requests(pod *corev1.Pod) corev1.ResourceList { return usage.Requests(bare(pod)) }

// limit returns the limit of a pod for a resource, and whether it has one. A sidecar, and an init
// container, counts with the sidecars before it: if these have a limit, it has one too, as in
// Kubernetes.
func limit(pod *corev1.Pod, name corev1.ResourceName) (resource.Quantity, bool) {
	declared := true
	var sidecars resource.Quantity
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		with := sidecars.DeepCopy()
		with.Add(c.Resources.Limits[name])
		declared = declared && !with.IsZero()
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecars = with
		}
	}
	for i := range pod.Spec.Containers {
		q := pod.Spec.Containers[i].Resources.Limits[name]
		declared = declared && !q.IsZero()
	}
	if own := pod.Spec.Resources; own != nil {
		q := own.Limits[name]
		declared = declared || !q.IsZero()
	}
	sum := usage.Limits(bare(pod))[name]
	return sum, declared && !sum.IsZero()
}
