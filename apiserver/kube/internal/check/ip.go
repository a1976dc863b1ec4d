package check

import (
	"fmt"
	"net/netip"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// leadingZeros matches zeros before a part of an IPv4 address, which fields that are older than their refusal may have.
var leadingZeros = regexp.MustCompile(`(^|\.)0+([0-9])`)

// ParseIP parses an address. It returns an IPv4 address for one that is mapped into IPv6.
func ParseIP(s string) (netip.Addr, bool) {
	ip, err := netip.ParseAddr(leadingZeros.ReplaceAllString(s, "$1$2"))
	return ip.Unmap(), err == nil && ip.Zone() == ""
}

// IsIPv6 reports whether s is an IPv6 address.
func IsIPv6(s string) bool {
	ip, ok := ParseIP(s)
	return ok && ip.Is6()
}

// FamilyOf returns the IP family of an address, IPv4 for a text that is none.
func FamilyOf(s string) corev1.IPFamily {
	if IsIPv6(s) {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// EndpointIP adds an error for an address that no other host can reach, such as a loopback address.
func EndpointIP(ps *Problems, p *field.Path, s string) {
	ip, ok := ParseIP(s)
	if !ok {
		ps.Add(field.Invalid(p, s, "must be a valid IP address"))
		return
	}
	ps.Valid(!ip.IsUnspecified(), p, s, fmt.Sprintf("may not be unspecified (%v)", s))
	ps.Valid(!ip.IsLoopback(), p, s, "may not be in the loopback range (127.0.0.0/8, ::1/128)")
	ps.Valid(!ip.IsLinkLocalUnicast(), p, s, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")
	ps.Valid(!ip.IsLinkLocalMulticast(), p, s, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
}

// LoadBalancerHost checks the name of a load balancer, if it has one.
func LoadBalancerHost(ps *Problems, p *field.Path, host string) {
	if host == "" {
		return
	}
	ps.Subdomain(p, host)
	_, isIP := ParseIP(host)
	ps.Valid(!isIP, p, host, "must be a DNS name, not an IP address")
}
