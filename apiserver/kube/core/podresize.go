package core

import (
	"slices"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/apiserver/kube/internal/podspec"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// resize returns the subresource that changes the cpu and memory of a pod while it runs.
func resize() apiserver.Subresource {
	return apiserver.Status{Name: "resize", Strategy: define.Strategy[*corev1.Pod]{
		Default:        podspec.DefaultPod,
		Update:         updatePodSize,
		ValidateUpdate: validateResize,
	}.Erase()}
}

// updatePodSize keeps everything of the pod but resources and resize policies. It changes nothing in
// a pod with other containers than before, so that validation refuses them.
func updatePodSize(pod, old *corev1.Pod) {
	if slices.Equal(names(pod.Spec.Containers), names(old.Spec.Containers)) &&
		slices.Equal(names(pod.Spec.InitContainers), names(old.Spec.InitContainers)) {
		asked := *pod
		old.DeepCopyInto(pod)
		takeIdentity(pod, &asked)
		pod.Spec.Resources = asked.Spec.Resources
		takeSizes(pod.Spec.Containers, asked.Spec.Containers)
		takeSizes(pod.Spec.InitContainers, asked.Spec.InitContainers)
	}
	pod.Generation = define.NextGeneration(old.Generation, define.Differ(&pod.Spec, &old.Spec))
}

func names(containers []corev1.Container) []string {
	var list []string
	for i := range containers {
		list = append(list, containers[i].Name)
	}
	return list
}

// takeSizes copies the resources and resize policies of asked, which has the same containers.
func takeSizes(containers, asked []corev1.Container) {
	for i := range containers {
		containers[i].Resources, containers[i].ResizePolicy = asked[i].Resources, asked[i].ResizePolicy
	}
}

// validateResize allows cpu and memory to change, but not to be removed, and nothing else.
func validateResize(pod, old *corev1.Pod) field.ErrorList {
	if _, mirror := old.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "static pods cannot be resized")}
	}
	if old.Spec.OS != nil && old.Spec.OS.Name == corev1.Windows {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "windows pods cannot be resized")}
	}
	var ps check.Problems
	checkPod(&ps, pod)
	p := field.NewPath("spec")
	if classOf(old) != podspec.QOSClass(&pod.Spec) {
		ps.Add(field.Invalid(p, pod.Status.QOSClass, "Pod QOS Class may not change as a result of resizing"))
	}
	ps.Allowed(resizable(old), p, "Pod running on node without support for resize")
	ps.Allowed(len(old.Status.NodeAllocatableResourceClaimStatuses) == 0, p, "pods with node allocatable resource claims cannot be resized")
	rest := pod.Spec.DeepCopy()
	checkWholeResize(&ps, p, rest, &old.Spec)
	if !checkSameContainers(&ps, p, &pod.Spec, &old.Spec) {
		return ps.List
	}
	for i := range old.Spec.InitContainers {
		checkKept(&ps, p.Child("initContainers").Index(i).Child("resources"), &pod.Spec.InitContainers[i].Resources, &old.Spec.InitContainers[i].Resources)
	}
	for i := range old.Spec.Containers {
		checkKept(&ps, p.Child("containers").Index(i).Child("resources"), &pod.Spec.Containers[i].Resources, &old.Spec.Containers[i].Resources)
	}
	for i := range rest.Containers {
		c, before := &rest.Containers[i], &old.Spec.Containers[i]
		withSizeOf(&c.Resources, &before.Resources)
		ps.Allowed(!define.Differ(c, before), p, "only cpu and memory resources are mutable")
	}
	for i := range rest.InitContainers {
		checkInitResize(&ps, p.Child("initContainers").Index(i), &rest.InitContainers[i], &old.Spec.InitContainers[i])
	}
	if len(ps.List) == 0 {
		ps.Allowed(!define.Differ(rest, &old.Spec), p, "only cpu and memory resources are mutable")
	}
	return ps.List
}

