package core

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func serviceColumns() []apiserver.Column {
	doc := corev1.ServiceSpec{}.SwaggerDoc()
	return append([]apiserver.Column{
		column.Text("Type", doc["type"], func(s *corev1.Service) string { return string(s.Spec.Type) }),
		column.Text("Cluster-IP", doc["clusterIP"], func(s *corev1.Service) string {
			if len(s.Spec.ClusterIPs) == 0 {
				return column.None
			}
			return s.Spec.ClusterIPs[0]
		}),
		column.Text("External-IP", doc["externalIPs"], serviceExternalIP),
		column.Text("Port(s)", doc["ports"], servicePortText),
		column.Age[*corev1.Service](),
	}, column.Wide(column.Text("Selector", doc["selector"], func(s *corev1.Service) string { return labels.FormatLabels(s.Spec.Selector) }))...)
}

// serviceExternalIP returns all addresses, with and without -o wide; kubectl used to cut the list
// of load balancers.
func serviceExternalIP(s *corev1.Service) string {
	external := s.Spec.ExternalIPs
	switch s.Spec.Type {
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort:
		return column.OrNone(strings.Join(external, ","))
	case corev1.ServiceTypeExternalName:
		return s.Spec.ExternalName
	case corev1.ServiceTypeLoadBalancer:
		if all := slices.Concat(balancers(&s.Status.LoadBalancer), external); len(all) > 0 {
			return strings.Join(all, ",")
		}
		return "<pending>"
	}
	return column.Unknown
}

// balancers returns the addresses or names of load balancers, sorted and without duplicates.
func balancers(s *corev1.LoadBalancerStatus) []string {
	var out []string
	for _, in := range s.Ingress {
		if name := cmp.Or(in.IP, in.Hostname); name != "" {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func servicePortText(s *corev1.Service) string {
	var out []string
	for _, p := range s.Spec.Ports {
		if p.NodePort > 0 {
			out = append(out, fmt.Sprintf("%d:%d/%s", p.Port, p.NodePort, p.Protocol))
		} else {
			out = append(out, fmt.Sprintf("%d/%s", p.Port, p.Protocol))
		}
	}
	return column.OrNone(strings.Join(out, ","))
}
