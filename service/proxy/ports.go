package proxy

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/planekit/planekit/service/ruleset"
	corev1 "k8s.io/api/core/v1"
)

// A Port is one port of a service in one address family: what connections are made to.
type Port struct {
	Namespace, Service string
	// Name is the name of the port, which may be empty.
	Name      string
	Protocol  ruleset.Protocol
	Family    ruleset.Family
	ClusterIP netip.Addr
	Port      uint16
	// NodePort is 0 for none.
	NodePort uint16
	// ExternalIPs and LoadBalancerIPs are further addresses, with the same port.
	ExternalIPs, LoadBalancerIPs []netip.Addr
	// SourceRanges are the only sources that may use LoadBalancerIPs; empty for all.
	SourceRanges []netip.Prefix
	// Affinity is how long a client stays with its endpoint; 0 for no affinity.
	Affinity time.Duration
	// InternalLocal and ExternalLocal keep traffic on the node.
	InternalLocal, ExternalLocal bool
}

// defaultAffinity is Kubernetes' default, in seconds.
const defaultAffinity = 10800

// Ports returns the ports of a service that a proxy serves: none of headless services and those of
// type ExternalName. Addresses that cannot be parsed, which the API server does not accept, are left
// out.
func Ports(s *corev1.Service) []Port {
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	clusterIPs := s.Spec.ClusterIPs
	if len(clusterIPs) == 0 {
		clusterIPs = []string{s.Spec.ClusterIP}
	}
	var all []Port
	for _, ip := range parse(clusterIPs) {
		family := ruleset.FamilyOf(ip)
		common := Port{
			Namespace: s.Namespace, Service: s.Name, Family: family, ClusterIP: ip,
			ExternalIPs: ofFamily(family, parse(s.Spec.ExternalIPs)), LoadBalancerIPs: ofFamily(family, ingress(s)),
			SourceRanges:  sourceRanges(family, s.Spec.LoadBalancerSourceRanges),
			InternalLocal: s.Spec.InternalTrafficPolicy != nil && *s.Spec.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal,
			ExternalLocal: externallyAccessible(s) && s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal,
			Affinity:      affinity(s),
		}
		for _, p := range s.Spec.Ports {
			one := common
			one.Name, one.Port, one.NodePort, one.Protocol = p.Name, uint16(p.Port), uint16(p.NodePort), protocol(p.Protocol)
			all = append(all, one)
		}
	}
	return all
}

// externallyAccessible reports whether the external traffic policy means anything.
func externallyAccessible(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeLoadBalancer || s.Spec.Type == corev1.ServiceTypeNodePort ||
		len(s.Spec.ExternalIPs) > 0
}

func affinity(s *corev1.Service) time.Duration {
	if s.Spec.SessionAffinity != corev1.ServiceAffinityClientIP {
		return 0
	}
	seconds := int32(defaultAffinity)
	if c := s.Spec.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil {
		seconds = *c.ClientIP.TimeoutSeconds
	}
	return time.Duration(seconds) * time.Second
}

// ingress returns the addresses of load balancers that leave the destination of packets as it is.
func ingress(s *corev1.Service) []netip.Addr {
	var all []string
	for _, i := range s.Status.LoadBalancer.Ingress {
		if i.IPMode == nil || *i.IPMode == corev1.LoadBalancerIPModeVIP {
			all = append(all, i.IP)
		}
	}
	return parse(all)
}

// sourceRanges returns the ranges of a family; none if one of them contains every address.
func sourceRanges(f ruleset.Family, all []string) []netip.Prefix {
	var ranges []netip.Prefix
	for _, text := range all {
		p, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil || ruleset.FamilyOf(p.Addr()) != f {
			continue
		}
		if p.Bits() == 0 {
			return nil
		}
		ranges = append(ranges, p.Masked())
	}
	return ranges
}

func parse(all []string) []netip.Addr {
	var addrs []netip.Addr
	for _, text := range all {
		if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
			addrs = append(addrs, a.Unmap())
		}
	}
	return addrs
}

func ofFamily(f ruleset.Family, addrs []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(addrs, func(a netip.Addr) bool { return ruleset.FamilyOf(a) != f })
}

func protocol(p corev1.Protocol) ruleset.Protocol {
	switch p {
	case corev1.ProtocolUDP:
		return ruleset.UDP
	case corev1.ProtocolSCTP:
		return ruleset.SCTP
	}
	return ruleset.TCP
}

// external reports whether the port can be reached from outside the cluster.
func (p Port) external() bool {
	return p.NodePort != 0 || len(p.LoadBalancerIPs) > 0 || len(p.ExternalIPs) > 0
}

// UsesCluster reports whether some traffic of the port may go to all endpoints of the cluster: pods and
// the node itself reach external addresses so even if the external policy is Local.
func (p Port) usesCluster() bool { return !p.InternalLocal || p.external() }

func (p Port) usesLocal() bool { return p.InternalLocal || p.ExternalLocal && p.external() }

// HealthCheckNodePort returns the port at which load balancers ask whether the node has endpoints of the
// service; 0 for none.
func HealthCheckNodePort(s *corev1.Service) uint16 {
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer || s.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
		return 0
	}
	return uint16(s.Spec.HealthCheckNodePort)
}
