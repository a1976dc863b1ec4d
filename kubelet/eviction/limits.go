package eviction

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Limited reports whether a pod has a limit of local storage, so that its usage must be known.
func Limited(pod *corev1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if e := pod.Spec.Volumes[i].EmptyDir; e != nil && e.SizeLimit != nil && e.SizeLimit.Sign() > 0 {
			return true
		}
	}
	for i := range pod.Spec.Containers {
		if _, ok := pod.Spec.Containers[i].Resources.Limits[corev1.ResourceEphemeralStorage]; ok {
			return true
		}
	}
	return false
}

// The signals of a pod's own limits, with the names of Kubernetes' metrics. They have no thresholds.
const (
	SignalVolumeLimit    Signal = "emptydirfs.limit"
	SignalPodLimit       Signal = "ephemeralpodfs.limit"
	SignalContainerLimit Signal = "ephemeralcontainerfs.limit"
)

// Exceeded returns why a pod must be evicted for its own limits; empty if it need not. It checks the
// sizeLimit of its emptyDir volumes, then the limits of all its containers together, then those of
// each.
func Exceeded(u Usage) (signal Signal, message string) {
	for i := range u.Pod.Spec.Volumes {
		v := &u.Pod.Spec.Volumes[i]
		if e := v.EmptyDir; e != nil && e.SizeLimit != nil && e.SizeLimit.Sign() > 0 && e.SizeLimit.CmpInt64(u.Volumes[v.Name]) < 0 {
			return SignalVolumeLimit, fmt.Sprintf("Usage of EmptyDir volume %q exceeds the limit %q. ", v.Name, e.SizeLimit.String())
		}
	}
	limited := len(u.Pod.Spec.Containers) > 0
	sum := corev1.ResourceList{}
	for i := range u.Pod.Spec.Containers {
		limit, ok := u.Pod.Spec.Containers[i].Resources.Limits[corev1.ResourceEphemeralStorage]
		limited = limited && ok
		before := sum[corev1.ResourceEphemeralStorage]
		before.Add(limit)
		sum[corev1.ResourceEphemeralStorage] = before
	}
	if limited && sum.StorageEphemeral().CmpInt64(u.Storage) < 0 {
		return SignalPodLimit, fmt.Sprintf("Pod ephemeral local storage usage exceeds the total limit of containers %s. ", sum.StorageEphemeral())
	}
	for i := range u.Pod.Spec.Containers {
		c := &u.Pod.Spec.Containers[i]
		limit, ok := c.Resources.Limits[corev1.ResourceEphemeralStorage]
		if ok && limit.CmpInt64(u.Containers[c.Name].Storage) < 0 {
			return SignalContainerLimit, fmt.Sprintf("Container %s exceeded its local ephemeral storage limit %q. ", c.Name, limit.String())
		}
	}
	return "", ""
}
