package kubelet

import (
	corev1 "k8s.io/api/core/v1"
)

// qosClass is the pod's quality of service: Guaranteed when every container has
// equal requests and limits of cpu and memory, BestEffort when none has any,
// else Burstable.
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

// oomScoreAdj says how readily the kernel is to kill a container when memory
// runs out: -997 for Guaranteed, 1000 for BestEffort, and in between the less
// the more memory it asked for.
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

// Figures of the cgroup cpu controller.
const (
	minShares = 2
	maxShares = 262144
	cpuPeriod = 100000 // microseconds
	minQuota  = 1000   // microseconds
)

// cpuShares is the relative weight of so many thousandths of a cpu.
func cpuShares(milli int64) int64 {
	return min(max(milli*1024/1000, minShares), maxShares)
}

// cpuQuota is the microseconds of cpu time in one period that so many
// thousandths of a cpu are; zero for none is no limit.
func cpuQuota(milli int64) int64 {
	if milli <= 0 {
		return 0
	}
	return max(milli*cpuPeriod/1000, minQuota)
}
