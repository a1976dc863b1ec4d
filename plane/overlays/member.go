//go:build linux

package overlays

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/planekit/planekit/cni/overlay"
)

// Bounds of what is read from a Node.
const (
	// maxRanges is the number of podCIDRs that the API allows: one of each family.
	maxRanges = 2
	// maxBackend is the longest name of a backend in bytes.
	maxBackend = 32
	// maxAddresses is the longest list of addresses in bytes.
	maxAddresses = 100
)

// memberOf returns the member that a node describes. It is invalid if anything of the node is.
func memberOf(node *corev1.Node) overlay.Member {
	m := overlay.Member{Name: node.Name}
	var err error
	if m.Subnets, err = subnets(node); err == nil {
		if m.Address, m.Address6, err = addresses(node); err == nil {
			m.Backend, m.Data, err = backend(node.Annotations)
		}
	}
	if err != nil {
		return overlay.Member{Name: node.Name, Invalid: err}
	}
	return m
}

func ranges(node *corev1.Node) []string {
	if len(node.Spec.PodCIDRs) == 0 && node.Spec.PodCIDR != "" {
		return []string{node.Spec.PodCIDR}
	}
	return node.Spec.PodCIDRs
}

// subnets parses the podCIDRs.
func subnets(node *corev1.Node) ([]netip.Prefix, error) {
	texts := ranges(node)
	if len(texts) > maxRanges {
		return nil, fmt.Errorf("spec.podCIDRs: %d ranges, more than %d", len(texts), maxRanges)
	}
	var all []netip.Prefix
	for i, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil || p != p.Masked() {
			return nil, fmt.Errorf("spec.podCIDRs[%d]: %.50q is no range", i, text)
		}
		all = append(all, p)
	}
	return all, nil
}

// addresses returns the addresses of the annotation, or those of the status.
func addresses(node *corev1.Node) (a4, a6 netip.Addr, err error) {
	text, ok := node.Annotations[AddressesAnnotation]
	if !ok {
		return internalIPs(node)
	}
	if len(text) > maxAddresses {
		return a4, a6, fmt.Errorf("%s: %d bytes, more than %d", AddressesAnnotation, len(text), maxAddresses)
	}
	for part := range strings.SplitSeq(text, ",") {
		a, err := netip.ParseAddr(part)
		if err != nil || a.Is4In6() || a.Zone() != "" {
			return a4, a6, fmt.Errorf("%s: %q is no address", AddressesAnnotation, part)
		}
		if a.Is4() && a4.IsValid() || a.Is6() && a6.IsValid() {
			return a4, a6, fmt.Errorf("%s: two addresses of one family", AddressesAnnotation)
		}
		a4, a6 = choose(a, a4, a6)
	}
	return a4, a6, nil
}

// internalIPs returns the first address of type InternalIP of each family.
func internalIPs(node *corev1.Node) (a4, a6 netip.Addr, err error) {
	for i, at := range node.Status.Addresses {
		if at.Type != corev1.NodeInternalIP {
			continue
		}
		a, err := netip.ParseAddr(at.Address)
		if err != nil || a.Is4In6() || a.Zone() != "" {
			return a4, a6, fmt.Errorf("status.addresses[%d]: %.50q is no address", i, at.Address)
		}
		a4, a6 = choose(a, a4, a6)
	}
	return a4, a6, nil
}

// choose sets the address of a's family unless it is set.
func choose(a, a4, a6 netip.Addr) (netip.Addr, netip.Addr) {
	if a.Is4() && !a4.IsValid() {
		return a, a6
	}
	if a.Is6() && !a6.IsValid() {
		return a4, a
	}
	return a4, a6
}

// backend reads the annotations of the backend. A node without any has no backend yet.
func backend(annotations map[string]string) (string, overlay.Data, error) {
	name, named := annotations[BackendAnnotation]
	text, described := annotations[DataAnnotation]
	if !named && !described {
		return "", overlay.Data{}, nil
	}
	if name == "" {
		return "", overlay.Data{}, errors.New(BackendAnnotation + ": missing or empty")
	}
	if len(name) > maxBackend {
		return "", overlay.Data{}, fmt.Errorf("%s: %d bytes, more than %d", BackendAnnotation, len(name), maxBackend)
	}
	if !described {
		return name, overlay.Data{}, nil
	}
	data, err := overlay.ParseData([]byte(text))
	if err != nil {
		return "", overlay.Data{}, fmt.Errorf("%s: %w", DataAnnotation, err)
	}
	return name, data, nil
}
