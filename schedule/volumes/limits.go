package volumes

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/planekit/planekit/internal/volumeclaim"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/schedule"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

var tooMany = schedule.Refuse("node(s) exceed max volume count")

// Limits refuses nodes that cannot attach the volumes of a pod beside those that they have: the node's
// CSINode limits the volumes of each CSI driver. A volume that several pods on a node use counts once. A
// claim without a volume counts for the driver that its class names.
func (c *Checker) Limits() schedule.Predicate {
	return check{name: "NodeVolumeLimits", concerns: attaches, prepare: c.prepareLimits, wakes: c.limitsWake}
}

// attaches reports whether a pod has volumes that may count.
func attaches(pod *corev1.Pod) bool {
	return hasVolume(pod, attachesVolume)
}

func attachesVolume(v *corev1.Volume) bool {
	return namesClaim(v) || v.Ephemeral != nil || isMigrated(v)
}

func (c *Checker) prepareLimits(p *schedule.PodInfo, _ schedule.Cluster) func(*schedule.NodeInfo) schedule.Verdict {
	if c.config.CSINodes == nil {
		return nil
	}
	wanted, err := c.attachable(p.Pod)
	if err != nil {
		// It happens if no predicate that is asked earlier looks at the claims.
		refused := schedule.RefuseAlways(err.Error())
		return func(*schedule.NodeInfo) schedule.Verdict { return refused }
	}
	if len(wanted) == 0 {
		return nil
	}
	byDriver := make(map[string]int64)
	for _, v := range wanted {
		byDriver[v.driver]++
	}
	return func(n *schedule.NodeInfo) schedule.Verdict {
		csi, ok := c.config.CSINodes.Get(n.Node.Name)
		if !ok || c.haveRoom(n, csi, byDriver) || c.attach(n, csi, wanted) {
			return schedule.Fits
		}
		return tooMany
	}
}

// haveRoom reports whether a node has room even if no two pods share a volume and all volumes are of one
// driver, which is the case on most nodes, and can be said without a look at the claims of their pods.
func (c *Checker) haveRoom(n *schedule.NodeInfo, csi *storagev1.CSINode, byDriver map[string]int64) bool {
	var most int64
	for _, other := range n.Pods {
		for i := range other.Pod.Spec.Volumes {
			if attachesVolume(&other.Pod.Spec.Volumes[i]) {
				most++
			}
		}
	}
	if c.config.AttachmentsByNode != nil {
		for range c.config.AttachmentsByNode.Get(n.Node.Name) {
			most++
		}
	}
	for driver, more := range byDriver {
		if limit, ok := limitOf(csi, driver); ok && most+more > limit {
			return false
		}
	}
	return true
}

// attach reports whether a node can attach volumes beside those that it has.
func (c *Checker) attach(n *schedule.NodeInfo, csi *storagev1.CSINode, wanted []volume) bool {
	used := c.used(n)
	counts, more := make(map[string]int64), make(map[string]int64)
	for v := range used {
		counts[v.driver]++
	}
	for v := range c.attached(n.Node.Name) {
		if !used[v] {
			counts[v.driver]++
		}
	}
	// One that is attached but not used counts twice, as for the kube-scheduler: it may be detached.
	for _, v := range wanted {
		if !used[v] {
			more[v.driver]++
		}
	}
	for driver, count := range more {
		if limit, ok := limitOf(csi, driver); ok && counts[driver]+count > limit {
			return false
		}
	}
	return true
}

// limitOf returns how many volumes of a driver a node can attach; ok is false if there is no limit.
func limitOf(csi *storagev1.CSINode, driver string) (limit int64, ok bool) {
	for i := range csi.Spec.Drivers {
		if d := &csi.Spec.Drivers[i]; d.Name == driver && d.Allocatable != nil && d.Allocatable.Count != nil {
			return int64(*d.Allocatable.Count), true
		}
	}
	return 0, false
}

// used returns the volumes of the pods on a node. A claim that is gone does not count, and neither does one
// that belongs to another pod.
func (c *Checker) used(n *schedule.NodeInfo) map[volume]bool {
	all := make(map[volume]bool)
	for _, other := range n.Pods {
		list, _ := c.attachable(other.Pod)
		for _, v := range list {
			all[v] = true
		}
	}
	return all
}

