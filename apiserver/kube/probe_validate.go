package kube

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checkHandlers checks the probes and hooks of a container.
func checkHandlers(ps *problems, p *field.Path, c *corev1.Container, scope *podScope) {
	if l := c.Lifecycle; l != nil {
		at := p.Child("lifecycle")
		checkHook(ps, at.Child("postStart"), l.PostStart, scope)
		checkHook(ps, at.Child("preStop"), l.PreStop, scope)
	}
	for _, probe := range []struct {
		path string
		*corev1.Probe
	}{
		{"livenessProbe", c.LivenessProbe},
		{"startupProbe", c.StartupProbe},
	} {
		if probe.Probe == nil {
			continue
		}
		at := p.Child(probe.path)
		checkProbe(ps, at, probe.Probe)
		ps.valid(probe.SuccessThreshold == 1,
			at.Child("successThreshold"), probe.SuccessThreshold, "must be 1")
	}
	if r := c.ReadinessProbe; r != nil {
		at := p.Child("readinessProbe")
		checkProbe(ps, at, r)
		ps.valid(r.TerminationGracePeriodSeconds == nil,
			at.Child("terminationGracePeriodSeconds"), r.TerminationGracePeriodSeconds, "must not be set for readinessProbes")
	}
}

func checkProbe(ps *problems, p *field.Path, probe *corev1.Probe) {
	checkHandler(ps, p, handler{
		exec: probe.Exec, httpGet: probe.HTTPGet, tcpSocket: probe.TCPSocket, grpc: probe.GRPC,
	})
	for _, f := range []struct {
		path  string
		value int32
	}{
		{"initialDelaySeconds", probe.InitialDelaySeconds},
		{"timeoutSeconds", probe.TimeoutSeconds},
		{"periodSeconds", probe.PeriodSeconds},
		{"successThreshold", probe.SuccessThreshold},
		{"failureThreshold", probe.FailureThreshold},
	} {
		ps.notNegative(p.Child(f.path), int64(f.value))
	}
	if g := probe.TerminationGracePeriodSeconds; g != nil && *g <= 0 {
		ps.add(field.Invalid(p.Child("terminationGracePeriodSeconds"), *g, "must be greater than 0"))
	}
}

func checkHook(ps *problems, p *field.Path, h *corev1.LifecycleHandler, scope *podScope) {
	if h == nil {
		return
	}
	checkHandler(ps, p, handler{
		exec: h.Exec, httpGet: h.HTTPGet, tcpSocket: h.TCPSocket, sleep: h.Sleep,
		grace: scope.spec.TerminationGracePeriodSeconds,
	})
}

// handler is what probes and hooks do: exactly one of these.
type handler struct {
	exec      *corev1.ExecAction
	httpGet   *corev1.HTTPGetAction
	tcpSocket *corev1.TCPSocketAction
	grpc      *corev1.GRPCAction
	sleep     *corev1.SleepAction
	// grace bounds a sleep; nil does not.
	grace *int64
}

func checkHandler(ps *problems, p *field.Path, h handler) {
	found := false
	for _, kind := range []struct {
		path  string
		set   bool
		check func(*field.Path)
	}{
		{"exec", h.exec != nil, func(p *field.Path) {
			ps.present(len(h.exec.Command) > 0, p.Child("command"), "")
		}},
		{"httpGet", h.httpGet != nil, func(p *field.Path) { checkHTTPGet(ps, p, h.httpGet) }},
		{"tcpSocket", h.tcpSocket != nil, func(p *field.Path) { checkPort(ps, p.Child("port"), h.tcpSocket.Port) }},
		{"grpc", h.grpc != nil, func(p *field.Path) { checkPort(ps, p.Child("port"), intstr.FromInt32(h.grpc.Port)) }},
		{"sleep", h.sleep != nil, func(p *field.Path) {
			if s := h.sleep.Seconds; h.grace != nil && (s < 0 || s > *h.grace) {
				ps.add(field.Invalid(p, s, fmt.Sprintf("must be non-negative and less than terminationGracePeriodSeconds (%d)", *h.grace)))
			}
		}},
	} {
		if !kind.set {
			continue
		}
		if found {
			ps.add(field.Forbidden(p.Child(kind.path), "may not specify more than 1 handler type"))
			continue
		}
		found = true
		kind.check(p.Child(kind.path))
	}
	ps.present(found, p, "must specify a handler type")
}

func checkHTTPGet(ps *problems, p *field.Path, get *corev1.HTTPGetAction) {
	ps.required(p.Child("path"), get.Path)
	checkPort(ps, p.Child("port"), get.Port)
	oneOf(ps, p.Child("scheme"), get.Scheme, corev1.URISchemeHTTP, corev1.URISchemeHTTPS)
	for _, h := range get.HTTPHeaders {
		ps.each(p.Child("httpHeaders"), h.Name, validation.IsHTTPHeaderName(h.Name))
	}
}

// checkPort checks a port that is given by number or by name.
func checkPort(ps *problems, p *field.Path, port intstr.IntOrString) {
	if port.Type == intstr.String {
		ps.each(p, port.StrVal, validation.IsValidPortName(port.StrVal))
		return
	}
	ps.each(p, port.IntValue(), validation.IsValidPortNum(port.IntValue()))
}
