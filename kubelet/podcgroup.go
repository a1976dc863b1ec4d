package kubelet

import (
	"errors"
	"path/filepath"

	"github.com/planekit/planekit/kubelet/internal/cgroup"
	corev1 "k8s.io/api/core/v1"
)

// podLimits returns the sums over a pod's containers. A pod has a limit only if all its containers
// have one.
func podLimits(pod *corev1.Pod) cgroup.Limits {
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
	l := cgroup.Limits{Shares: cpuShares(cpu)}
	if qosClass(pod) == corev1.PodQOSBestEffort {
		l.Shares = minShares
	}
	// Init containers may use more than the main containers, so set no limit here.
	if cpuLimited && len(pod.Spec.InitContainers) == 0 {
		l.Quota = cpuQuota(cpuLimit)
	}
	if memoryLimited && len(pod.Spec.InitContainers) == 0 {
		l.Memory = memory
	}
	return l
}

// classes maps QoS classes to their cgroups below the root.
var classes = map[corev1.PodQOSClass]string{
	corev1.PodQOSGuaranteed: "", corev1.PodQOSBurstable: "burstable", corev1.PodQOSBestEffort: "besteffort",
}

// podCgroup returns the cgroup of a pod, such as /kubepods/burstable/podUID; empty if pods have
// none.
func (k *Kubelet) podCgroup(pod *corev1.Pod) string {
	if k.config.CgroupRoot == "" {
		return ""
	}
	return filepath.Join(k.config.CgroupRoot, classes[qosClass(pod)], "pod"+string(pod.UID))
}

// makePodCgroup creates the cgroup of a pod's sandbox and containers.
func (k *Kubelet) makePodCgroup(pod *corev1.Pod) error {
	if k.config.CgroupRoot == "" {
		return nil
	}
	if qosClass(pod) == corev1.PodQOSBestEffort {
		if err := k.cgroups.Create(filepath.Join(k.config.CgroupRoot, "besteffort"), cgroup.Limits{Shares: minShares}); err != nil {
			return err
		}
	}
	return k.cgroups.Create(k.podCgroup(pod), podLimits(pod))
}

// removePodCgroups removes a pod's cgroup in every class, and kills the processes in it, as upstream's
// kubelet does.
func (k *Kubelet) removePodCgroups(uid podUID) error {
	if k.config.CgroupRoot == "" {
		return nil
	}
	var errs []error
	for _, class := range classes {
		path := filepath.Join(k.config.CgroupRoot, class, "pod"+string(uid))
		errs = append(errs, k.cgroups.Kill(path), k.cgroups.Remove(path))
	}
	return errors.Join(errs...)
}
