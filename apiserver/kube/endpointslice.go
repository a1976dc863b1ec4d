package kube

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/planekit/planekit/apiserver"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Limits of an endpoint slice
// (https://kubernetes.io/docs/reference/kubernetes-api/service-resources/endpoint-slice-v1/).
const (
	maxSliceEndpoints = 1000
	maxSliceAddresses = 100
	maxSlicePorts     = 20000
	maxSliceTopology  = 16
	maxSliceHints     = 8
)

func endpointSlices() apiserver.Resource {
	type slice = discoveryv1.EndpointSlice
	doc := discoveryv1.EndpointSlice{}.SwaggerDoc()
	return apiserver.Resource{
		Group:      discoveryv1.GroupName,
		Version:    "v1",
		Kind:       "EndpointSlice",
		Plural:     "endpointslices",
		Namespaced: true,
		New:        func() runtime.Object { return &slice{} },
		NewList:    func() runtime.Object { return &discoveryv1.EndpointSliceList{} },
		Strategy: strategy[*slice]{
			complete: completeEndpointSlice,
			create: func(s *slice) {
				s.Generation = 1
				dropTopology(s, &slice{})
			},
			update:   updateEndpointSlice,
			validate: func(s *slice) field.ErrorList { return validateEndpointSlice(s, nil) },
			validateUpdate: func(s, old *slice) field.ErrorList {
				ps := problems{list: validateEndpointSlice(s, old)}
				ps.immutable(field.NewPath("addressType"), s.AddressType, old.AddressType)
				return ps.list
			},
		}.erase(),
		Columns: []apiserver.Column{
			text("AddressType", doc["addressType"], func(s *slice) string { return string(s.AddressType) }),
			text("Ports", doc["ports"], slicePorts),
			text("Endpoints", doc["endpoints"], sliceAddresses),
			age[*slice](),
		},
	}
}

// updateEndpointSlice counts every change but one of metadata, labels excepted.
func updateEndpointSlice(s, old *discoveryv1.EndpointSlice) {
	s.Generation = nextGeneration(old.Generation, s.AddressType != old.AddressType ||
		differ(s.Endpoints, old.Endpoints) || differ(s.Ports, old.Ports) || differ(s.Labels, old.Labels))
	if differ(s.Endpoints, old.Endpoints) {
		dropTopology(s, old)
	}
}

// dropTopology drops what this version of the API only shows. A node that was
// known from there becomes the endpoint's node.
func dropTopology(s, old *discoveryv1.EndpointSlice) {
	nodes := map[string]bool{}
	for _, e := range old.Endpoints {
		nodes[e.DeprecatedTopology[corev1.LabelHostname]] = true
	}
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		if node := e.DeprecatedTopology[corev1.LabelHostname]; e.NodeName == nil && node != "" && nodes[node] {
			e.NodeName = &node
		}
		e.DeprecatedTopology = nil
	}
}

func completeEndpointSlice(s *discoveryv1.EndpointSlice) {
	for i := range s.Ports {
		setIfNil(&s.Ports[i].Name, "")
		setIfNil(&s.Ports[i].Protocol, corev1.ProtocolTCP)
	}
}

// slicePorts and sliceAddresses show as many as kubectl does.
func slicePorts(s *discoveryv1.EndpointSlice) string {
	var out []string
	for _, p := range s.Ports {
		switch {
		case p.Port != nil:
			out = append(out, strconv.Itoa(int(*p.Port)))
		case p.Name != nil:
			out = append(out, *p.Name)
		default:
			out = append(out, "*")
		}
	}
	if len(out) == 0 {
		return "<unset>"
	}
	return firstThree(out)
}

func sliceAddresses(s *discoveryv1.EndpointSlice) string {
	var out []string
	for _, e := range s.Endpoints {
		out = append(out, e.Addresses...)
	}
	if len(out) == 0 {
		return "<unset>"
	}
	return firstThree(out)
}

func firstThree(all []string) string {
	if len(all) > shownEndpoints {
		return fmt.Sprintf("%s + %d more...", strings.Join(all[:shownEndpoints], ","), len(all)-shownEndpoints)
	}
	return strings.Join(all, ",")
}

