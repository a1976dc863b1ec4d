// Package podspec goes through the containers of a pod: all of them, so that no
// check forgets the init and the ephemeral ones.
package podspec

import (
	"iter"

	"github.com/planekit/planekit/admission"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Place is where in a pod a container is.
type Place struct {
	// List is the name of the list in JSON, such as initContainers.
	List string
	// Index is the place in that list.
	Index int
}

// Path is such as spec.initContainers[1].
func (p Place) Path() *field.Path { return field.NewPath("spec", p.List).Index(p.Index) }

// Containers goes through init containers, containers and ephemeral containers,
// in that order. What is done to a container is done to the pod.
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

// Of returns the pod that is created or updated, itself or through one of the
// subresources. A plugin that looks at containers asks for "ephemeralcontainers",
// which is the one way for an ephemeral container to come into a pod.
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