// attached returns the volumes that are attached to a node.
func (c *Checker) attached(node string) map[volume]bool {
	if c.config.AttachmentsByNode == nil {
		return nil
	}
	all := make(map[volume]bool)
	for a := range c.config.AttachmentsByNode.Get(node) {
		if name := a.Spec.Source.PersistentVolumeName; name != nil && a.Spec.Attacher != "" {
			if v, ok := c.config.Volumes.Get(*name); ok && v.Spec.CSI != nil {
				all[volume{driver: a.Spec.Attacher, handle: v.Spec.CSI.VolumeHandle}] = true
			}
		}
	}
	return all
}

// attachable returns the volumes of CSI drivers of a pod, each once, and the first error.
func (c *Checker) attachable(pod *corev1.Pod) (list []volume, first error) {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		found, ok := inline(v)
		if use, isClaim := volumeclaim.UseOf(pod, v); isClaim {
			var err error
			if found, ok, err = c.ofClaim(pod, use); err != nil && first == nil {
				first = err
			}
		}
		if ok && !slices.Contains(list, found) {
			list = append(list, found)
		}
	}
	return list, first
}

// ofClaim returns the volume of a claim that a pod uses; ok is false if it does not count.
func (c *Checker) ofClaim(pod *corev1.Pod, use volumeclaim.Use) (v volume, ok bool, err error) {
	claim, found := c.config.Claims.Get(localcache.Key(pod.Namespace, use.Claim))
	if !found {
		return v, false, fmt.Errorf("looking up PVC %s/%s: persistentvolumeclaim %q not found", pod.Namespace, use.Claim, use.Claim)
	}
	if use.Ephemeral {
		if err := volumeclaim.CheckOwner(pod, claim); err != nil {
			return v, false, err
		}
	}
	if name := claim.Spec.VolumeName; name != "" {
		if persistent, found := c.config.Volumes.Get(name); found {
			v, ok = ofPersistent(persistent)
			return v, ok, nil
		}
	}
	class, found := c.config.Classes.Get(volumeclaim.Class(claim))
	if !found {
		return v, false, nil
	}
	v.driver, ok = driverOf(class.Provisioner)
	v.claim = localcache.KeyOf(claim)
	return v, ok, nil
}

// limitsWake: limits that rise, volumes that leave with a pod or are detached or gone, and pods that come
// with a volume of the pod, which then counts no more. Like the kube-scheduler, it takes no notice of the
// claims of other pods, which do not change while they are used.
func (c *Checker) limitsWake(pod *corev1.Pod, e schedule.Event) bool {
	if old, now, ok := schedule.Changed[*storagev1.CSINode](e); ok {
		return now == nil || old == nil || rises(old, now)
	}
	if old, now, ok := schedule.Changed[*schedule.PodInfo](e); ok {
		return old != nil && attaches(old.Pod) || now != nil && c.shareVolume(pod, now.Pod)
	}
	if old, claim, ok := schedule.Changed[*corev1.PersistentVolumeClaim](e); ok {
		return uses(pod, cmp.Or(claim, old))
	}
	return isRemoval[*storagev1.VolumeAttachment](e) || isRemoval[*corev1.PersistentVolume](e) || isRemoval[*storagev1.StorageClass](e)
}

func isRemoval[T comparable](e schedule.Event) bool {
	var zero T
	old, now, _ := schedule.Changed[T](e)
	return old != zero && now == zero
}

// shareVolume reports whether two pods have a volume in common.
func (c *Checker) shareVolume(a, b *corev1.Pod) bool {
	if !attaches(a) || !attaches(b) {
		return false
	}
	mine, _ := c.attachable(a)
	theirs, _ := c.attachable(b)
	return slices.ContainsFunc(mine, func(v volume) bool { return slices.Contains(theirs, v) })
}

// rises reports whether any limit is higher now, or gone.
func rises(old, now *storagev1.CSINode) bool {
	for i := range old.Spec.Drivers {
		driver := old.Spec.Drivers[i].Name
		before, limited := limitOf(old, driver)
		if after, ok := limitOf(now, driver); limited && (!ok || after > before) {
			return true
		}
	}
	return false
}
