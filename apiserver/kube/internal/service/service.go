package service

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	"github.com/planekit/planekit/kinds"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Resource returns the resource of the kind Service, which allocates from the ranges of c.
func Resource(c Config) apiserver.Resource {
	r := apiserver.For(kinds.Services, apiserver.Resource{
		CreateOnUpdate: true,
		Strategy: define.Strategy[*corev1.Service]{
			Default: completeService,
			Create: func(s *corev1.Service) {
				s.Status = corev1.ServiceStatus{}
				if s.Spec.ClusterIP != "" && len(s.Spec.ClusterIPs) == 0 {
					s.Spec.ClusterIPs = []string{s.Spec.ClusterIP} // of a client that knows only the singular
				}
			},
			Update:         updateService,
			Validate:       validateService,
			ValidateUpdate: validateServiceUpdate,
		}.Erase(),
		Columns: serviceColumns(),
		Fields: define.Fields[*corev1.Service]{
			"spec.clusterIP": func(s *corev1.Service) string { return s.Spec.ClusterIP },
			"spec.type":      func(s *corev1.Service) string { return string(s.Spec.Type) },
		}.Erase(),
		Subresources: []apiserver.Subresource{
			define.Status(define.Strategy[*corev1.Service]{
				Update:         func(s, old *corev1.Service) { old.Spec.DeepCopyInto(&s.Spec) },
				ValidateUpdate: validateServiceStatus,
			}),
		},
		Allocation: c.serviceAllocation(),
	})
	r.Strategy.ValidateName = apivalidation.NameIsDNSLabel
	return r
}

