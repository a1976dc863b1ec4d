package endpoints

import (
	"fmt"
	"slices"
	"strings"

	"github.com/planekit/planekit/reconcile/controllers/internal/optional"
	"github.com/planekit/planekit/reconcile/controllers/internal/podstatus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var serviceKind = corev1.SchemeGroupVersion.WithKind("Service")

// addressTypes returns the address families of the slices of service, that of its first address
// first.
func addressTypes(service *corev1.Service) []discoveryv1.AddressType {
	var types []discoveryv1.AddressType
	for _, family := range service.Spec.IPFamilies {
		types = append(types, discoveryv1.AddressType(family)) // the same words
	}
	if len(types) > 0 {
		return types
	}
	// Without families, which an old server does not set, the address decides.
	if headless(service) {
		return []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6}
	}
	if _, six := addressOf(service.Spec.ClusterIP, true); six {
		return []discoveryv1.AddressType{discoveryv1.AddressTypeIPv6}
	}
	return []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4}
}

func ownedByService(slice *discoveryv1.EndpointSlice, service *corev1.Service) bool {
	return slices.ContainsFunc(slice.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.UID == service.UID && o.Kind == serviceKind.Kind && o.APIVersion == "v1"
	})
}

// sliceLabels returns the labels of the slices of service: its own labels, except for those that
// the controller sets itself.
func sliceLabels(service *corev1.Service) map[string]string {
	labels := make(map[string]string, len(service.Labels)+3)
	for name, value := range service.Labels {
		labels[name] = value
	}
	delete(labels, corev1.IsHeadlessService)
	if headless(service) {
		labels[corev1.IsHeadlessService] = ""
	}
	labels[discoveryv1.LabelServiceName] = service.Name
	labels[discoveryv1.LabelManagedBy] = slicesManager
	return labels
}

// endpoint returns the endpoint of pod for the service.
func (p *slicePlanner) endpoint(family discoveryv1.AddressType, pod *corev1.Pod) *discoveryv1.Endpoint {
	serving, terminating := podstatus.Ready(pod), pod.DeletionTimestamp != nil
	// A terminating pod is not ready, for clients that look at nothing else.
	isReady := p.service.Spec.PublishNotReadyAddresses || serving && !terminating
	e := &discoveryv1.Endpoint{
		Conditions: discoveryv1.EndpointConditions{Ready: &isReady, Serving: &serving, Terminating: &terminating},
		TargetRef:  podReference(pod),
	}
	for _, ip := range pod.Status.PodIPs {
		if address, ok := addressOf(ip.IP, family == discoveryv1.AddressTypeIPv6); ok {
			e.Addresses = append(e.Addresses, address)
		}
	}
	if pod.Spec.NodeName != "" {
		e.NodeName = &pod.Spec.NodeName
	}
	if zone, _ := p.zone(pod.Spec.NodeName); zone != "" {
		e.Zone = &zone
	}
	if hostname := hostnameIn(p.service, pod); hostname != "" {
		e.Hostname = &hostname
	}
	if isReady {
		e.Hints = hints(p.service, e)
	}
	return e
}

// hints returns the zone that an endpoint serves first, if the service wants traffic to stay close.
func hints(service *corev1.Service, e *discoveryv1.Endpoint) *discoveryv1.EndpointHints {
	if service.Spec.TrafficDistribution == nil || topologyAware(service.Annotations) {
		return nil
	}
	h := &discoveryv1.EndpointHints{}
	switch *service.Spec.TrafficDistribution {
	case corev1.ServiceTrafficDistributionPreferSameNode:
		if e.NodeName != nil {
			h.ForNodes = []discoveryv1.ForNode{{Name: *e.NodeName}}
		}
	case corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone:
	default:
		return nil
	}
	if e.Zone != nil {
		h.ForZones = []discoveryv1.ForZone{{Name: *e.Zone}}
	}
	if h.ForNodes == nil && h.ForZones == nil {
		return nil
	}
	return h
}

// topologyAware reports whether hints depend on the sizes of zones, by an older annotation that
// takes precedence. This controller does not support it.
func topologyAware(annotations map[string]string) bool {
	value, ok := annotations[corev1.DeprecatedAnnotationTopologyAwareHints]
	if !ok {
		value = annotations[corev1.AnnotationTopologyMode]
	}
	return value == "Auto" || value == "auto"
}

// slicePorts returns the ports of pods that the service leads to.
func slicePorts(service *corev1.Service, leads []target) []discoveryv1.EndpointPort {
	var ports []discoveryv1.EndpointPort
	for _, to := range leads {
		port := &service.Spec.Ports[to.index]
		ports = append(ports, discoveryv1.EndpointPort{
			Name: &port.Name, Port: &to.number, Protocol: &port.Protocol, AppProtocol: port.AppProtocol,
		})
	}
	return ports
}

// portsKey returns a key that is the same for the same ports in any order.
func portsKey(ports []discoveryv1.EndpointPort) string {
	words := make([]string, len(ports))
	for i, p := range ports {
		words[i] = fmt.Sprintf("%q %d %s %q", optional.Value(p.Name, ""), optional.Value(p.Port, 0), optional.Value(p.Protocol, ""), optional.Value(p.AppProtocol, ""))
	}
	slices.Sort(words)
	return strings.Join(words, ",")
}

// sameEndpoint reports whether two endpoints with the same key have the same contents.
func sameEndpoint(a, b *discoveryv1.Endpoint) bool {
	return same(a.NodeName, b.NodeName) && same(a.Zone, b.Zone) &&
		same(a.Conditions.Ready, b.Conditions.Ready) &&
		same(a.Conditions.Serving, b.Conditions.Serving) &&
		same(a.Conditions.Terminating, b.Conditions.Terminating) &&
		(a.TargetRef == nil) == (b.TargetRef == nil) &&
		(a.TargetRef == nil || a.TargetRef.UID == b.TargetRef.UID && a.TargetRef.Kind == b.TargetRef.Kind) &&
		sameHints(a.Hints, b.Hints)
}

func sameHints(a, b *discoveryv1.EndpointHints) bool {
	if a == nil || b == nil {
		return a == b
	}
	return slices.Equal(a.ForZones, b.ForZones) && slices.Equal(a.ForNodes, b.ForNodes)
}

// same compares the values that pointers point to.
func same[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