// validateEndpointSlice lets endpoints that did not change be what they were.
func validateEndpointSlice(s, old *discoveryv1.EndpointSlice) field.ErrorList {
	var ps problems
	someOf(&ps, field.NewPath("addressType"), s.AddressType,
		discoveryv1.AddressTypeFQDN, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6)
	checkSlicePorts(&ps, field.NewPath("ports"), s.Ports)
	if old != nil && !differ(s.Endpoints, old.Endpoints) {
		return ps.list
	}
	p := field.NewPath("endpoints")
	if len(s.Endpoints) > maxSliceEndpoints {
		ps.add(field.TooMany(p, len(s.Endpoints), maxSliceEndpoints))
		return ps.list
	}
	for i := range s.Endpoints {
		checkSliceEndpoint(&ps, p.Index(i), &s.Endpoints[i], s.AddressType)
	}
	return ps.list
}

func checkSlicePorts(ps *problems, p *field.Path, ports []discoveryv1.EndpointPort) {
	if len(ports) > maxSlicePorts {
		ps.add(field.TooMany(p, len(ports), maxSlicePorts))
		return
	}
	seen := map[string]bool{}
	for i, port := range ports {
		at, name := p.Index(i), deref(port.Name)
		if name != "" {
			ps.dnsLabel(at.Child("name"), name)
		}
		ps.unique(!seen[name], at.Child("name"), port.Name)
		seen[name] = true
		if port.Protocol == nil {
			ps.add(field.Required(at.Child("protocol"), ""))
		} else {
			oneOf(ps, at.Child("protocol"), *port.Protocol, protocols...)
		}
		if port.AppProtocol != nil {
			ps.each(at.Child("appProtocol"), *port.AppProtocol, validation.IsQualifiedName(*port.AppProtocol))
		}
	}
}

func checkSliceEndpoint(ps *problems, p *field.Path, e *discoveryv1.Endpoint, kind discoveryv1.AddressType) {
	at := p.Child("addresses")
	ps.present(len(e.Addresses) > 0, at, "must contain at least 1 address")
	ps.atMost(at, len(e.Addresses), maxSliceAddresses)
	for i, address := range e.Addresses {
		checkSliceAddress(ps, at, i, address, kind)
	}
	if e.NodeName != nil {
		ps.subdomain(p.Child("nodeName"), *e.NodeName)
	}
	ps.atMost(p.Child("deprecatedTopology"), len(e.DeprecatedTopology), maxSliceTopology)
	ps.labels(p.Child("deprecatedTopology"), e.DeprecatedTopology)
	if e.Hostname != nil {
		ps.dnsLabel(p.Child("hostname"), *e.Hostname)
	}
	if e.Hints != nil {
		checkSliceHints(ps, p.Child("hints"), e.Hints)
	}
}

func checkSliceAddress(ps *problems, p *field.Path, i int, address string, kind discoveryv1.AddressType) {
	at := p.Index(i)
	var errs field.ErrorList
	switch kind {
	case discoveryv1.AddressTypeIPv4:
		errs = validation.IsValidIPForLegacyField(at, address, true, nil)
	case discoveryv1.AddressTypeIPv6:
		errs = validation.IsValidIP(at, address)
	case discoveryv1.AddressTypeFQDN:
		ps.all(validation.IsFullyQualifiedDomainName(at, address))
		return
	default:
		return
	}
	if len(errs) > 0 {
		ps.all(errs)
		return
	}
	ps.valid(string(familyOf(address)) == string(kind), p, address, fmt.Sprintf("must be an %s address", kind))
	checkEndpointIP(ps, at, address)
}

func checkSliceHints(ps *problems, p *field.Path, h *discoveryv1.EndpointHints) {
	var zones, nodes []string
	for _, z := range h.ForZones {
		zones = append(zones, z.Name)
	}
	for _, n := range h.ForNodes {
		nodes = append(nodes, n.Name)
	}
	for _, hint := range []struct {
		path  string
		names []string
		check func(string) []string
	}{{"forZones", zones, validation.IsValidLabelValue}, {"forNodes", nodes, validation.IsDNS1123Subdomain}} {
		at := p.Child(hint.path)
		if len(hint.names) > maxSliceHints {
			ps.add(field.TooMany(at, len(hint.names), maxSliceHints))
			return
		}
		for i, name := range hint.names {
			ps.unique(!slices.Contains(hint.names[:i], name), at.Index(i).Child("name"), name)
			ps.each(at.Index(i).Child("name"), name, hint.check(name))
		}
	}
}
