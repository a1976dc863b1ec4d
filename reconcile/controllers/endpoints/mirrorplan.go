//lint:file-ignore SA1019 users still make Endpoints by hand

package endpoints

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/planekit/planekit/reconcile/controllers/internal/optional"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// mirrorManager is the name of this controller in the slices that it manages, as in Kubernetes.
	mirrorManager = "endpointslicemirroring-controller.k8s.io"
	// leaderAnnotation holds client-go's leader elections over Endpoints.
	leaderAnnotation = "control-plane.alpha.kubernetes.io/leader"
)

// mirrored reports whether endpoints, which may be nil, need slices.
func mirrored(endpoints *corev1.Endpoints) bool {
	if endpoints == nil || endpoints.Labels[discoveryv1.LabelSkipMirror] == "true" {
		return false
	}
	_, elects := endpoints.Annotations[leaderAnnotation]
	return !elects
}

// endpointsByHand reports whether service, which may be nil, selects no pods, so that a user
// manages its Endpoints. An empty selector selects all pods.
func endpointsByHand(service *corev1.Service) bool {
	return service != nil && service.Spec.Selector == nil
}

// mirrorPlan is the plan for the slices that mirror Endpoints.
type mirrorPlan struct {
	sliceWrites
	// invalid is the number of malformed addresses, skipped the number of those and of addresses
	// beyond the limit.
	invalid, skipped int
}

// planMirror returns the changes that turn have into the slices that mirror endpoints: one for each
// set of ports and address family. At most most addresses of each subset are mirrored. A slice that
// is no longer needed is reused before one is created.
func planMirror(endpoints *corev1.Endpoints, have []*discoveryv1.EndpointSlice, most int) mirrorPlan {
	var plan mirrorPlan
	want := mirrorSlices(&plan, endpoints, most)
	have = slices.DeleteFunc(slices.Clone(have), func(s *discoveryv1.EndpointSlice) bool { return s.DeletionTimestamp != nil })
	slices.SortFunc(have, func(a, b *discoveryv1.EndpointSlice) int { return strings.Compare(a.Name, b.Name) })
	take := func(fits func(*discoveryv1.EndpointSlice) bool) *discoveryv1.EndpointSlice {
		at := slices.IndexFunc(have, fits)
		if at < 0 {
			return nil
		}
		slice := have[at]
		have = slices.Delete(have, at, at+1)
		return slice
	}
	for _, slice := range want {
		same := take(func(s *discoveryv1.EndpointSlice) bool {
			return s.AddressType == slice.AddressType && portsKey(s.Ports) == portsKey(slice.Ports)
		})
		switch {
		case same == nil:
			plan.create = append(plan.create, slice)
		case !sameMirror(same, slice):
			slice.GenerateName = "" // as Kubernetes writes a slice that it keeps
			plan.update = append(plan.update, becomes(same, slice))
		}
	}
	plan.create = slices.DeleteFunc(plan.create, func(slice *discoveryv1.EndpointSlice) bool {
		spare := take(func(s *discoveryv1.EndpointSlice) bool { return s.AddressType == slice.AddressType })
		if spare != nil {
			plan.update = append(plan.update, becomes(spare, slice))
		}
		return spare != nil
	})
	plan.remove = have
	return plan
}

// becomes returns slice with the contents of other.
func becomes(slice, other *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	slice = slice.DeepCopy()
	slice.GenerateName, slice.Labels, slice.Annotations = other.GenerateName, other.Labels, other.Annotations
	slice.OwnerReferences = other.OwnerReferences
	slice.Ports, slice.Endpoints = other.Ports, other.Endpoints
	return slice
}

// sameMirror reports whether have and want have the same contents, in any order.
func sameMirror(have, want *discoveryv1.EndpointSlice) bool {
	if len(have.Endpoints) != len(want.Endpoints) || !maps.Equal(have.Labels, want.Labels) || !maps.Equal(have.Annotations, want.Annotations) ||
		!slices.ContainsFunc(have.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == want.OwnerReferences[0].UID }) {
		return false
	}
	byKey := make(map[endpointKey]*discoveryv1.Endpoint, len(want.Endpoints))
	for i := range want.Endpoints {
		byKey[keyOfEndpoint(&want.Endpoints[i])] = &want.Endpoints[i]
	}
	for i := range have.Endpoints {
		k := keyOfEndpoint(&have.Endpoints[i])
		if e := byKey[k]; e == nil || !sameEndpoint(e, &have.Endpoints[i]) {
			return false
		}
		delete(byKey, k) // an endpoint that is there twice is there once too often
	}
	return true
}

// mirrorSlices returns the slices that mirror endpoints.
func mirrorSlices(plan *mirrorPlan, endpoints *corev1.Endpoints, most int) (want []*discoveryv1.EndpointSlice) {
	for _, subset := range repackSubsets(endpoints.Subsets) {
		byFamily := map[discoveryv1.AddressType]*discoveryv1.EndpointSlice{}
		seen := map[endpointKey]bool{}
		left := most
		for i, address := range slices.Concat(subset.Addresses, subset.NotReadyAddresses) {
			plan.skipped++
			if left == 0 {
				continue
			}
			family, endpoint := mirrorEndpoint(&address, i < len(subset.Addresses))
			if endpoint == nil {
				plan.invalid++
				continue
			}
			plan.skipped--
			left--
			if k := keyOfEndpoint(endpoint); seen[k] {
				continue // one address, written in two ways
			} else {
				seen[k] = true
			}
			if byFamily[family] == nil {
				byFamily[family] = newMirror(endpoints, family, subset.Ports)
				want = append(want, byFamily[family])
			}
			byFamily[family].Endpoints = append(byFamily[family].Endpoints, *endpoint)
		}
	}
	return want
}

