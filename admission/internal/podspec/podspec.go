// Package podspec iterates over all containers of a pod, so that no check forgets the init and the
// ephemeral ones.
package podspec

import (
	"iter"

	"github.com/planekit/planekit/admission"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Place is the position of a container in a pod.
type Place struct {
	// List is the name of the list in JSON, such as initContainers.
	List string
	// Index is the index in that list.
	Index int
}

// Path returns the field path, such as spec.initContainers[1].
func (p Place) Path() *field.Path { return field.NewPath("spec", p.List).Index(p.Index) }

// Containers iterates over init containers, containers and ephemeral containers, in that order. The
// containers are those of the pod, not copies.
func Containers(spec *corev1.PodSpec) iter.Seq2[Place, *corev1.Container] {
	return func(yield func(Place, *corev1.Container) bool) {
		for i := range spec.InitContainers {
			if !yield(Place{"initContainers", i}, &spec.InitContainers[i]) {
				return
			}
		}
		for i := range spec.Containers {
			if !yield(Place{"containers", i}, &spec.Containers[i]) {
				return
			}
		}
		for i := range spec.EphemeralContainers {
			// The two types have the same fields.
			c := (*corev1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon)
			if !yield(Place{"ephemeralContainers", i}, c) {
				return
			}
		}
	}
}

// Of returns the pod that is created or updated, directly or through one of the subresources. A
// plugin that checks containers must include "ephemeralcontainers", by which ephemeral containers
// are added to a pod.
func Of(r *admission.Request, subresources ...string) (*corev1.Pod, bool) {
	if r.Resource.Group != corev1.GroupName || r.Resource.Resource != "pods" ||
		r.Operation != admission.Create && r.Operation != admission.Update {
		return nil, false
	}
	for _, s := range subresources {
		if r.Subresource == s {
			return podIn(r)
		}
	}
	if r.Subresource != "" {
		return nil, false
	}
	return podIn(r)
}

func podIn(r *admission.Request) (*corev1.Pod, bool) {
	pod, ok := r.Object.(*corev1.Pod)
	return pod, ok
}
