package service

import (
	"fmt"
	"slices"
	"strings"

	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/apiserver/kube/internal/podspec"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxAffinitySeconds limits how long a client may stay with an endpoint: a day.
const maxAffinitySeconds = 24 * 60 * 60

const balancersOnly = "may only be used when `type` is 'LoadBalancer'"

func validateService(s *corev1.Service) field.ErrorList { return checkService(s, nil) }

// checkService checks a service. Addresses that stood in old may stay, though
// they are written in a form that is refused today.
func checkService(s, old *corev1.Service) field.ErrorList {
	var ps check.Problems
	p, spec := field.NewPath("spec"), &s.Spec
	hints, mode := s.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints], s.Annotations[corev1.AnnotationTopologyMode]
	ps.Valid(!has2(s.Annotations, corev1.AnnotationTopologyMode, corev1.DeprecatedAnnotationTopologyAwareHints) || hints == mode,
		field.NewPath("metadata", "annotations").Key(corev1.AnnotationTopologyMode), mode,
		fmt.Sprintf("must match annotations[%s] when both are specified", corev1.DeprecatedAnnotationTopologyAwareHints))
	ps.Present(len(spec.Ports) > 0 || headless(s) || !hasClusterIP(s), p.Child("ports"), "")
	checkServiceType(&ps, p, s)
	checkServicePorts(&ps, p.Child("ports"), spec)
	ps.Labels(p.Child("selector"), spec.Selector)
	checkSessionAffinity(&ps, p, spec)
	checkClusterIPs(&ps, p, s, old)
	external := p.Child("externalIPs")
	var were []string
	if old != nil {
		were = old.Spec.ExternalIPs
	}
	for i, ip := range spec.ExternalIPs {
		if errs := validation.IsValidIPForLegacyField(external.Index(i), ip, true, were); len(errs) > 0 {
			ps.All(errs)
			continue
		}
		check.EndpointIP(&ps, external.Index(i), ip)
	}
	check.RequiredOneOf(&ps, p.Child("type"), spec.Type,
		corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort)
	checkBalancer(&ps, p, s, old)
	checkTraffic(&ps, p, s)
	return ps.List
}

func has2(m map[string]string, a, b string) bool {
	_, one := m[a]
	_, two := m[b]
	return one && two
}

func checkServiceType(ps *check.Problems, p *field.Path, s *corev1.Service) {
	spec := &s.Spec
	switch spec.Type {
	case corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort:
		if headless(s) {
			ps.Add(field.Invalid(p.Child("clusterIPs").Index(0), spec.ClusterIPs[0],
				fmt.Sprintf("may not be set to 'None' for %s services", spec.Type)))
		}
	case corev1.ServiceTypeExternalName:
		const message = "may not be set for ExternalName services"
		ps.Allowed(len(spec.ClusterIPs) == 0, p.Child("clusterIPs"), message)
		ps.Allowed(len(spec.IPFamilies) == 0, p.Child("ipFamilies"), message)
		ps.Allowed(spec.IPFamilyPolicy == nil, p.Child("ipFamilyPolicy"), message)
		ps.Named(p.Child("externalName"), strings.TrimSuffix(spec.ExternalName, "."))
	}
}

func checkServicePorts(ps *check.Problems, p *field.Path, spec *corev1.ServiceSpec) {
	names := map[string]bool{}
	type number struct {
		protocol corev1.Protocol
		port     int32
	}
	ports, onNodes := map[number]bool{}, map[number]bool{}
	for i := range spec.Ports {
		port, at := &spec.Ports[i], p.Index(i)
		checkServicePort(ps, at, port, len(spec.Ports) > 1, names)
		ps.Allowed(spec.Type != corev1.ServiceTypeClusterIP || port.NodePort == 0,
			at.Child("nodePort"), "may not be used when `type` is 'ClusterIP'")
		if n := (number{port.Protocol, port.NodePort}); port.NodePort != 0 {
			ps.Unique(!onNodes[n], at.Child("nodePort"), port.NodePort)
			onNodes[n] = true
		}
		n := number{port.Protocol, port.Port}
		if ports[n] {
			ps.Add(field.Duplicate(at, internalServicePort{Protocol: port.Protocol, Port: port.Port}))
		}
		ports[n] = true
	}
}

