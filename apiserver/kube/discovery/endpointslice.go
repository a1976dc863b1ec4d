package discovery

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	"github.com/planekit/planekit/apiserver/kube/internal/podspec"
	"github.com/planekit/planekit/kinds"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
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

// EndpointSlices returns the resource of the kind EndpointSlice.
func EndpointSlices() apiserver.Resource {
	type slice = discoveryv1.EndpointSlice
	doc := discoveryv1.EndpointSlice{}.SwaggerDoc()
	return apiserver.For(kinds.EndpointSlices, apiserver.Resource{
		Strategy: define.Strategy[*slice]{
			Default: completeEndpointSlice,
			Create: func(s *slice) {
				s.Generation = 1
				dropTopology(s, &slice{})
				noEndpoints(s)
			},
			Update:   updateEndpointSlice,
			Validate: func(s *slice) field.ErrorList { return validateEndpointSlice(s, nil) },
			ValidateUpdate: func(s, old *slice) field.ErrorList {
				ps := check.Problems{List: validateEndpointSlice(s, old)}
				ps.Immutable(field.NewPath("addressType"), s.AddressType, old.AddressType)
				return ps.List
			},
		}.Erase(),
		Columns: []apiserver.Column{
			column.Text("AddressType", doc["addressType"], func(s *slice) string { return string(s.AddressType) }),
			column.Text("Ports", doc["ports"], slicePorts),
			column.Text("Endpoints", doc["endpoints"], sliceAddresses),
			column.Age[*slice](),
		},
	})
}

// updateEndpointSlice raises the generation for every change outside metadata, and for changes of
// labels.
func updateEndpointSlice(s, old *discoveryv1.EndpointSlice) {
	s.Generation = define.NextGeneration(old.Generation, s.AddressType != old.AddressType ||
		define.Differ(s.Endpoints, old.Endpoints) || define.Differ(s.Ports, old.Ports) || define.Differ(s.Labels, old.Labels))
	if define.Differ(s.Endpoints, old.Endpoints) {
		dropTopology(s, old)
	}
	noEndpoints(s)
}

// noEndpoints has no endpoints and no ports be null, as they are in Kubernetes, which stores protobuf.
func noEndpoints(s *discoveryv1.EndpointSlice) {
	if len(s.Endpoints) == 0 {
		s.Endpoints = nil
	}
	if len(s.Ports) == 0 {
		s.Ports = nil
	}
}

// dropTopology drops a field that this version of the API only shows. The node in it becomes the
// endpoint's node.
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
		optional.SetIfNil(&s.Ports[i].Name, "")
		optional.SetIfNil(&s.Ports[i].Protocol, corev1.ProtocolTCP)
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
	if len(all) > column.MaxEndpoints {
		return fmt.Sprintf("%s + %d more...", strings.Join(all[:column.MaxEndpoints], ","), len(all)-column.MaxEndpoints)
	}
	return strings.Join(all, ",")
}

// validateEndpointSlice accepts endpoints that did not change as they are.
func validateEndpointSlice(s, old *discoveryv1.EndpointSlice) field.ErrorList {
	var ps check.Problems
	check.RequiredOneOf(&ps, field.NewPath("addressType"), s.AddressType,
		discoveryv1.AddressTypeFQDN, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6)
	checkSlicePorts(&ps, field.NewPath("ports"), s.Ports)
	if old != nil && !define.Differ(s.Endpoints, old.Endpoints) {
		return ps.List
	}
	p := field.NewPath("endpoints")
	if len(s.Endpoints) > maxSliceEndpoints {
		ps.Add(field.TooMany(p, len(s.Endpoints), maxSliceEndpoints))
		return ps.List
	}
	for i := range s.Endpoints {
		checkSliceEndpoint(&ps, p.Index(i), &s.Endpoints[i], s.AddressType)
	}
	return ps.List
}

func checkSlicePorts(ps *check.Problems, p *field.Path, ports []discoveryv1.EndpointPort) {
	if len(ports) > maxSlicePorts {
		ps.Add(field.TooMany(p, len(ports), maxSlicePorts))
		return
	}
	seen := map[string]bool{}
	for i, port := range ports {
		at, name := p.Index(i), optional.Deref(port.Name)
		if name != "" {
			ps.DNSLabel(at.Child("name"), name)
		}
		ps.Unique(!seen[name], at.Child("name"), port.Name)
		seen[name] = true
		if port.Protocol == nil {
			ps.Add(field.Required(at.Child("protocol"), ""))
		} else {
			check.OneOf(ps, at.Child("protocol"), *port.Protocol, podspec.Protocols...)
		}
		if port.AppProtocol != nil {
			ps.Each(at.Child("appProtocol"), *port.AppProtocol, validation.IsQualifiedName(*port.AppProtocol))
		}
	}
}

func checkSliceEndpoint(ps *check.Problems, p *field.Path, e *discoveryv1.Endpoint, kind discoveryv1.AddressType) {
	at := p.Child("addresses")
	ps.Present(len(e.Addresses) > 0, at, "must contain at least 1 address")
	ps.AtMost(at, len(e.Addresses), maxSliceAddresses)
	for i, address := range e.Addresses {
		checkSliceAddress(ps, at, i, address, kind)
	}
	if e.NodeName != nil {
		ps.Subdomain(p.Child("nodeName"), *e.NodeName)
	}
	ps.AtMost(p.Child("deprecatedTopology"), len(e.DeprecatedTopology), maxSliceTopology)
	ps.Labels(p.Child("deprecatedTopology"), e.DeprecatedTopology)
	if e.Hostname != nil {
		ps.DNSLabel(p.Child("hostname"), *e.Hostname)
	}
	if e.Hints != nil {
		checkSliceHints(ps, p.Child("hints"), e.Hints)
	}
}

func checkSliceAddress(ps *check.Problems, p *field.Path, i int, address string, kind discoveryv1.AddressType) {
	at := p.Index(i)
	var errs field.ErrorList
	switch kind {
	case discoveryv1.AddressTypeIPv4:
		errs = validation.IsValidIPForLegacyField(at, address, true, nil)
	case discoveryv1.AddressTypeIPv6:
		errs = validation.IsValidIP(at, address)
	case discoveryv1.AddressTypeFQDN:
		ps.All(validation.IsFullyQualifiedDomainName(at, address))
		return
	default:
		return
	}
	if len(errs) > 0 {
		ps.All(errs)
		return
	}
	ps.Valid(string(check.FamilyOf(address)) == string(kind), p, address, fmt.Sprintf("must be an %s address", kind))
	check.EndpointIP(ps, at, address)
}

func checkSliceHints(ps *check.Problems, p *field.Path, h *discoveryv1.EndpointHints) {
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
			ps.Add(field.TooMany(at, len(hint.names), maxSliceHints))
			return
		}
		for i, name := range hint.names {
			ps.Unique(!slices.Contains(hint.names[:i], name), at.Index(i).Child("name"), name)
			ps.Each(at.Index(i).Child("name"), name, hint.check(name))
		}
	}
}
