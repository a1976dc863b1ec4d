package kube

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxAffinitySeconds is how long clients may stay with an endpoint: a day.
const maxAffinitySeconds = 24 * 60 * 60

const balancersOnly = "may only be used when `type` is 'LoadBalancer'"

func validateService(s *corev1.Service) field.ErrorList { return checkService(s, nil) }

// checkService checks a service. Addresses that stood in old may stay, though
// they are written in a form that is refused today.
func checkService(s, old *corev1.Service) field.ErrorList {
	var ps problems
	p, spec := field.NewPath("spec"), &s.Spec
	hints, mode := s.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints], s.Annotations[corev1.AnnotationTopologyMode]
	ps.valid(!has2(s.Annotations, corev1.AnnotationTopologyMode, corev1.DeprecatedAnnotationTopologyAwareHints) || hints == mode,
		field.NewPath("metadata", "annotations").Key(corev1.AnnotationTopologyMode), mode,
		fmt.Sprintf("must match annotations[%s] when both are specified", corev1.DeprecatedAnnotationTopologyAwareHints))
	ps.present(len(spec.Ports) > 0 || headless(s) || !hasClusterIP(s), p.Child("ports"), "")
	checkServiceType(&ps, p, s)
	checkServicePorts(&ps, p.Child("ports"), spec)
	ps.labels(p.Child("selector"), spec.Selector)
	checkSessionAffinity(&ps, p, spec)
	checkClusterIPs(&ps, p, s, old)
	external := p.Child("externalIPs")
	var were []string
	if old != nil {
		were = old.Spec.ExternalIPs
	}
	for i, ip := range spec.ExternalIPs {
		if errs := validation.IsValidIPForLegacyField(external.Index(i), ip, true, were); len(errs) > 0 {
			ps.all(errs)
			continue
		}
		checkEndpointIP(&ps, external.Index(i), ip)
	}
	someOf(&ps, p.Child("type"), spec.Type,
		corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort)
	checkBalancer(&ps, p, s, old)
	checkTraffic(&ps, p, s)
	return ps.list
}

func has2(m map[string]string, a, b string) bool {
	_, one := m[a]
	_, two := m[b]
	return one && two
}

func checkServiceType(ps *problems, p *field.Path, s *corev1.Service) {
	spec := &s.Spec
	switch spec.Type {
	case corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort:
		if headless(s) {
			ps.add(field.Invalid(p.Child("clusterIPs").Index(0), spec.ClusterIPs[0],
				fmt.Sprintf("may not be set to 'None' for %s services", spec.Type)))
		}
	case corev1.ServiceTypeExternalName:
		const message = "may not be set for ExternalName services"
		ps.allowed(len(spec.ClusterIPs) == 0, p.Child("clusterIPs"), message)
		ps.allowed(len(spec.IPFamilies) == 0, p.Child("ipFamilies"), message)
		ps.allowed(spec.IPFamilyPolicy == nil, p.Child("ipFamilyPolicy"), message)
		ps.named(p.Child("externalName"), strings.TrimSuffix(spec.ExternalName, "."))
	}
}

func checkServicePorts(ps *problems, p *field.Path, spec *corev1.ServiceSpec) {
	names := map[string]bool{}
	type number struct {
		protocol corev1.Protocol
		port     int32
	}
	ports, onNodes := map[number]bool{}, map[number]bool{}
	for i := range spec.Ports {
		port, at := &spec.Ports[i], p.Index(i)
		checkServicePort(ps, at, port, len(spec.Ports) > 1, names)
		ps.allowed(spec.Type != corev1.ServiceTypeClusterIP || port.NodePort == 0,
			at.Child("nodePort"), "may not be used when `type` is 'ClusterIP'")
		if n := (number{port.Protocol, port.NodePort}); port.NodePort != 0 {
			ps.unique(!onNodes[n], at.Child("nodePort"), port.NodePort)
			onNodes[n] = true
		}
		n := number{port.Protocol, port.Port}
		if ports[n] {
			ps.add(field.Duplicate(at, internalServicePort{Protocol: port.Protocol, Port: port.Port}))
		}
		ports[n] = true
	}
}

// internalServicePort is how upstream shows a port that is there twice.
type internalServicePort struct {
	Name        string
	Protocol    corev1.Protocol
	AppProtocol *string
	Port        int32
	TargetPort  intstr.IntOrString
	NodePort    int32
}

