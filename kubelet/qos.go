package kubelet

import (
	"github.com/planekit/planekit/kubelet/internal/cgroup"
	corev1 "k8s.io/api/core/v1"
)

// qosClass returns the pod's quality of service: Guaranteed if every container has equal requests
// and limits of cpu and memory, BestEffort if none has any, otherwise Burstable.
// https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/
func qosClass(pod *corev1.Pod) corev1.PodQOSClass {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass
	}
	guaranteed, bestEffort := true, true
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			r := &list[i].Resources
			for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
				limit, limited := r.Limits[name]
				request, requested := r.Requests[name]
				if limited && !limit.IsZero() || requested && !request.IsZero() {
					bestEffort = false
				}
				if !limited || limit.IsZero() || requested && request.Cmp(limit) != 0 {
					guaranteed = false
				}
			}
		}
	}
	switch {
	case bestEffort:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}

// oomScoreAdj returns the priority with which the kernel kills a container when memory runs out:
// -997 for Guaranteed, 1000 for BestEffort, and in between the lower, the more memory it requests.
func oomScoreAdj(class corev1.PodQOSClass, request, capacity int64) int64 {
	switch class {
	case corev1.PodQOSGuaranteed:
		return -997
	case corev1.PodQOSBestEffort:
		return 1000
	}
	if capacity <= 0 {
		return 999
	}
	return min(max(1000-1000*request/capacity, 3), 999)
}

// Values of the cgroup cpu controller.
const (
	minShares = 2
	maxShares = 262144
	cpuPeriod = cgroup.Period
	minQuota  = 1000 // microseconds
)

// cpuShares converts thousandths of a cpu to a relative weight.
func cpuShares(milli int64) int64 {
	return min(max(milli*1024/1000, minShares), maxShares)
}

// cpuQuota converts thousandths of a cpu to microseconds of cpu time per period. Zero means no
// limit.
func cpuQuota(milli int64) int64 {
	if milli <= 0 {
		return 0
	}
	return max(milli*cpuPeriod/1000, minQuota)
}
