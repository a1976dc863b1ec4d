// Package mirror keeps the mirror pods of a node up to date. A mirror pod is the Pod in the API that
// shows a static pod: it has the same name, the same spec and the hash of its manifest, and the node
// owns it. What clients do to a mirror pod has no effect on the static pod.
package mirror

import (
	corev1 "k8s.io/api/core/v1"
)

const (
	annotationHash   = "kubernetes.io/config.hash"
	annotationSource = "kubernetes.io/config.source"
	sourceAPI        = "api"
)

// IsMirror reports whether a pod in the API shows a static pod, so that no kubelet runs it.
func IsMirror(pod *corev1.Pod) bool {
	_, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return ok
}

// IsStatic reports whether a pod comes from the node itself. The annotation alone does not say so,
// because any client can set it on a pod in the API; but that has a resourceVersion.
func IsStatic(pod *corev1.Pod) bool {
	source := pod.Annotations[annotationSource]
	return pod.ResourceVersion == "" && source != "" && source != sourceAPI
}

// Shows reports whether a pod in the API is the mirror pod of a static pod with that name.
func Shows(found, static *corev1.Pod) bool {
	return found.Annotations[corev1.MirrorPodAnnotationKey] == static.Annotations[annotationHash] && IsMirror(found)
}

// An action is the next step for one name.
type action int

const (
	nothing action = iota
	// remove deletes the mirror pod, and replace then creates another one.
	remove
	replace
	create
	// report writes the status.
	report
	// blocked means that a pod that is not a mirror pod has the name.
	blocked
)

// plan returns the next step for a name. Either pod may be nil: the static pod, with its status, and
// the pod that the API has. ending means that an earlier static pod with the name is being stopped,
// which the mirror pod shows until then.
func plan(static, found *corev1.Pod, ending bool) action {
	switch {
	case static == nil && (found == nil || !IsMirror(found)):
		return nothing
	case ending:
		return nothing
	case static == nil:
		return remove
	case found == nil:
		return create
	case !IsMirror(found) && found.DeletionTimestamp == nil:
		return blocked
	case found.DeletionTimestamp != nil || !Shows(found, static):
		return replace
	case finished(found) && !finished(static):
		return replace // a phase that has ended does not change any more
	}
	return report
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
