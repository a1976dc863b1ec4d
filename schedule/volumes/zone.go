package volumes

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/planekit/planekit/internal/volumeclaim"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/schedule"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// zoneSeparator is between the zones in a label of a volume that is in several.
const zoneSeparator = "__"

var outOfZone = schedule.RefuseAlways("node(s) had no available volume zone")

// topologyLabels are the labels that are compared. A node has the new label for each old one.
var topologyLabels = []struct{ old, label string }{
	{corev1.LabelFailureDomainBetaZone, corev1.LabelTopologyZone},
	{corev1.LabelFailureDomainBetaRegion, corev1.LabelTopologyRegion},
	{"", corev1.LabelTopologyZone},
	{"", corev1.LabelTopologyRegion},
}

// Zone refuses nodes in another zone or region than the volumes of a pod. A volume names its zones and
// regions by labels, and one without these labels is everywhere. A node without any such label may be
// anywhere.
func (c *Checker) Zone() schedule.Predicate {
	return check{
		name:      "VolumeZone",
		concerns:  func(pod *corev1.Pod) bool { return hasVolume(pod, namesClaim) },
		refuseAll: c.unknownVolume,
		prepare:   c.prepareZone,
		wakes:     zoneWakes,
	}
}

func (c *Checker) prepareZone(p *schedule.PodInfo, _ schedule.Cluster) func(*schedule.NodeInfo) schedule.Verdict {
	var all []place
	for name := range claims(p.Pod) {
		// Why there is none has been said by unknownVolume.
		if v, _ := c.volumeOf(p.Pod.Namespace, name); v != nil {
			all = append(all, places(v)...)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return func(n *schedule.NodeInfo) schedule.Verdict {
		if !hasTopology(n.Node.Labels) {
			return schedule.Fits
		}
		for _, place := range all {
			if !place.has(n.Node.Labels) {
				return outOfZone
			}
		}
		return schedule.Fits
	}
}

// place says by one label where a volume is.
type place struct {
	old, label string // as in topologyLabels
	values     []string
}

// has reports whether a node with labels is there.
func (p place) has(labels map[string]string) bool {
	value, ok := labels[p.old]
	if !ok || p.old == "" {
		value, ok = labels[p.label]
	}
	return ok && slices.Contains(p.values, value)
}

func hasTopology(labels map[string]string) bool {
	for _, l := range topologyLabels {
		if _, ok := labels[cmp.Or(l.old, l.label)]; ok {
			return true
		}
	}
	return false
}

// unknownVolume returns why it is not known where the volume of a claim of a pod is, or "".
func (c *Checker) unknownVolume(pod *corev1.Pod) string {
	for name := range claims(pod) {
		if _, refusal := c.volumeOf(pod.Namespace, name); refusal != "" {
			return refusal
		}
	}
	return ""
}

// volumeOf returns the volume of a claim, nil if it gets one when the pod is scheduled, or why the pod
// cannot be.
func (c *Checker) volumeOf(namespace, name string) (v *corev1.PersistentVolume, refusal string) {
	claim, ok := c.config.Claims.Get(localcache.Key(namespace, name))
	if !ok {
		return nil, fmt.Sprintf("persistentvolumeclaim %q not found", name)
	}
	if volume := claim.Spec.VolumeName; volume != "" {
		v, ok := c.config.Volumes.Get(volume)
		if !ok {
			return nil, fmt.Sprintf("persistentvolume %q not found", volume)
		}
		return v, ""
	}
	className := volumeclaim.Class(claim)
	class, ok := c.config.Classes.Get(className)
	switch {
	case className == "":
		return nil, "PersistentVolumeClaim had no pv name and storageClass name"
	case !ok:
		return nil, fmt.Sprintf("storageclass.storage.k8s.io %q not found", className)
	case class.VolumeBindingMode == nil:
		return nil, fmt.Sprintf("VolumeBindingMode not set for StorageClass %q", className)
	case !volumeclaim.Waits(class):
		return nil, "PersistentVolume had no name"
	}
	return nil, ""
}

// places returns where a volume is. A label with an empty zone says nothing.
func places(v *corev1.PersistentVolume) (all []place) {
	for _, l := range topologyLabels {
		value, ok := v.Labels[cmp.Or(l.old, l.label)]
		if !ok {
			continue
		}
		values := strings.Split(value, zoneSeparator)
		for i := range values {
			values[i] = strings.TrimSpace(values[i])
		}
		if !slices.Contains(values, "") {
			all = append(all, place{l.old, l.label, values})
		}
	}
	return all
}

// zoneWakes: nodes and volumes whose labels change, claims of the pod, and classes whose claims wait.
func zoneWakes(pod *corev1.Pod, e schedule.Event) bool {
	if old, now, ok := schedule.Changed[*corev1.Node](e); ok {
		return now != nil && (old == nil || !maps.Equal(old.Labels, now.Labels))
	}
	if old, now, ok := schedule.Changed[*corev1.PersistentVolume](e); ok {
		return now != nil && (old == nil || !sameTopology(old.Labels, now.Labels))
	}
	if _, now, ok := schedule.Changed[*storagev1.StorageClass](e); ok {
		return volumeclaim.Waits(now)
	}
	_, claim, _ := schedule.Changed[*corev1.PersistentVolumeClaim](e)
	return claim != nil && names(pod, claim)
}

func sameTopology(a, b map[string]string) bool {
	for _, l := range topologyLabels {
		key := cmp.Or(l.old, l.label)
		if x, has := a[key]; x != b[key] || has != contains(b, key) {
			return false
		}
	}
	return true
}

func contains(m map[string]string, key string) bool {
	_, ok := m[key]
	return ok
}
