// Package volumes keeps pods off nodes that cannot have their volumes: the plugins VolumeRestrictions,
// NodeVolumeLimits and VolumeZone of the kube-scheduler.
//
//	checks, err := volumes.New(volumes.Config{Claims: claims, Volumes: persistent, Classes: classes, ...})
//	config := schedule.Config{
//		Predicates: append([]schedule.Predicate{
//			checks.Restrictions(), checks.Limits(), binder, checks.Zone(),
//		}, predicates.Default()...),
//		Sources: checks.Sources(),
//		...
//	}
//
// In this order, with a Binder of package volumebinding, a node is refused for the same reason as by the
// kube-scheduler: what concerns all nodes, such as a claim that does not exist, comes first, and what
// depends on other pods and on volumes comes after the predicates that look at the node alone.
//
// A volume of a disk type that Kubernetes has moved to a CSI driver (AWS EBS, GCE PD, Azure disk, Cinder,
// Portworx) counts as one of that driver, because kubelets pass it on to it.
package volumes

import (
	"errors"
	"iter"

	"github.com/planekit/planekit/internal/volumeclaim"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/schedule"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// Config configures a Checker. Claims, Volumes and Classes are required.
type Config struct {
	Claims  localcache.ReadSubscriber[*corev1.PersistentVolumeClaim]
	Volumes localcache.ReadSubscriber[*corev1.PersistentVolume]
	Classes localcache.ReadSubscriber[*storagev1.StorageClass]
	// CSINodes say how many volumes of a driver a node can have. Nil means that there is no limit.
	CSINodes localcache.ReadSubscriber[*storagev1.CSINode]
	// Attachments are the volumes that are attached to nodes, which count also if no pod on the node uses
	// them, and AttachmentsByNode finds them by the name of the node. Both or none must be set. Nil means
	// that only the volumes of pods count.
	Attachments       localcache.ReadSubscriber[*storagev1.VolumeAttachment]
	AttachmentsByNode localcache.Index[string, *storagev1.VolumeAttachment]
}

// Checker makes predicates about volumes. It is safe for concurrent use.
type Checker struct{ config Config }

// New returns a Checker, or an error if config is invalid.
func New(config Config) (*Checker, error) {
	if config.Claims == nil || config.Volumes == nil || config.Classes == nil {
		return nil, errors.New("volumes: Claims, Volumes and Classes must be set")
	}
	if (config.Attachments == nil) != (config.AttachmentsByNode == nil) {
		return nil, errors.New("volumes: Attachments and AttachmentsByNode must be set together")
	}
	return &Checker{config}, nil
}

// Sources returns the sources of the events that wake pods. A Binder with the same caches needs no others.
func (c *Checker) Sources() []schedule.Source {
	list := []schedule.Source{schedule.Changes(c.config.Claims), schedule.Changes(c.config.Volumes), schedule.Changes(c.config.Classes)}
	if c.config.CSINodes != nil {
		list = append(list, schedule.Changes(c.config.CSINodes))
	}
	if c.config.Attachments != nil {
		list = append(list, schedule.Changes(c.config.Attachments))
	}
	return list
}

// check is a predicate about the volumes of a pod.
type check struct {
	name string
	// concerns reports whether any verdict depends on the pod's volumes.
	concerns func(*corev1.Pod) bool
	// refuseAll returns why the pod fits no node, or ""; nil means that there is no such reason.
	refuseAll func(*corev1.Pod) string
	prepare   func(*schedule.PodInfo, schedule.Cluster) func(*schedule.NodeInfo) schedule.Verdict
	wakes     func(*corev1.Pod, schedule.Event) bool
}

// Name implements [schedule.Predicate].
func (c check) Name() string { return c.name }

// Filter implements [schedule.Predicate]. It says what holds for all nodes.
func (c check) Filter(p *schedule.PodInfo, n *schedule.NodeInfo) schedule.Verdict {
	if f := c.Compile(p); f != nil {
		return f(n)
	}
	return schedule.Fits
}

// Compile implements [schedule.Compiler]. The function reads the caches each time, because it is also
// called after they have changed.
func (c check) Compile(p *schedule.PodInfo) func(*schedule.NodeInfo) schedule.Verdict {
	if c.refuseAll == nil || !c.concerns(p.Pod) {
		return nil
	}
	return func(*schedule.NodeInfo) schedule.Verdict {
		if reason := c.refuseAll(p.Pod); reason != "" {
			return schedule.RefuseAll(reason)
		}
		return schedule.Fits
	}
}

// Prepare implements [schedule.Preparer].
func (c check) Prepare(p *schedule.PodInfo, cluster schedule.Cluster) func(*schedule.NodeInfo) schedule.Verdict {
	if !c.concerns(p.Pod) {
		return nil
	}
	return c.prepare(p, cluster)
}

// Wakes implements [schedule.Waker].
func (c check) Wakes(p *schedule.PodInfo, e schedule.Event) bool { return c.wakes(p.Pod, e) }

// claims yields the names of the claims that a pod names, which excludes those of ephemeral volumes.
func claims(pod *corev1.Pod) iter.Seq[string] {
	return func(yield func(string) bool) {
		for u := range volumeclaim.Uses(pod) {
			if !u.Ephemeral && !yield(u.Claim) {
				return
			}
		}
	}
}

// names reports whether a pod names a claim.
func names(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	for name := range claims(pod) {
		if claim.Namespace == pod.Namespace && claim.Name == name {
			return true
		}
	}
	return false
}

// hasVolume reports whether any volume of a pod is of a kind.
func hasVolume(pod *corev1.Pod, is func(*corev1.Volume) bool) bool {
	for i := range pod.Spec.Volumes {
		if is(&pod.Spec.Volumes[i]) {
			return true
		}
	}
	return false
}

// namesClaim reports whether a volume of a pod names a claim.
func namesClaim(v *corev1.Volume) bool { return v.PersistentVolumeClaim != nil }

// uses reports whether a pod uses a claim, by its name or as an ephemeral volume.
func uses(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	for u := range volumeclaim.Uses(pod) {
		if claim.Namespace == pod.Namespace && claim.Name == u.Claim {
			return true
		}
	}
	return false
}