// completeService defaults the fields that depend on the service alone; addresses and node ports are
// allocated.
func completeService(s *corev1.Service) {
	spec := &s.Spec
	optional.SetIfEmpty(&spec.SessionAffinity, corev1.ServiceAffinityNone)
	switch spec.SessionAffinity {
	case corev1.ServiceAffinityNone:
		spec.SessionAffinityConfig = nil
	case corev1.ServiceAffinityClientIP:
		c := spec.SessionAffinityConfig
		if c == nil || c.ClientIP == nil || c.ClientIP.TimeoutSeconds == nil {
			spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{
				ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(corev1.DefaultClientIPServiceAffinitySeconds)},
			}
		}
	}
	optional.SetIfEmpty(&spec.Type, corev1.ServiceTypeClusterIP)
	for i := range spec.Ports {
		port := &spec.Ports[i]
		optional.SetIfEmpty(&port.Protocol, corev1.ProtocolTCP)
		if port.TargetPort == intstr.FromInt32(0) || port.TargetPort == intstr.FromString("") {
			port.TargetPort = intstr.FromInt32(port.Port)
		}
	}
	if reachableOutside(s) {
		optional.SetIfEmpty(&spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
	}
	if spec.Type == corev1.ServiceTypeClusterIP || hasNodePorts(s) {
		optional.SetIfNil(&spec.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	}
	if spec.Type == corev1.ServiceTypeLoadBalancer {
		optional.SetIfNil(&spec.AllocateLoadBalancerNodePorts, true)
		for i := range s.Status.LoadBalancer.Ingress {
			if in := &s.Status.LoadBalancer.Ingress[i]; in.IP != "" {
				optional.SetIfNil(&in.IPMode, corev1.LoadBalancerIPModeVIP)
			}
		}
	}
}

// reachableOutside reports whether traffic from outside the cluster may come in.
func reachableOutside(s *corev1.Service) bool {
	return hasNodePorts(s) || s.Spec.Type == corev1.ServiceTypeClusterIP && len(s.Spec.ExternalIPs) > 0
}

func hasNodePorts(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeNodePort || s.Spec.Type == corev1.ServiceTypeLoadBalancer
}

func hasClusterIP(s *corev1.Service) bool { return s.Spec.Type != corev1.ServiceTypeExternalName }

// hasHealthCheck reports whether a load balancer asks nodes on a port of its own
// whether they have an endpoint.
func hasHealthCheck(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

func headless(s *corev1.Service) bool {
	return len(s.Spec.ClusterIPs) == 1 && s.Spec.ClusterIPs[0] == corev1.ClusterIPNone
}

// updateService keeps allocated values that a client leaves out or sets in the singular field only.
// It drops the values that the new type of the service does not use, unless the client changed them
// too.
func updateService(s, old *corev1.Service) {
	old.Status.DeepCopyInto(&s.Status)
	keepAllocated(s, old)
	followClusterIP(s, old)
	dropUnused(s, old)
}

func keepAllocated(s, old *corev1.Service) {
	if hasClusterIP(s) && hasClusterIP(old) {
		optional.SetIfEmpty(&s.Spec.ClusterIP, old.Spec.ClusterIP)
		if len(s.Spec.ClusterIPs) == 0 {
			s.Spec.ClusterIPs = slices.Clone(old.Spec.ClusterIPs)
		}
	}
	if hasNodePorts(s) && hasNodePorts(old) {
		used, were := map[int32]bool{}, map[string]int32{}
		for _, n := range nodePorts(s) {
			used[n] = true
		}
		for _, port := range old.Spec.Ports { // the last, where names are not unique
			were[port.Name] = port.NodePort
		}
		for i := range s.Spec.Ports {
			port := &s.Spec.Ports[i]
			if was := were[port.Name]; port.NodePort == 0 && !used[was] {
				port.NodePort = was
			}
		}
	}
	if hasHealthCheck(s) && hasHealthCheck(old) {
		optional.SetIfEmpty(&s.Spec.HealthCheckNodePort, old.Spec.HealthCheckNodePort)
	}
}

func nodePorts(s *corev1.Service) []int32 {
	var out []int32
	for _, port := range s.Spec.Ports {
		if port.NodePort != 0 {
			out = append(out, port.NodePort)
		}
	}
	return out
}

// followClusterIP adapts clusterIPs to a client that has changed clusterIP only.
func followClusterIP(s, old *corev1.Service) {
	if s.Spec.ClusterIP == old.Spec.ClusterIP || !slices.Equal(s.Spec.ClusterIPs, old.Spec.ClusterIPs) {
		return
	}
	s.Spec.ClusterIPs = nil
	if s.Spec.ClusterIP != "" {
		s.Spec.ClusterIPs = []string{s.Spec.ClusterIP}
	}
}

func dropUnused(s, old *corev1.Service) {
	spec, was := &s.Spec, &old.Spec
	if hasClusterIP(old) && !hasClusterIP(s) {
		if spec.ClusterIP == was.ClusterIP && slices.Equal(spec.ClusterIPs, was.ClusterIPs) {
			spec.ClusterIP, spec.ClusterIPs = "", nil
		}
		if slices.Equal(spec.IPFamilies, was.IPFamilies) {
			spec.IPFamilies = nil
		}
		if optional.Deref(spec.IPFamilyPolicy) == optional.Deref(was.IPFamilyPolicy) {
			spec.IPFamilyPolicy = nil
		}
	}
	if hasNodePorts(old) && !hasNodePorts(s) && subset(nodePorts(s), nodePorts(old)) {
		for i := range spec.Ports {
			spec.Ports[i].NodePort = 0
		}
	}
	if hasHealthCheck(old) && !hasHealthCheck(s) && spec.HealthCheckNodePort == was.HealthCheckNodePort {
		spec.HealthCheckNodePort = 0
	}
	if was.Type == corev1.ServiceTypeLoadBalancer && spec.Type != corev1.ServiceTypeLoadBalancer {
		if !define.Differ(spec.AllocateLoadBalancerNodePorts, was.AllocateLoadBalancerNodePorts) {
			spec.AllocateLoadBalancerNodePorts = nil
		}
		if !define.Differ(spec.LoadBalancerClass, was.LoadBalancerClass) {
			spec.LoadBalancerClass = nil
		}
	}
	if reachableOutside(old) && !reachableOutside(s) && spec.ExternalTrafficPolicy == was.ExternalTrafficPolicy {
		spec.ExternalTrafficPolicy = ""
	}
	if spec.Type != corev1.ServiceTypeLoadBalancer {
		s.Status.LoadBalancer = corev1.LoadBalancerStatus{}
	}
}

func subset(part, whole []int32) bool {
	all := map[int32]bool{}
	for _, n := range whole {
		all[n] = true
	}
	for _, n := range part {
		if !all[n] {
			return false
		}
	}
	return true
}

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
