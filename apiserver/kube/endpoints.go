//lint:file-ignore SA1019 clients still read and write them

package kube

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/planekit/planekit/apiserver"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func endpoints() apiserver.Resource {
	doc := corev1.Endpoints{}.SwaggerDoc()
	return apiserver.Resource{
		Version:    "v1",
		Kind:       "Endpoints",
		Plural:     "endpoints",
		ShortNames: []string{"ep"},
		Namespaced: true,
		New:        func() runtime.Object { return &corev1.Endpoints{} },
		NewList:    func() runtime.Object { return &corev1.EndpointsList{} },
		Strategy: strategy[*corev1.Endpoints]{
			complete: func(e *corev1.Endpoints) {
				for i := range e.Subsets {
					for j := range e.Subsets[i].Ports {
						setIfEmpty(&e.Subsets[i].Ports[j].Protocol, corev1.ProtocolTCP)
					}
				}
			},
			validate: validateEndpoints,
			validateUpdate: func(e, old *corev1.Endpoints) field.ErrorList {
				if !differ(e.Subsets, old.Subsets) {
					return nil // they may have been valid once
				}
				return validateEndpoints(e)
			},
		}.erase(),
		Columns: []apiserver.Column{
			text("Endpoints", doc["subsets"], endpointsText),
			age[*corev1.Endpoints](),
		},
	}
}

func validateEndpoints(e *corev1.Endpoints) field.ErrorList {
	var ps problems
	for i, s := range e.Subsets {
		p := field.NewPath("subsets").Index(i)
		ps.present(len(s.Addresses)+len(s.NotReadyAddresses) > 0, p, "must specify `addresses` or `notReadyAddresses`")
		for j := range s.Addresses {
			checkEndpointAddress(&ps, p.Child("addresses").Index(j), &s.Addresses[j])
		}
		for j := range s.NotReadyAddresses {
			checkEndpointAddress(&ps, p.Child("notReadyAddresses").Index(j), &s.NotReadyAddresses[j])
		}
		for j, port := range s.Ports {
			at := p.Child("ports").Index(j)
			if port.Name != "" {
				ps.dnsLabel(at.Child("name"), port.Name)
			} else if len(s.Ports) > 1 {
				ps.add(field.Required(at.Child("name"), ""))
			}
			ps.each(at.Child("port"), port.Port, validation.IsValidPortNum(int(port.Port)))
			someOf(&ps, at.Child("protocol"), port.Protocol, protocols...)
			if port.AppProtocol != nil {
				ps.each(at.Child("appProtocol"), *port.AppProtocol, validation.IsQualifiedName(*port.AppProtocol))
			}
		}
	}
	return ps.list
}

func checkEndpointAddress(ps *problems, p *field.Path, a *corev1.EndpointAddress) {
	ps.all(validation.IsValidIPForLegacyField(p.Child("ip"), a.IP, true, nil))
	if a.Hostname != "" {
		ps.dnsLabel(p.Child("hostname"), a.Hostname)
	}
	if a.NodeName != nil {
		ps.subdomain(p.Child("nodeName"), *a.NodeName)
	}
	checkEndpointIP(ps, p.Child("ip"), a.IP)
}

// shownEndpoints is how many kubectl shows.
const shownEndpoints = 3

func endpointsText(e *corev1.Endpoints) string {
	if len(e.Subsets) == 0 {
		return none
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
	if len(all) > shownEndpoints {
		return fmt.Sprintf("%s + %d more...", strings.Join(all[:shownEndpoints], ","), len(all)-shownEndpoints)
	}
	return strings.Join(all, ",")
}