// checkInitResize checks an init container, and makes its size that of before.
func checkInitResize(ps *check.Problems, p *field.Path, c, before *corev1.Container) {
	changed := define.Differ(c, before)
	withSizeOf(&c.Resources, &before.Resources)
	ps.Allowed(!define.Differ(c, before), p, "only cpu and memory resources for init or sidecar containers are mutable")
	if !changed || podspec.IsSidecar(c) {
		return
	}
	for _, policy := range c.ResizePolicy {
		ps.Allowed(policy.RestartPolicy != corev1.RestartContainer, p,
			"non-sidecar init containers with a resize policy of RestartContainer cannot be resized")
	}
}

// checkWholeResize checks the resources of the pod as a whole, and makes their size in rest that of
// old.
func checkWholeResize(ps *check.Problems, p *field.Path, rest, old *corev1.PodSpec) {
	before, now := old.Resources, rest.Resources
	switch {
	case before == nil && now == nil:
		return
	case now == nil:
		ps.Allowed(len(before.Requests)+len(before.Limits) == 0, p.Child("resources"), "pod-level resources cannot be removed")
		return
	case before == nil:
		before = &corev1.ResourceRequirements{}
	}
	ps.Allowed(!removed(now.Requests, before.Requests), p.Child("resources", "requests"), "pod-level resource requests cannot be removed")
	ps.Allowed(!removed(now.Limits, before.Limits), p.Child("resources", "limits"), "pod-level resource limits cannot be removed")
	withSizeOf(now, before)
	if old.Resources == nil && len(now.Requests)+len(now.Limits)+len(now.Claims) == 0 {
		rest.Resources = nil
	}
	ps.Allowed(!define.Differ(rest.Resources, old.Resources), p, "only cpu and memory resources are mutable at pod-level")
}

// checkSameContainers reports whether a resize has the containers of old, in their order.
func checkSameContainers(ps *check.Problems, p *field.Path, spec, old *corev1.PodSpec) bool {
	problems := len(ps.List)
	for _, kind := range []struct {
		path        string
		now, before []corev1.Container
	}{
		{"containers", spec.Containers, old.Containers},
		{"initContainers", spec.InitContainers, old.InitContainers},
	} {
		at := p.Child(kind.path)
		if len(kind.now) != len(kind.before) {
			ps.Add(field.Forbidden(at, kind.path+" may not be added or removed on resize"))
			continue
		}
		for i := range kind.now {
			ps.Allowed(kind.now[i].Name == kind.before[i].Name, at.Index(i).Child("name"), kind.path+" may not be renamed or reordered on resize")
		}
	}
	return len(ps.List) == problems
}

// checkKept requires that no request and no limit is removed.
func checkKept(ps *check.Problems, p *field.Path, now, old *corev1.ResourceRequirements) {
	ps.Allowed(!removed(now.Requests, old.Requests), p.Child("requests"), "resource requests cannot be removed")
	ps.Allowed(!removed(now.Limits, old.Limits), p.Child("limits"), "resource limits cannot be removed")
}

func removed(now, old corev1.ResourceList) bool {
	for name := range old {
		if _, ok := now[name]; !ok {
			return true
		}
	}
	return false
}

// withSizeOf sets the cpu and memory of r to those of old.
func withSizeOf(r, old *corev1.ResourceRequirements) {
	r.Limits, r.Requests = withAmountsOf(r.Limits, old.Limits), withAmountsOf(r.Requests, old.Requests)
}

func withAmountsOf(list, old corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, q := range list {
		if name != corev1.ResourceCPU && name != corev1.ResourceMemory {
			out[name] = q
		}
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if q, ok := old[name]; ok {
			out[name] = q
		}
	}
	return out
}

// resizable reports whether the pod's kubelet can resize it: one that can reports the resources of
// running containers. Of a pod without running containers it is assumed.
func resizable(pod *corev1.Pod) bool {
	for i := range pod.Status.ContainerStatuses {
		if c := &pod.Status.ContainerStatuses[i]; c.State.Running != nil {
			return c.Resources != nil
		}
	}
	return true
}

// classOf returns the class that a pod was created with.
func classOf(pod *corev1.Pod) corev1.PodQOSClass {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass
	}
	return podspec.QOSClass(&pod.Spec)
}
