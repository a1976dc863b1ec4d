//lint:file-ignore SA1019 clients still read and write them

package core

import (
	"fmt"
	"net"
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
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Endpoints returns the resource of the kind Endpoints.
func Endpoints() apiserver.Resource {
	doc := corev1.Endpoints{}.SwaggerDoc()
	return apiserver.For(kinds.Endpoints, apiserver.Resource{
		CreateOnUpdate: true,
		Strategy: define.Strategy[*corev1.Endpoints]{
			Default: func(e *corev1.Endpoints) {
				for i := range e.Subsets {
					for j := range e.Subsets[i].Ports {
						optional.SetIfEmpty(&e.Subsets[i].Ports[j].Protocol, corev1.ProtocolTCP)
					}
				}
			},
			Validate: validateEndpoints,
			ValidateUpdate: func(e, old *corev1.Endpoints) field.ErrorList {
				if !define.Differ(e.Subsets, old.Subsets) {
					return nil // they may have been valid once
				}
				return validateEndpoints(e)
			},
		}.Erase(),
		Columns: []apiserver.Column{
			column.Text("Endpoints", doc["subsets"], endpointsText),
			column.Age[*corev1.Endpoints](),
		},
	})
}

func validateEndpoints(e *corev1.Endpoints) field.ErrorList {
	var ps check.Problems
	for i, s := range e.Subsets {
		p := field.NewPath("subsets").Index(i)
		ps.Present(len(s.Addresses)+len(s.NotReadyAddresses) > 0, p, "must specify `addresses` or `notReadyAddresses`")
		for j := range s.Addresses {
			checkEndpointAddress(&ps, p.Child("addresses").Index(j), &s.Addresses[j])
		}
		for j := range s.NotReadyAddresses {
			checkEndpointAddress(&ps, p.Child("notReadyAddresses").Index(j), &s.NotReadyAddresses[j])
		}
		for j, port := range s.Ports {
			at := p.Child("ports").Index(j)
			if port.Name != "" {
				ps.DNSLabel(at.Child("name"), port.Name)
			} else if len(s.Ports) > 1 {
				ps.Add(field.Required(at.Child("name"), ""))
			}
			ps.Each(at.Child("port"), port.Port, validation.IsValidPortNum(int(port.Port)))
			check.RequiredOneOf(&ps, at.Child("protocol"), port.Protocol, podspec.Protocols...)
			if port.AppProtocol != nil {
				ps.Each(at.Child("appProtocol"), *port.AppProtocol, validation.IsQualifiedName(*port.AppProtocol))
			}
		}
	}
	return ps.List
}

func checkEndpointAddress(ps *check.Problems, p *field.Path, a *corev1.EndpointAddress) {
	ps.All(validation.IsValidIPForLegacyField(p.Child("ip"), a.IP, true, nil))
	if a.Hostname != "" {
		ps.DNSLabel(p.Child("hostname"), a.Hostname)
	}
	if a.NodeName != nil {
		ps.Subdomain(p.Child("nodeName"), *a.NodeName)
	}
	check.EndpointIP(ps, p.Child("ip"), a.IP)
}

func endpointsText(e *corev1.Endpoints) string {
	if len(e.Subsets) == 0 {
		return column.None
	}
	var all []string
	for _, s := range e.Subsets {
		for _, a := range s.Addresses {
			if len(s.Ports) == 0 { // as headless services may
				all = append(all, a.IP)
			}
		}
		for _, port := range s.Ports {
			for _, a := range s.Addresses {
				all = append(all, net.JoinHostPort(a.IP, strconv.Itoa(int(port.Port))))
			}
		}
	}
	if len(all) > column.MaxEndpoints {
		return fmt.Sprintf("%s + %d more...", strings.Join(all[:column.MaxEndpoints], ","), len(all)-column.MaxEndpoints)
	}
	return strings.Join(all, ",")
}
