package lifecycle

import (
	"github.com/planekit/planekit/kubelet/internal/qos"
	"github.com/planekit/planekit/kubelet/internal/resize"
	corev1 "k8s.io/api/core/v1"
)

// size sets the allocated and the actual resources of a container. One that does not run gets its
// allocated ones when it starts.
func (o *Observation) size(status *corev1.ContainerStatus, spec *corev1.Container, current *Container) {
	status.AllocatedResources = spec.Resources.Requests.DeepCopy()
	if current.Phase != Running {
		status.Resources = spec.Resources.DeepCopy()
		return
	}
	status.Resources = resize.Actual(spec.Resources, o.given(spec.Name), current.Size)
}

// given returns the size that the runtime was last given; nil if it is unknown.
func (o *Observation) given(name string) *corev1.ResourceRequirements {
	if r, ok := o.State.Actuated[name]; ok {
		return &r
	}
	return nil
}

// podSize sets the resources of the pod as a whole: the sums over its containers, or its own. Of a
// pod that runs, cpu and memory are those that were actuated.
func (o *Observation) podSize(status *corev1.PodStatus) {
	status.AllocatedResources = resize.Requests(o.Pod)
	if len(status.AllocatedResources) == 0 {
		status.AllocatedResources = nil
	}
	whole := &corev1.ResourceRequirements{Requests: status.AllocatedResources.DeepCopy(), Limits: resize.Limits(o.Pod)}
	if status.Phase == corev1.PodRunning {
		now := o.actuated()
		limits, limited := resize.Limits(now), qos.Limits(now)
		whole = &corev1.ResourceRequirements{Requests: computed(resize.Requests(now)), Limits: corev1.ResourceList{}}
		if limited.Quota > 0 {
			whole.Limits[corev1.ResourceCPU] = limits[corev1.ResourceCPU]
		}
		if limited.Memory > 0 {
			whole.Limits[corev1.ResourceMemory] = limits[corev1.ResourceMemory]
		}
	}
	status.Resources = whole
}

// actuated returns the pod with the sizes that the runtime was last given. The pod as a whole has its
// actuated size once nothing is resized any more.
func (o *Observation) actuated() *corev1.Pod {
	sizes := resize.Of(o.Pod)
	for name, r := range o.State.Actuated {
		if _, ok := sizes.Containers[name]; ok {
			sizes.Containers[name] = r
		}
	}
	if o.Decision.ResizePod && o.Pod.Status.Resources != nil && sizes.Pod != nil {
		sizes.Pod = o.Pod.Status.Resources.DeepCopy()
	}
	return sizes.Apply(o.Pod)
}

// computed returns the cpu and memory of list.
func computed(list corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if q, ok := list[name]; ok {
			out[name] = q
		}
	}
	return out
}

// resizeConditions sets or removes the conditions of resizes.
func (o *Observation) resizeConditions(status *corev1.PodStatus) {
	kept := status.Conditions[:0]
	for _, c := range status.Conditions {
		if !passing[c.Type] {
			kept = append(kept, c)
		}
	}
	status.Conditions = kept
	for _, c := range []*corev1.PodCondition{o.ResizePending, o.ResizeInProgress} {
		if c != nil {
			status.Conditions = append(status.Conditions, *c)
		}
	}
}