// mirrorEndpoint returns an address as an endpoint of a slice, and its family; nil if it is
// malformed.
func mirrorEndpoint(address *corev1.EndpointAddress, ready bool) (discoveryv1.AddressType, *discoveryv1.Endpoint) {
	ip, err := netip.ParseAddr(withoutLeadingZeros(address.IP))
	if err != nil || ip.Zone() != "" {
		return "", nil
	}
	family := discoveryv1.AddressTypeIPv4
	if ip = ip.Unmap(); ip.Is6() {
		family = discoveryv1.AddressTypeIPv6
	}
	endpoint := &discoveryv1.Endpoint{
		Addresses: []string{ip.String()}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		NodeName: address.NodeName, TargetRef: address.TargetRef,
	}
	if address.Hostname != "" {
		endpoint.Hostname = &address.Hostname
	}
	return family, endpoint
}

// withoutLeadingZeros rewrites an address as Kubernetes reads it: 010.0.0.1 is 10.0.0.1.
func withoutLeadingZeros(ip string) string {
	words := strings.Split(ip, ".")
	if strings.Contains(ip, ":") || len(words) != 4 {
		return ip
	}
	for i, word := range words {
		n, err := strconv.ParseUint(word, 10, 8)
		if err != nil {
			return ip
		}
		words[i] = strconv.FormatUint(n, 10)
	}
	return strings.Join(words, ".")
}

func newMirror(endpoints *corev1.Endpoints, family discoveryv1.AddressType, ports []corev1.EndpointPort) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		TypeMeta: metav1.TypeMeta{APIVersion: discoveryv1.SchemeGroupVersion.String(), Kind: "EndpointSlice"},
		ObjectMeta: metav1.ObjectMeta{
			GenerateName:    endpoints.Name + "-",
			Namespace:       endpoints.Namespace,
			Labels:          map[string]string{},
			Annotations:     maps.Clone(endpoints.Annotations),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(endpoints, endpointsKind)},
		},
		AddressType: family,
		Ports:       []discoveryv1.EndpointPort{},
	}
	maps.Copy(slice.Labels, endpoints.Labels)
	slice.Labels[discoveryv1.LabelServiceName] = endpoints.Name
	slice.Labels[discoveryv1.LabelManagedBy] = mirrorManager
	delete(slice.Annotations, corev1.EndpointsLastChangeTriggerTime)
	delete(slice.Annotations, corev1.LastAppliedConfigAnnotation)
	for _, port := range ports {
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{
			Name: &port.Name, Port: &port.Port, Protocol: &port.Protocol, AppProtocol: port.AppProtocol,
		})
	}
	return slice
}

// maxRepacked bounds the addresses of all ports of Endpoints that are mirrored.
const maxRepacked = 1_000_000

// repackSubsets returns equivalent subsets in which every port occurs once, with all addresses that
// have it, in the order of Kubernetes. An address that is both ready and not ready at a port is not
// ready. If the ports have more than maxRepacked addresses in all, some ports are left out.
func repackSubsets(subsets []corev1.EndpointSubset) []corev1.EndpointSubset {
	type identity struct {
		ip  string
		uid types.UID
	}
	first := map[identity]corev1.EndpointAddress{} // what an address is said to be stays
	var sources []*portAddresses
	for _, subset := range subsets {
		for _, address := range slices.Concat(subset.Addresses, subset.NotReadyAddresses) {
			id := identity{address.IP, uidOfAddress(&address)}
			if _, ok := first[id]; !ok {
				first[id] = address
			}
		}
		sources = append(sources, &portAddresses{ports: subset.Ports})
		if len(subset.Ports) == 0 {
			sources[len(sources)-1].ports = []corev1.EndpointPort{noPort}
		}
	}
	var addresses []readyAddress
	numbers := map[identity][2]int{} // of an address that is not ready, and of one that is; from one
	number := func(id identity, ready bool) int {
		which, n := 0, numbers[id]
		if ready {
			which = 1
		}
		if n[which] == 0 {
			addresses = append(addresses, readyAddress{first[id], ready})
			n[which] = len(addresses)
			numbers[id] = n
		}
		return n[which] - 1
	}
	var all []*portAddresses
	left := maxRepacked
	groups := portsFrom(sources)
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		p := groups[name]
		isReady := map[identity]bool{}
		for _, i := range p.members {
			for k, list := range [][]corev1.EndpointAddress{subsets[i].Addresses, subsets[i].NotReadyAddresses} {
				for n := range list {
					id := identity{list[n].IP, uidOfAddress(&list[n])}
					before, had := isReady[id]
					isReady[id] = k == 0 && (before || !had)
				}
				left -= len(list)
			}
		}
		var members []int
		for id, ready := range isReady {
			members = append(members, number(id, ready))
		}
		if all = append(all, &portAddresses{p.ports, members}); left < 0 {
			break
		}
	}
	return joinSubsets(addresses, all)
}

func portName(port *corev1.EndpointPort) string {
	return fmt.Sprintf("%q %d %s %q", port.Name, port.Port, port.Protocol, optional.Value(port.AppProtocol, ""))
}

// uidOfAddress returns the UID of the target of an address; empty if it has none.
func uidOfAddress(address *corev1.EndpointAddress) types.UID {
	if address.TargetRef == nil {
		return ""
	}
	return address.TargetRef.UID
}
