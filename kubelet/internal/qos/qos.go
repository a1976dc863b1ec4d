// Package qos computes what the quality of service of a pod means for the kernel: cgroup limits, and
// the order in which processes are killed when memory runs out.
package qos

import (
	"github.com/planekit/planekit/kubelet/internal/cgroup"
	corev1 "k8s.io/api/core/v1"
)

// Class returns the pod's quality of service: Guaranteed if every container has equal requests
// and limits of cpu and memory, BestEffort if none has any, otherwise Burstable. Of a pod that has
// resources as a whole, only those count.
// https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/
func Class(pod *corev1.Pod) corev1.PodQOSClass {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass
	}
	guaranteed, bestEffort := true, true
	add := func(r *corev1.ResourceRequirements) {
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
	if own := pod.Spec.Resources; own != nil {
		add(own)
	} else {
		for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range list {
				add(&list[i].Resources)
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

// Values of the cgroup cpu controller. Quotas and the period are in microseconds.
const (
	MinShares = 2
	maxShares = 262144
	CPUPeriod = cgroup.Period
	minQuota  = 1000 // microseconds
)

// CPUShares converts thousandths of a cpu to a relative weight.
func CPUShares(milli int64) int64 {
	return min(max(milli*1024/1000, MinShares), maxShares)
}

// CPUQuota converts thousandths of a cpu to microseconds of cpu time per period. Zero means no
// limit.
func CPUQuota(milli int64) int64 {
	if milli <= 0 {
		return 0
	}
	return max(milli*CPUPeriod/1000, minQuota)
}

// MilliOfShares converts a weight back to thousandths of a cpu, rounded up. It returns zero if there is
// no weight.
func MilliOfShares(shares int64) int64 {
	if shares <= 0 {
		return 0
	}
	return (min(shares, maxShares)*1000 + 1023) / 1024
}

// MilliOfQuota converts a quota of cpu time in each period back to thousandths of a cpu. It returns
// zero if there is no limit.
func MilliOfQuota(quota, period int64) int64 {
	if quota <= 0 || period <= 0 {
		return 0
	}
	return min(quota, 1<<50) * 1000 / period
}
