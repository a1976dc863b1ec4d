package podspec

import (
	"slices"

	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	corev1 "k8s.io/api/core/v1"
)

// DefaultPod defaults a pod. Its rules beyond those of Default do not apply to templates.
func DefaultPod(pod *corev1.Pod) {
	spec := &pod.Spec
	for _, key := range formerInitContainers {
		delete(pod.Annotations, key)
	}
	for _, list := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range list {
			requestLimits(&list[i].Resources)
			if spec.HostNetwork {
				openHostPorts(list[i].Ports)
			}
		}
	}
	defaultPodResources(spec)
	optional.SetIfNil(&spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks)
	Default(spec)
	defaultPodIPs(&pod.Status)
	if s := pod.Spec.TerminationGracePeriodSeconds; *s < 0 {
		pod.Spec.TerminationGracePeriodSeconds = new(int64(1)) // as in Kubernetes, for pods and not for templates
	}
}

// formerInitContainers are annotations that were init containers before v1.8.
var formerInitContainers = []string{"pod.alpha.kubernetes.io/init-containers", "pod.alpha.kubernetes.io/init-container-statuses",
	"pod.beta.kubernetes.io/init-containers", "pod.beta.kubernetes.io/init-container-statuses"}

// DefaultTemplate defaults the template of pods.
func DefaultTemplate(t *corev1.PodTemplateSpec) {
	for _, key := range formerInitContainers {
		delete(t.Annotations, key)
	}
	Default(&t.Spec)
}

// Default defaults the spec of a pod or of a template.
func Default(spec *corev1.PodSpec) {
	optional.SetIfEmpty(&spec.DNSPolicy, corev1.DNSClusterFirst)
	optional.SetIfEmpty(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	optional.SetIfEmpty(&spec.SchedulerName, corev1.DefaultSchedulerName)
	optional.SetIfNil(&spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	if spec.SecurityContext == nil {
		spec.SecurityContext = &corev1.PodSecurityContext{}
	}
	// serviceAccount is the old name of serviceAccountName and always follows it.
	optional.SetIfEmpty(&spec.ServiceAccountName, spec.DeprecatedServiceAccount)
	spec.DeprecatedServiceAccount = spec.ServiceAccountName

	RoundUp(spec.Overhead)
	if spec.Resources != nil {
		RoundUp(spec.Resources.Limits)
		RoundUp(spec.Resources.Requests)
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
		SetAmount(&r.Requests, name, limit)
	}
}

// defaultPodResources defaults the resources of the pod as a whole, if it has any. Huge pages are
// limited to the sum of the containers. If there are limits, the pod requests the sum of its
// containers, or else its limit.
func defaultPodResources(spec *corev1.PodSpec) {
	r := spec.Resources
	if r == nil || len(r.Limits)+len(r.Requests) == 0 {
		return
	}
	for name, q := range atOnce(spec, limitsOf) {
		if _, requested := r.Requests[name]; IsHugePages(name) && !requested {
			SetAmount(&r.Limits, name, q)
		}
	}
	if len(r.Limits) == 0 {
		return
	}
	for name, q := range atOnce(spec, requestsOf) {
		if slices.Contains(qosResources[:], name) {
			SetAmount(&r.Requests, name, q)
		}
	}
	for name, q := range r.Limits {
		if slices.Contains(qosResources[:], name) || IsHugePages(name) {
			SetAmount(&r.Requests, name, q)
		}
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

// defaultContainer completes a container of any kind.
func defaultContainer(c *corev1.Container) {
	if c.ImagePullPolicy == "" {
		c.ImagePullPolicy = pullPolicy(c.Image)
	}
	optional.SetIfEmpty(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	optional.SetIfEmpty(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	for i := range c.Ports {
		optional.SetIfEmpty(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for i := range c.Env {
		defaultEnvSource(c.Env[i].ValueFrom)
	}
	RoundUp(c.Resources.Limits)
	RoundUp(c.Resources.Requests)
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		defaultProbe(probe)
	}
	if c.Lifecycle != nil {
		for _, h := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if h != nil {
				defaultHTTPGet(h.HTTPGet)
			}
		}
	}
}

func defaultEnvSource(from *corev1.EnvVarSource) {
	if from == nil {
		return
	}
	defaultFieldRef(from.FieldRef)
	if from.FileKeyRef != nil {
		optional.SetIfNil(&from.FileKeyRef.Optional, false)
	}
}

func defaultFieldRef(ref *corev1.ObjectFieldSelector) {
	if ref != nil {
		optional.SetIfEmpty(&ref.APIVersion, "v1")
	}
}

func defaultProbe(p *corev1.Probe) {
	if p == nil {
		return
	}
	optional.SetIfEmpty(&p.TimeoutSeconds, 1)
	optional.SetIfEmpty(&p.PeriodSeconds, 10)
	optional.SetIfEmpty(&p.SuccessThreshold, 1)
	optional.SetIfEmpty(&p.FailureThreshold, 3)
	defaultHTTPGet(p.HTTPGet)
	if p.GRPC != nil {
		optional.SetIfNil(&p.GRPC.Service, "")
	}
}

func defaultHTTPGet(get *corev1.HTTPGetAction) {
	if get != nil {
		optional.SetIfEmpty(&get.Path, "/")
		optional.SetIfEmpty(&get.Scheme, corev1.URISchemeHTTP)
	}
}