func checkServicePort(ps *problems, p *field.Path, port *corev1.ServicePort, needsName bool, names map[string]bool) {
	at := p.Child("name")
	switch {
	case port.Name != "":
		ps.dnsLabel(at, port.Name)
		ps.unique(!names[port.Name], at, port.Name)
		names[port.Name] = true
	case needsName:
		ps.add(field.Required(at, ""))
	}
	ps.each(p.Child("port"), port.Port, validation.IsValidPortNum(int(port.Port)))
	someOf(ps, p.Child("protocol"), port.Protocol, protocols...)
	checkPortReference(ps, p.Child("targetPort"), port.TargetPort)
	if port.AppProtocol != nil {
		ps.each(p.Child("appProtocol"), *port.AppProtocol, validation.IsQualifiedName(*port.AppProtocol))
	}
}

// checkPortReference requires the number of a port or its name.
func checkPortReference(ps *problems, p *field.Path, port intstr.IntOrString) {
	if port.Type == intstr.Int {
		ps.each(p, port.IntValue(), validation.IsValidPortNum(port.IntValue()))
		return
	}
	ps.each(p, port.StrVal, validation.IsValidPortName(port.StrVal))
}

func checkSessionAffinity(ps *problems, p *field.Path, spec *corev1.ServiceSpec) {
	someOf(ps, p.Child("sessionAffinity"), spec.SessionAffinity, corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone)
	c, at := spec.SessionAffinityConfig, p.Child("sessionAffinityConfig")
	switch spec.SessionAffinity {
	case corev1.ServiceAffinityNone:
		ps.allowed(c == nil, at, "must not be set when session affinity is None")
	case corev1.ServiceAffinityClientIP:
		const message = "when session affinity type is ClientIP"
		switch {
		case c == nil:
			ps.add(field.Required(at, message))
		case c.ClientIP == nil:
			ps.add(field.Required(at.Child("clientIP"), message))
		case c.ClientIP.TimeoutSeconds == nil:
			ps.add(field.Required(at.Child("clientIP", "timeoutSeconds"), message))
		default:
			n := *c.ClientIP.TimeoutSeconds
			ps.valid(n > 0 && n <= maxAffinitySeconds, at.Child("clientIP", "timeoutSeconds"), c.ClientIP.TimeoutSeconds,
				fmt.Sprintf("must be greater than 0 and less than %d", maxAffinitySeconds))
		}
	}
}

// checkBalancer checks what load balancers only have.
func checkBalancer(ps *problems, p *field.Path, s, old *corev1.Service) {
	spec, balanced := &s.Spec, s.Spec.Type == corev1.ServiceTypeLoadBalancer
	at := p.Child("LoadBalancerSourceRanges") // as upstream spells it
	annotation, annotated := s.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey]
	switch {
	case len(spec.LoadBalancerSourceRanges) > 0:
		ps.allowed(balanced, at, balancersOnly)
		var were []string
		if old != nil {
			were = trimmed(old.Spec.LoadBalancerSourceRanges)
		}
		for i, cidr := range trimmed(spec.LoadBalancerSourceRanges) {
			ps.all(validation.IsValidCIDRForLegacyField(at.Index(i), cidr, true, were))
		}
	case annotated:
		at := field.NewPath("metadata", "annotations").Key(corev1.AnnotationLoadBalancerSourceRangesKey)
		ps.allowed(balanced, at, balancersOnly)
		if old != nil && old.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey] == annotation || strings.TrimSpace(annotation) == "" {
			break
		}
		for _, cidr := range trimmed(strings.Split(strings.TrimSpace(annotation), ",")) {
			ps.all(validation.IsValidCIDRForLegacyField(at, cidr, true, nil))
		}
	}
	ps.allowed(balanced || spec.AllocateLoadBalancerNodePorts == nil, p.Child("allocateLoadBalancerNodePorts"), balancersOnly)
	ps.present(!balanced || spec.AllocateLoadBalancerNodePorts != nil, field.NewPath("allocateLoadBalancerNodePorts"), "")
	checkBalancerClass(ps, p, spec)
}

