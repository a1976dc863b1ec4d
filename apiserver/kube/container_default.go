package kube

import corev1 "k8s.io/api/core/v1"

// defaultContainer completes a container of any kind.
func defaultContainer(c *corev1.Container) {
	if c.ImagePullPolicy == "" {
		c.ImagePullPolicy = pullPolicy(c.Image)
	}
	setIfEmpty(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	setIfEmpty(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	for i := range c.Ports {
		setIfEmpty(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for i := range c.Env {
		defaultEnvSource(c.Env[i].ValueFrom)
	}
	roundUp(c.Resources.Limits)
	roundUp(c.Resources.Requests)
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
		setIfNil(&from.FileKeyRef.Optional, false)
	}
}

func defaultFieldRef(ref *corev1.ObjectFieldSelector) {
	if ref != nil {
		setIfEmpty(&ref.APIVersion, "v1")
	}
}

func defaultProbe(p *corev1.Probe) {
	if p == nil {
		return
	}
	setIfEmpty(&p.TimeoutSeconds, 1)
	setIfEmpty(&p.PeriodSeconds, 10)
	setIfEmpty(&p.SuccessThreshold, 1)
	setIfEmpty(&p.FailureThreshold, 3)
	defaultHTTPGet(p.HTTPGet)
	if p.GRPC != nil {
		setIfNil(&p.GRPC.Service, "")
	}
}

func defaultHTTPGet(get *corev1.HTTPGetAction) {
	if get != nil {
		setIfEmpty(&get.Path, "/")
		setIfEmpty(&get.Scheme, corev1.URISchemeHTTP)
	}
}
