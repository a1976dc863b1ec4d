package kube

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// parseIP reads an address. IPv4 in IPv6 is IPv4.
func parseIP(s string) (netip.Addr, bool) {
	ip, err := netip.ParseAddr(s)
	return ip.Unmap(), err == nil && ip.Zone() == ""
}

func isIPv6(s string) bool {
	ip, ok := parseIP(s)
	return ok && ip.Is6()
}

func familyOf(s string) corev1.IPFamily {
	if isIPv6(s) {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// checkEndpointIP refuses addresses that are no host's but one's own.
func checkEndpointIP(ps *problems, p *field.Path, s string) {
	ip, ok := parseIP(s)
	if !ok {
		ps.add(field.Invalid(p, s, "must be a valid IP address"))
		return
	}
	ps.valid(!ip.IsUnspecified(), p, s, fmt.Sprintf("may not be unspecified (%v)", s))
	ps.valid(!ip.IsLoopback(), p, s, "may not be in the loopback range (127.0.0.0/8, ::1/128)")
	ps.valid(!ip.IsLinkLocalUnicast(), p, s, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")
	ps.valid(!ip.IsLinkLocalMulticast(), p, s, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
}