func checkBalancerClass(ps *problems, p *field.Path, spec *corev1.ServiceSpec) {
	if spec.LoadBalancerClass == nil {
		return
	}
	at, class := p.Child("loadBalancerClass"), *spec.LoadBalancerClass
	if spec.Type != corev1.ServiceTypeLoadBalancer {
		ps.add(field.Forbidden(at, balancersOnly))
		return
	}
	ps.each(at, class, validation.IsQualifiedName(class))
}

func trimmed(list []string) []string {
	out := slices.Clone(list)
	for i := range out {
		out[i] = strings.TrimSpace(out[i])
	}
	return out
}

func checkTraffic(ps *problems, p *field.Path, s *corev1.Service) {
	spec := &s.Spec
	external := p.Child("externalTrafficPolicy")
	if reachableOutside(s) {
		someOf(ps, external, spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal)
	} else {
		ps.valid(spec.ExternalTrafficPolicy == "", external, spec.ExternalTrafficPolicy, "may only be set for externally-accessible services")
	}
	health := p.Child("healthCheckNodePort")
	switch n := spec.HealthCheckNodePort; {
	case !hasHealthCheck(s):
		ps.valid(n == 0, health, n, "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'")
	case n == 0:
		ps.add(field.Required(health, ""))
	default:
		ps.each(health, n, validation.IsValidPortNum(int(n)))
	}
	internal := p.Child("internalTrafficPolicy")
	if spec.InternalTrafficPolicy != nil {
		oneOf(ps, internal, *spec.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal)
	} else if spec.Type == corev1.ServiceTypeClusterIP || hasNodePorts(s) {
		ps.add(field.Required(internal, ""))
	}
	if spec.TrafficDistribution != nil {
		oneOf(ps, p.Child("trafficDistribution"), *spec.TrafficDistribution, corev1.ServiceTrafficDistributionPreferClose,
			corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode)
	}
}

func validateServiceStatus(s, old *corev1.Service) field.ErrorList {
	var ps problems
	p, list := field.NewPath("status", "loadBalancer", "ingress"), s.Status.LoadBalancer.Ingress
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer && len(list) > 0 {
		ps.add(field.Forbidden(p, "may only be used when `spec.type` is 'LoadBalancer'"))
		return ps.list
	}
	var were []string
	for _, in := range old.Status.LoadBalancer.Ingress {
		were = append(were, in.IP)
	}
	for i, in := range list {
		at := p.Index(i)
		if in.IP != "" {
			ps.all(validation.IsValidIPForLegacyField(at.Child("ip"), in.IP, true, were))
		}
		switch {
		case in.IPMode == nil:
			ps.present(in.IP == "", at.Child("ipMode"), "must be specified when `ip` is set")
		case in.IP == "":
			ps.add(field.Forbidden(at.Child("ipMode"), "may not be specified when `ip` is not set"))
		default:
			oneOf(&ps, at.Child("ipMode"), *in.IPMode, corev1.LoadBalancerIPModeProxy, corev1.LoadBalancerIPModeVIP)
		}
		checkBalancerHost(&ps, at.Child("hostname"), in.Hostname)
	}
	return ps.list
}

// checkBalancerHost checks the name of a load balancer, if it has one.
func checkBalancerHost(ps *problems, p *field.Path, host string) {
	if host == "" {
		return
	}
	ps.subdomain(p, host)
	_, isIP := parseIP(host)
	ps.valid(!isIP, p, host, "must be a DNS name, not an IP address")
}

func validateServiceUpdate(s, old *corev1.Service) field.ErrorList {
	var ps problems
	p := field.NewPath("spec")
	checkClusterIPChange(&ps, p, s, old)
	checkFamilyChange(&ps, p, s, old)
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer && old.Spec.Type == corev1.ServiceTypeLoadBalancer {
		ps.valid(!differ(s.Spec.LoadBalancerClass, old.Spec.LoadBalancerClass),
			p.Child("loadBalancerClass"), s.Spec.LoadBalancerClass, "may not change once set")
	}
	checkBalancerClass(&ps, p, &s.Spec) // said here and, as of a new service, below
	ps.allowed(!hasHealthCheck(s) || !hasHealthCheck(old) || s.Spec.HealthCheckNodePort == old.Spec.HealthCheckNodePort,
		p.Child("healthCheckNodePort"), "field is immutable")
	ps.all(checkService(s, old))
	return ps.list
}
