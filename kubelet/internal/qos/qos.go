// Package qos computes what the quality of service of a pod means for the kernel: cgroup limits, and
// the order in which processes are killed when memory runs out.
package qos

import (
	"github.com/planekit/planekit/kubelet/internal/cgroup"
	corev1 "k8s.io/api/core/v1"
)

// Class returns the pod's quality of service: Guaranteed if every container has equal requests
// and limits of cpu and memory, BestEffort if none has any, otherwise Burstable.
// https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/
func Class(pod *corev1.Pod) corev1.PodQOSClass {
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

// OOMScoreAdj returns the priority with which the kernel kills a container when memory runs out:
// -997 for Guaranteed, 1000 for BestEffort, and in between the lower, the more memory it requests.
func OOMScoreAdj(class corev1.PodQOSClass, request, capacity int64) int64 {
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

// Limits returns the limits of a pod's cgroup: those of the pod as a whole, or else the sums over its
// containers, and its overhead in addition. Without limits of its own, a pod has a limit only if all
// its containers have one.
func Limits(pod *corev1.Pod) cgroup.Limits {
	var cpu, cpuLimit, memory int64
	cpuLimited, memoryLimited := true, true
	for i := range pod.Spec.Containers {
		r := &pod.Spec.Containers[i].Resources
		cpu += r.Requests.Cpu().MilliValue()
		cpuLimit += r.Limits.Cpu().MilliValue()
		memory += r.Limits.Memory().Value()
		cpuLimited = cpuLimited && !r.Limits.Cpu().IsZero()
		memoryLimited = memoryLimited && !r.Limits.Memory().IsZero()
	}
	// Init containers may use more than the main containers, so set no limit for them.
	cpuLimited, memoryLimited = cpuLimited && len(pod.Spec.InitContainers) == 0, memoryLimited && len(pod.Spec.InitContainers) == 0
	if own := pod.Spec.Resources; own != nil {
		if q, ok := own.Requests[corev1.ResourceCPU]; ok {
			cpu = q.MilliValue()
		}
		if q, ok := own.Limits[corev1.ResourceCPU]; ok {
			cpuLimit, cpuLimited = q.MilliValue(), true
		}
		if q, ok := own.Limits[corev1.ResourceMemory]; ok {
			memory, memoryLimited = q.Value(), true
		}
	}
	l := cgroup.Limits{Shares: CPUShares(cpu + pod.Spec.Overhead.Cpu().MilliValue())}
	if Class(pod) == corev1.PodQOSBestEffort {
		l.Shares = MinShares
	}
	if cpuLimited {
		l.Quota = CPUQuota(cpuLimit + pod.Spec.Overhead.Cpu().MilliValue())
	}
	if memoryLimited {
		l.Memory = memory + pod.Spec.Overhead.Memory().Value()
	}
	return l
}
