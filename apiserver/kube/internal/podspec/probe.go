package podspec

import (
	"fmt"

	"github.com/planekit/planekit/apiserver/kube/internal/check"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checkHandlers checks the probes and hooks of a container.
func checkHandlers(ps *check.Problems, p *field.Path, c *corev1.Container, scope *scope) {
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
		ps.Valid(probe.SuccessThreshold == 1,
			at.Child("successThreshold"), probe.SuccessThreshold, "must be 1")
	}
	if r := c.ReadinessProbe; r != nil {
		at := p.Child("readinessProbe")
		checkProbe(ps, at, r)
		ps.Valid(r.TerminationGracePeriodSeconds == nil,
			at.Child("terminationGracePeriodSeconds"), r.TerminationGracePeriodSeconds, "must not be set for readinessProbes")
	}
}

func checkProbe(ps *check.Problems, p *field.Path, probe *corev1.Probe) {
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
		ps.NotNegative(p.Child(f.path), int64(f.value))
	}
	if g := probe.TerminationGracePeriodSeconds; g != nil && *g <= 0 {
		ps.Add(field.Invalid(p.Child("terminationGracePeriodSeconds"), *g, "must be greater than 0"))
	}
}

func checkHook(ps *check.Problems, p *field.Path, h *corev1.LifecycleHandler, scope *scope) {
	if h == nil {
		return
	}
	checkHandler(ps, p, handler{
		exec: h.Exec, httpGet: h.HTTPGet, tcpSocket: h.TCPSocket, sleep: h.Sleep,
		grace: scope.spec.TerminationGracePeriodSeconds,
	})
}

// A handler has the actions of a probe or a hook, of which exactly one is set.
type handler struct {
	exec      *corev1.ExecAction
	httpGet   *corev1.HTTPGetAction
	tcpSocket *corev1.TCPSocketAction
	grpc      *corev1.GRPCAction
	sleep     *corev1.SleepAction
	// grace bounds a sleep; nil does not.
	grace *int64
}

func checkHandler(ps *check.Problems, p *field.Path, h handler) {
	found := false
	for _, kind := range []struct {
		path  string
		set   bool
		check func(*field.Path)
	}{
		{"exec", h.exec != nil, func(p *field.Path) {
			ps.Present(len(h.exec.Command) > 0, p.Child("command"), "")
		}},
		{"httpGet", h.httpGet != nil, func(p *field.Path) { checkHTTPGet(ps, p, h.httpGet) }},
		{"tcpSocket", h.tcpSocket != nil, func(p *field.Path) { checkPort(ps, p.Child("port"), h.tcpSocket.Port) }},
		{"grpc", h.grpc != nil, func(p *field.Path) { checkPort(ps, p.Child("port"), intstr.FromInt32(h.grpc.Port)) }},
		{"sleep", h.sleep != nil, func(p *field.Path) {
			if s := h.sleep.Seconds; h.grace != nil && (s < 0 || s > *h.grace) {
				ps.Add(field.Invalid(p, s, fmt.Sprintf("must be non-negative and less than terminationGracePeriodSeconds (%d)", *h.grace)))
			}
		}},
	} {
		if !kind.set {
			continue
		}
		if found {
			ps.Add(field.Forbidden(p.Child(kind.path), "may not specify more than 1 handler type"))
			continue
		}
		found = true
		kind.check(p.Child(kind.path))
	}
	ps.Present(found, p, "must specify a handler type")
}

func checkHTTPGet(ps *check.Problems, p *field.Path, get *corev1.HTTPGetAction) {
	ps.Required(p.Child("path"), get.Path)
	checkPort(ps, p.Child("port"), get.Port)
	check.OneOf(ps, p.Child("scheme"), get.Scheme, corev1.URISchemeHTTP, corev1.URISchemeHTTPS)
	for _, h := range get.HTTPHeaders {
		ps.Each(p.Child("httpHeaders"), h.Name, validation.IsHTTPHeaderName(h.Name))
	}
}

// checkPort checks a port that is given by number or by name.
func checkPort(ps *check.Problems, p *field.Path, port intstr.IntOrString) {
	if port.Type == intstr.String {
		ps.Each(p, port.StrVal, validation.IsValidPortName(port.StrVal))
		return
	}
	ps.Each(p, port.IntValue(), validation.IsValidPortNum(port.IntValue()))
}
