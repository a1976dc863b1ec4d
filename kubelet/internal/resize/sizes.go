// Package resize decides about pods that are resized in place: whether a node has room for the new
// size, which pending resize comes first, and in which steps the new size takes effect. It has no
// state, no clock and no IO.
//
// A pod has three sizes. The desired size is that in its spec. The allocated size is what the node
// has granted; it follows the spec once there is room. The actuated size is what the runtime was
// last given.
// https://kubernetes.io/docs/tasks/configure-pod-container/resize-container-resources/
package resize

import (
	"maps"

	"github.com/planekit/planekit/internal/usage"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// Sizes are the resources of a pod.
type Sizes struct {
	// Pod holds the resources of the pod as a whole; nil if it has none.
	Pod *corev1.ResourceRequirements `json:"pod,omitempty"`
	// Containers holds those of containers and init containers, by name.
	Containers map[string]corev1.ResourceRequirements `json:"containers,omitempty"`
}

// Of returns the sizes in the spec of a pod.
func Of(pod *corev1.Pod) Sizes {
	s := Sizes{Pod: pod.Spec.Resources.DeepCopy(), Containers: map[string]corev1.ResourceRequirements{}}
	for _, list := range [...][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			s.Containers[list[i].Name] = *list[i].Resources.DeepCopy()
		}
	}
	return s
}

// Empty reports whether there is no request and no limit.
func (s Sizes) Empty() bool {
	for _, r := range s.Containers {
		if len(r.Requests)+len(r.Limits) > 0 {
			return false
		}
	}
	return s.Pod == nil || len(s.Pod.Requests)+len(s.Pod.Limits) == 0
}

// Clone returns a copy that shares nothing with s.
func (s Sizes) Clone() Sizes {
	c := Sizes{Pod: s.Pod.DeepCopy(), Containers: maps.Clone(s.Containers)}
	for name, r := range c.Containers {
		c.Containers[name] = *r.DeepCopy()
	}
	return c
}

// Apply returns pod with the sizes s. It returns pod itself if it has them already.
func (s Sizes) Apply(pod *corev1.Pod) *corev1.Pod {
	if equality.Semantic.DeepEqual(Of(pod), s.of(pod)) {
		return pod
	}
	s = s.of(pod).Clone()
	out := *pod
	out.Spec.Resources = s.Pod
	out.Spec.InitContainers = s.resized(pod.Spec.InitContainers)
	out.Spec.Containers = s.resized(pod.Spec.Containers)
	return &out
}

// of returns s for the containers of pod alone. A container that s does not have keeps its size.
func (s Sizes) of(pod *corev1.Pod) Sizes {
	out := Of(pod)
	out.Pod = s.Pod
	for name := range out.Containers {
		if r, ok := s.Containers[name]; ok {
			out.Containers[name] = r
		}
	}
	return out
}

func (s Sizes) resized(containers []corev1.Container) []corev1.Container {
	out := make([]corev1.Container, len(containers))
	for i, c := range containers {
		c.Resources = s.Containers[c.Name]
		out[i] = c
	}
	return out
}

// Requests returns what a pod requests by its spec: its containers, or the pod as a whole, and its
// overhead.
func Requests(pod *corev1.Pod) corev1.ResourceList {
	bare := *pod
	bare.Status = corev1.PodStatus{}
	return usage.Requests(&bare)
}

// Limits returns the limits of a pod by its spec.
func Limits(pod *corev1.Pod) corev1.ResourceList {
	bare := *pod
	bare.Status = corev1.PodStatus{}
	return usage.Limits(&bare)
}
