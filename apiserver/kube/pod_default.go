package kube

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// defaultPod completes a pod. What it does beyond defaultPodSpec is done to
// pods only, not to templates.
func defaultPod(pod *corev1.Pod) {
	spec := &pod.Spec
	for _, list := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range list {
			requestLimits(&list[i].Resources)
			if spec.HostNetwork {
				openHostPorts(list[i].Ports)
			}
		}
	}
	defaultPodResources(spec)
	setIfNil(&spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks)
	defaultPodSpec(spec)
	defaultPodIPs(&pod.Status)
}

// defaultPodSpec completes the spec of a pod or of a template.
func defaultPodSpec(spec *corev1.PodSpec) {
	setIfEmpty(&spec.DNSPolicy, corev1.DNSClusterFirst)
	setIfEmpty(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	setIfEmpty(&spec.SchedulerName, corev1.DefaultSchedulerName)
	setIfNil(&spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	if spec.SecurityContext == nil {
		spec.SecurityContext = &corev1.PodSecurityContext{}
	}
	// serviceAccount is the old name of serviceAccountName and always follows it.
	setIfEmpty(&spec.ServiceAccountName, spec.DeprecatedServiceAccount)
	spec.DeprecatedServiceAccount = spec.ServiceAccountName

	roundUp(spec.Overhead)
	if spec.Resources != nil {
		roundUp(spec.Resources.Limits)
		roundUp(spec.Resources.Requests)
	}
	for i := range spec.Volumes {
		defaultVolume(&spec.Volumes[i])
	}
	for i := range spec.InitContainers {
		defaultContainer(&spec.InitContainers[i])
	}
	for i := range spec.Containers {
		defaultContainer(&spec.Containers[i])
	}
	for i := range spec.EphemeralContainers {
		defaultContainer((*corev1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
}

// requestLimits makes a limit without a request also the request.
func requestLimits(r *corev1.ResourceRequirements) {
	if r.Limits == nil {
		return
	}
	if r.Requests == nil {
		r.Requests = corev1.ResourceList{}
	}
	for name, limit := range r.Limits {
		setAmount(&r.Requests, name, limit)
	}
}

// defaultPodResources completes what the pod as a whole has, where it has
// anything. Huge pages are limited to what its containers may take. Where there
// are limits, the pod requests what its containers ask for together, else its
// limit.
func defaultPodResources(spec *corev1.PodSpec) {
	r := spec.Resources
	if r == nil || len(r.Limits)+len(r.Requests) == 0 {
		return
	}
	for name, q := range atOnce(spec, limitsOf) {
		if _, requested := r.Requests[name]; isHugePages(name) && !requested {
			setAmount(&r.Limits, name, q)
		}
	}
	if len(r.Limits) == 0 {
		return
	}
	for name, q := range atOnce(spec, requestsOf) {
		if slices.Contains(qosResources[:], name) {
			setAmount(&r.Requests, name, q)
		}
	}
	for name, q := range r.Limits {
		if slices.Contains(qosResources[:], name) || isHugePages(name) {
			setAmount(&r.Requests, name, q)
		}
	}
}

// setAmount adds q to list unless there is an amount already.
func setAmount(list *corev1.ResourceList, name corev1.ResourceName, q resource.Quantity) {
	if *list == nil {
		*list = corev1.ResourceList{}
	}
	if _, ok := (*list)[name]; !ok {
		(*list)[name] = q.DeepCopy()
	}
}

// openHostPorts gives every port of a pod in the host's network the same number
// on the host.
func openHostPorts(ports []corev1.ContainerPort) {
	for i := range ports {
		if ports[i].HostPort == 0 {
			ports[i].HostPort = ports[i].ContainerPort
		}
	}
}

// defaultPodIPs keeps podIP equal to the first of podIPs. Where they differ, a
// client that knows only podIP wrote it.
func defaultPodIPs(s *corev1.PodStatus) {
	switch {
	case s.PodIP != "" && (len(s.PodIPs) == 0 || s.PodIPs[0].IP != s.PodIP):
		s.PodIPs = []corev1.PodIP{{IP: s.PodIP}}
	case len(s.PodIPs) > 0:
		s.PodIP = s.PodIPs[0].IP
	}
}

// roundUp rounds quantities up to thousandths, the finest there are.
func roundUp(list corev1.ResourceList) {
	for name, q := range list {
		q.RoundUp(resource.Milli)
		list[name] = q
	}
}

func setIfEmpty[T comparable](p *T, value T) {
	var zero T
	if *p == zero {
		*p = value
	}
}

func setIfNil[T any](p **T, value T) {
	if *p == nil {
		*p = &value
	}
}
