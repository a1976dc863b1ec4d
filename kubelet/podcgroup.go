package kubelet

import (
	"errors"
	"path/filepath"

	"github.com/planekit/planekit/kubelet/internal/cgroup"
	"github.com/planekit/planekit/kubelet/internal/qos"
	corev1 "k8s.io/api/core/v1"
)

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
	return filepath.Join(k.config.CgroupRoot, classes[qos.Class(pod)], "pod"+string(pod.UID))
}

// makePodCgroup creates the cgroup of a pod's sandbox and containers.
func (k *Kubelet) makePodCgroup(pod *corev1.Pod) error {
	if k.config.CgroupRoot == "" {
		return nil
	}
	if qos.Class(pod) == corev1.PodQOSBestEffort {
		if err := k.cgroups.Create(filepath.Join(k.config.CgroupRoot, "besteffort"), cgroup.Limits{Shares: qos.MinShares}); err != nil {
			return err
		}
	}
	limits := qos.Limits(pod)
	if err := k.cgroups.Create(k.podCgroup(pod), limits); err != nil {
		return err
	}
	k.allocations.SetCgroup(pod.UID, limits)
	return nil
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