// internalServicePort has the fields in which Kubernetes prints a duplicate port.
type internalServicePort struct {
	Name        string
	Protocol    corev1.Protocol
	AppProtocol *string
	Port        int32
	TargetPort  intstr.IntOrString
	NodePort    int32
}

func checkServicePort(ps *check.Problems, p *field.Path, port *corev1.ServicePort, needsName bool, names map[string]bool) {
	at := p.Child("name")
	switch {
	case port.Name != "":
		ps.DNSLabel(at, port.Name)
		ps.Unique(!names[port.Name], at, port.Name)
		names[port.Name] = true
	case needsName:
		ps.Add(field.Required(at, ""))
	}
	ps.Each(p.Child("port"), port.Port, validation.IsValidPortNum(int(port.Port)))
	check.RequiredOneOf(ps, p.Child("protocol"), port.Protocol, podspec.Protocols...)
	checkPortReference(ps, p.Child("targetPort"), port.TargetPort)
	if port.AppProtocol != nil {
		ps.Each(p.Child("appProtocol"), *port.AppProtocol, validation.IsQualifiedName(*port.AppProtocol))
	}
}

// checkPortReference requires the number of a port or its name.
func checkPortReference(ps *check.Problems, p *field.Path, port intstr.IntOrString) {
	if port.Type == intstr.Int {
		ps.Each(p, port.IntValue(), validation.IsValidPortNum(port.IntValue()))
		return
	}
	ps.Each(p, port.StrVal, validation.IsValidPortName(port.StrVal))
}

func checkSessionAffinity(ps *check.Problems, p *field.Path, spec *corev1.ServiceSpec) {
	check.RequiredOneOf(ps, p.Child("sessionAffinity"), spec.SessionAffinity, corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone)
	c, at := spec.SessionAffinityConfig, p.Child("sessionAffinityConfig")
	switch spec.SessionAffinity {
	case corev1.ServiceAffinityNone:
		ps.Allowed(c == nil, at, "must not be set when session affinity is None")
	case corev1.ServiceAffinityClientIP:
		const message = "when session affinity type is ClientIP"
		switch {
		case c == nil:
			ps.Add(field.Required(at, message))
		case c.ClientIP == nil:
			ps.Add(field.Required(at.Child("clientIP"), message))
		case c.ClientIP.TimeoutSeconds == nil:
			ps.Add(field.Required(at.Child("clientIP", "timeoutSeconds"), message))
		default:
			n := *c.ClientIP.TimeoutSeconds
			ps.Valid(n > 0 && n <= maxAffinitySeconds, at.Child("clientIP", "timeoutSeconds"), c.ClientIP.TimeoutSeconds,
				fmt.Sprintf("must be greater than 0 and less than %d", maxAffinitySeconds))
		}
	}
}

// checkBalancer checks what load balancers only have.
func checkBalancer(ps *check.Problems, p *field.Path, s, old *corev1.Service) {
	spec, balanced := &s.Spec, s.Spec.Type == corev1.ServiceTypeLoadBalancer
	at := p.Child("LoadBalancerSourceRanges") // as upstream spells it
	annotation, annotated := s.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey]
	switch {
	case len(spec.LoadBalancerSourceRanges) > 0:
		ps.Allowed(balanced, at, balancersOnly)
		var were []string
		if old != nil {
			were = trimmed(old.Spec.LoadBalancerSourceRanges)
		}
		for i, cidr := range trimmed(spec.LoadBalancerSourceRanges) {
			ps.All(validation.IsValidCIDRForLegacyField(at.Index(i), cidr, true, were))
		}
	case annotated:
		at := field.NewPath("metadata", "annotations").Key(corev1.AnnotationLoadBalancerSourceRangesKey)
		ps.Allowed(balanced, at, balancersOnly)
		if old != nil && old.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey] == annotation || strings.TrimSpace(annotation) == "" {
			break
		}
		for _, cidr := range trimmed(strings.Split(strings.TrimSpace(annotation), ",")) {
			ps.All(validation.IsValidCIDRForLegacyField(at, cidr, true, nil))
		}
	}
	ps.Allowed(balanced || spec.AllocateLoadBalancerNodePorts == nil, p.Child("allocateLoadBalancerNodePorts"), balancersOnly)
	ps.Present(!balanced || spec.AllocateLoadBalancerNodePorts != nil, field.NewPath("allocateLoadBalancerNodePorts"), "")
	checkBalancerClass(ps, p, spec)
}

