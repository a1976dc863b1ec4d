package serviceaddress

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// allocator is the label of the IPAddresses that the API server gives to services.
const allocator = "ipallocator.k8s.io"

// ByAddress is the key function of an index of services by their addresses.
func ByAddress(s *corev1.Service) []string {
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	var out []string
	for _, text := range s.Spec.ClusterIPs {
		if ip, err := netip.ParseAddr(text); err == nil {
			out = append(out, ip.Unmap().String())
		}
	}
	return out
}

// managed reports whether the API server has given an address to a service, or says so.
func managed(ip *networkingv1.IPAddress) bool {
	return ip.Labels[networkingv1.LabelManagedBy] == allocator
}

// parentKey returns the key of the service that an address refers to. ok is false if it refers to
// something else.
func parentKey(ip *networkingv1.IPAddress) (namespace, name string, ok bool) {
	parent := ip.Spec.ParentRef
	if parent == nil || parent.Group != "" || parent.Resource != "services" {
		return "", "", false
	}
	return parent.Namespace, parent.Name, true
}

func familyOf(address string) corev1.IPFamily {
	if ip, err := netip.ParseAddr(address); err == nil && ip.Is6() {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// newAddress returns the IPAddress of a service.
func newAddress(address string, s *corev1.Service) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: address, Labels: map[string]string{
			networkingv1.LabelIPAddressFamily: string(familyOf(address)),
			networkingv1.LabelManagedBy:       allocator,
		}},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: s.Namespace, Name: s.Name}},
	}
}
