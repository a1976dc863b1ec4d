package volumes

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/schedule"
	corev1 "k8s.io/api/core/v1"
)

var (
	diskInUse = schedule.Refuse("node(s) had no available disk")
	// claimInUse holds for all nodes, but the pod that has the claim can be preempted where it runs.
	claimInUse = schedule.Refuse("node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod")
)

// Restrictions refuses nodes with a pod that has a disk of the new pod: one of AWS EBS at all, and one of
// GCE PD, iSCSI or Ceph RBD unless both only read it. It refuses all nodes if any pod has a claim of the
// new pod with the access mode ReadWriteOncePod.
func (c *Checker) Restrictions() schedule.Predicate {
	return check{
		name: "VolumeRestrictions",
		concerns: func(pod *corev1.Pod) bool {
			return hasVolume(pod, func(v *corev1.Volume) bool { return namesClaim(v) || isDisk(v) })
		},
		refuseAll: c.missingClaim,
		prepare:   c.prepareRestrictions,
		wakes:     restrictionsWake,
	}
}

// missingClaim returns the reason that a claim that the pod names does not exist, or "".
func (c *Checker) missingClaim(pod *corev1.Pod) string {
	for name := range claims(pod) {
		if _, ok := c.config.Claims.Get(localcache.Key(pod.Namespace, name)); !ok {
			return fmt.Sprintf("persistentvolumeclaim %q not found", name)
		}
	}
	return ""
}

func (c *Checker) prepareRestrictions(p *schedule.PodInfo, cluster schedule.Cluster) func(*schedule.NodeInfo) schedule.Verdict {
	disks := hasVolume(p.Pod, isDisk)
	taken := c.takenByOther(p.Pod, cluster)
	if !disks && !taken {
		return nil
	}
	return func(n *schedule.NodeInfo) schedule.Verdict {
		if disks {
			for _, other := range n.Pods {
				if shareDisk(p.Pod, other.Pod) {
					return diskInUse
				}
			}
		}
		if taken {
			return claimInUse
		}
		return schedule.Fits
	}
}

// takenByOther reports whether any pod on a node uses a claim of a pod that is for one pod only.
func (c *Checker) takenByOther(pod *corev1.Pod, cluster schedule.Cluster) bool {
	var exclusive []*corev1.PersistentVolumeClaim
	for name := range claims(pod) {
		claim, ok := c.config.Claims.Get(localcache.Key(pod.Namespace, name))
		if ok && slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod) {
			exclusive = append(exclusive, claim)
		}
	}
	if exclusive == nil {
		return false
	}
	for n := range cluster.Nodes() {
		for _, other := range n.Pods {
			if slices.ContainsFunc(exclusive, func(claim *corev1.PersistentVolumeClaim) bool { return names(other.Pod, claim) }) {
				return true
			}
		}
	}
	return false
}

// restrictionsWake: pods that leave with a disk or claim of the pod, and a claim that the pod names.
func restrictionsWake(pod *corev1.Pod, e schedule.Event) bool {
	if old, _, _ := schedule.Changed[*schedule.PodInfo](e); old != nil {
		return shareDisk(pod, old.Pod) || shareClaim(pod, old.Pod)
	}
	old, claim, ok := schedule.Changed[*corev1.PersistentVolumeClaim](e)
	return ok && names(pod, cmp.Or(claim, old))
}

func shareClaim(a, b *corev1.Pod) bool {
	theirs := slices.Collect(claims(b))
	for name := range claims(a) {
		if a.Namespace == b.Namespace && slices.Contains(theirs, name) {
			return true
		}
	}
	return false
}

func isDisk(v *corev1.Volume) bool {
	return v.GCEPersistentDisk != nil || v.AWSElasticBlockStore != nil || v.RBD != nil || v.ISCSI != nil
}

// shareDisk reports whether two pods want a disk that only one of them can have.
func shareDisk(a, b *corev1.Pod) bool {
	for i := range a.Spec.Volumes {
		if !isDisk(&a.Spec.Volumes[i]) {
			continue
		}
		for j := range b.Spec.Volumes {
			if sameDisk(&a.Spec.Volumes[i], &b.Spec.Volumes[j]) {
				return true
			}
		}
	}
	return false
}

// sameDisk reports whether two volumes are one disk, and not both of them only read it where that helps.
func sameDisk(a, b *corev1.Volume) bool {
	switch {
	case a.GCEPersistentDisk != nil && b.GCEPersistentDisk != nil:
		x, y := a.GCEPersistentDisk, b.GCEPersistentDisk
		return x.PDName == y.PDName && !(x.ReadOnly && y.ReadOnly)
	case a.AWSElasticBlockStore != nil && b.AWSElasticBlockStore != nil:
		return a.AWSElasticBlockStore.VolumeID == b.AWSElasticBlockStore.VolumeID
	case a.ISCSI != nil && b.ISCSI != nil:
		x, y := a.ISCSI, b.ISCSI
		return x.IQN == y.IQN && !(x.ReadOnly && y.ReadOnly)
	case a.RBD != nil && b.RBD != nil:
		x, y := a.RBD, b.RBD
		sameMonitor := slices.ContainsFunc(x.CephMonitors, func(m string) bool { return slices.Contains(y.CephMonitors, m) })
		return sameMonitor && x.RBDPool == y.RBDPool && x.RBDImage == y.RBDImage && !(x.ReadOnly && y.ReadOnly)
	}
	return false
}