func checkBalancerClass(ps *check.Problems, p *field.Path, spec *corev1.ServiceSpec) {
	if spec.LoadBalancerClass == nil {
		return
	}
	at, class := p.Child("loadBalancerClass"), *spec.LoadBalancerClass
	if spec.Type != corev1.ServiceTypeLoadBalancer {
		ps.Add(field.Forbidden(at, balancersOnly))
		return
	}
	ps.Each(at, class, validation.IsQualifiedName(class))
}

func trimmed(list []string) []string {
	out := slices.Clone(list)
	for i := range out {
		out[i] = strings.TrimSpace(out[i])
	}
	return out
}

func checkTraffic(ps *check.Problems, p *field.Path, s *corev1.Service) {
	spec := &s.Spec
	external := p.Child("externalTrafficPolicy")
	if reachableOutside(s) {
		check.RequiredOneOf(ps, external, spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal)
	} else {
		ps.Valid(spec.ExternalTrafficPolicy == "", external, spec.ExternalTrafficPolicy, "may only be set for externally-accessible services")
	}
	health := p.Child("healthCheckNodePort")
	switch n := spec.HealthCheckNodePort; {
	case !hasHealthCheck(s):
		ps.Valid(n == 0, health, n, "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'")
	case n == 0:
		ps.Add(field.Required(health, ""))
	default:
		ps.Each(health, n, validation.IsValidPortNum(int(n)))
	}
	internal := p.Child("internalTrafficPolicy")
	if spec.InternalTrafficPolicy != nil {
		check.OneOf(ps, internal, *spec.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal)
	} else if spec.Type == corev1.ServiceTypeClusterIP || hasNodePorts(s) {
		ps.Add(field.Required(internal, ""))
	}
	if spec.TrafficDistribution != nil {
		check.OneOf(ps, p.Child("trafficDistribution"), *spec.TrafficDistribution, corev1.ServiceTrafficDistributionPreferClose,
			corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode)
	}
}

func validateServiceStatus(s, old *corev1.Service) field.ErrorList {
	var ps check.Problems
	p, list := field.NewPath("status", "loadBalancer", "ingress"), s.Status.LoadBalancer.Ingress
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer && len(list) > 0 {
		ps.Add(field.Forbidden(p, "may only be used when `spec.type` is 'LoadBalancer'"))
		return ps.List
	}
	var were []string
	for _, in := range old.Status.LoadBalancer.Ingress {
		were = append(were, in.IP)
	}
	for i, in := range list {
		at := p.Index(i)
		if in.IP != "" {
			ps.All(validation.IsValidIPForLegacyField(at.Child("ip"), in.IP, true, were))
		}
		switch {
		case in.IPMode == nil:
			ps.Present(in.IP == "", at.Child("ipMode"), "must be specified when `ip` is set")
		case in.IP == "":
			ps.Add(field.Forbidden(at.Child("ipMode"), "may not be specified when `ip` is not set"))
		default:
			check.OneOf(&ps, at.Child("ipMode"), *in.IPMode, corev1.LoadBalancerIPModeProxy, corev1.LoadBalancerIPModeVIP)
		}
		check.LoadBalancerHost(&ps, at.Child("hostname"), in.Hostname)
	}
	return ps.List
}

func validateServiceUpdate(s, old *corev1.Service) field.ErrorList {
	var ps check.Problems
	p := field.NewPath("spec")
	checkClusterIPChange(&ps, p, s, old)
	checkFamilyChange(&ps, p, s, old)
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer && old.Spec.Type == corev1.ServiceTypeLoadBalancer {
		ps.Valid(!define.Differ(s.Spec.LoadBalancerClass, old.Spec.LoadBalancerClass),
			p.Child("loadBalancerClass"), s.Spec.LoadBalancerClass, "may not change once set")
	}
	checkBalancerClass(&ps, p, &s.Spec) // said here and, as of a new service, below
	ps.Allowed(!hasHealthCheck(s) || !hasHealthCheck(old) || s.Spec.HealthCheckNodePort == old.Spec.HealthCheckNodePort,
		p.Child("healthCheckNodePort"), "field is immutable")
	ps.All(checkService(s, old))
	return ps.List
}
