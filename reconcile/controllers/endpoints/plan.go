//lint:file-ignore SA1019 clients still read Endpoints

package endpoints

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/planekit/planekit/reconcile/controllers/internal/podstatus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// managedByLabel and endpointsManager mark the endpoints that this controller creates, as in
	// Kubernetes.
	managedByLabel   = "endpoints.kubernetes.io/managed-by"
	endpointsManager = "endpoint-controller"
	// maxEndpoints is the maximum number of addresses of Endpoints.
	maxEndpoints = 1000
	truncated    = "truncated" // what the annotation says of those that had more
)

// planEndpoints returns the endpoints of service, which selects pods, or nil if have is correct.
// have is nil if there are none yet.
func planEndpoints(service *corev1.Service, pods []*corev1.Pod, have *corev1.Endpoints) *corev1.Endpoints {
	subsets, crowded := planSubsets(service, pods)
	subsets, cut := truncateSubsets(subsets)
	cut = cut || crowded
	labels := make(map[string]string, len(service.Labels)+2)
	maps.Copy(labels, service.Labels)
	delete(labels, corev1.IsHeadlessService)
	if headless(service) {
		labels[corev1.IsHeadlessService] = ""
	}
	labels[managedByLabel] = endpointsManager

	want := &corev1.Endpoints{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Endpoints"},
		ObjectMeta: metav1.ObjectMeta{Namespace: service.Namespace, Name: service.Name},
	}
	if have != nil {
		mark, marked := have.Annotations[corev1.EndpointsOverCapacity]
		if marked == cut && (!cut || mark == truncated) && maps.Equal(have.Labels, labels) &&
			equality.Semantic.DeepEqual(withoutRevisions(have.Subsets), subsets) {
			return nil
		}
		want = have.DeepCopy()
	}
	want.Labels, want.Subsets = labels, subsets
	if !cut {
		delete(want.Annotations, corev1.EndpointsOverCapacity)
		return want
	}
	if want.Annotations == nil {
		want.Annotations = map[string]string{}
	}
	want.Annotations[corev1.EndpointsOverCapacity] = truncated
	return want
}

// withoutRevisions returns subsets without the resource versions of pods.
func withoutRevisions(subsets []corev1.EndpointSubset) []corev1.EndpointSubset {
	out := make([]corev1.EndpointSubset, len(subsets))
	for i := range subsets {
		subsets[i].DeepCopyInto(&out[i])
		for _, list := range [][]corev1.EndpointAddress{out[i].Addresses, out[i].NotReadyAddresses} {
			for j := range list {
				if list[j].TargetRef != nil {
					list[j].TargetRef.ResourceVersion = ""
				}
			}
		}
	}
	return out
}

// endpointAddress returns the address of pod for service, and whether it has one. Endpoints have
// the addresses of one family.
func endpointAddress(service *corev1.Service, pod *corev1.Pod) (corev1.EndpointAddress, bool) {
	six := false
	switch {
	case len(service.Spec.IPFamilies) > 0:
		six = service.Spec.IPFamilies[0] == corev1.IPv6Protocol
	case !headless(service):
		_, six = addressOf(service.Spec.ClusterIP, true)
	default:
		_, six = addressOf(pod.Status.PodIP, true)
	}
	for _, ip := range pod.Status.PodIPs {
		if address, ok := addressOf(ip.IP, six); ok {
			return corev1.EndpointAddress{
				IP: address, NodeName: &pod.Spec.NodeName, Hostname: hostnameIn(service, pod), TargetRef: podReference(pod),
			}, true
		}
	}
	return corev1.EndpointAddress{}, false
}

// readyAddress is an address of a pod, and whether the pod is ready.
type readyAddress struct {
	corev1.EndpointAddress
	ready bool
}

// portAddresses holds ports and the addresses that have all of them, by their numbers: those of a subset, or of pods
// with the same ports.
type portAddresses struct {
	ports   []corev1.EndpointPort
	members []int
}

// portsFrom returns the ports that occur in sources, grouped by the sources, by index, that have them.
func portsFrom(sources []*portAddresses) map[string]*portAddresses {
	type offered struct {
		port corev1.EndpointPort
		from []int
	}
	byName := map[string]*offered{}
	for i, s := range sources {
		for _, port := range s.ports {
			name := portName(&port)
			if byName[name] == nil {
				byName[name] = &offered{port: port}
			}
			if o := byName[name]; len(o.from) == 0 || o.from[len(o.from)-1] != i {
				o.from = append(o.from, i)
			}
		}
	}
	bySources := map[string]*portAddresses{}
	for _, o := range byName {
		name := fmt.Sprint(o.from)
		if bySources[name] == nil {
			bySources[name] = &portAddresses{members: o.from}
		}
		bySources[name].ports = append(bySources[name].ports, o.port)
	}
	return bySources
}

// planSubsets groups the ports that have the same addresses, in the order of Kubernetes, and reports whether pods are left
// out, see maxTargets.
func planSubsets(service *corev1.Service, pods []*corev1.Pod) (subsets []corev1.EndpointSubset, crowded bool) {
	tolerant := service.Spec.PublishNotReadyAddresses
	var addresses []readyAddress
	var sources []*portAddresses
	targets := newTargets(service, func(leads []target) *portAddresses {
		s := &portAddresses{ports: subsetPorts(service, leads)}
		sources = append(sources, s)
		return s
	})
	for _, pod := range pods {
		a, ok := endpointAddress(service, pod)
		if !ok || !reachable(pod) || pod.DeletionTimestamp != nil && !tolerant {
			continue
		}
		s, ok := targets.of(pod)
		if !ok {
			crowded = true
			continue
		}
		s.members = append(s.members, len(addresses))
		addresses = append(addresses, readyAddress{a, tolerant || podstatus.Ready(pod)})
	}
	var all []*portAddresses
	for _, p := range portsFrom(sources) {
		var members []int
		for _, i := range p.members {
			members = append(members, sources[i].members...)
		}
		all = append(all, &portAddresses{p.ports, members})
	}
	return joinSubsets(addresses, all), crowded
}

// joinSubsets returns one subset for the ports that have the same addresses.
func joinSubsets(addresses []readyAddress, all []*portAddresses) []corev1.EndpointSubset {
	byMembers := map[string]*corev1.EndpointSubset{}
	for _, p := range all {
		slices.Sort(p.members)
		name := fmt.Sprint(p.members)
		if byMembers[name] == nil {
			byMembers[name] = newSubset(addresses, p.members)
		}
		for _, port := range p.ports {
			if port.Port >= 0 {
				byMembers[name].Ports = append(byMembers[name].Ports, port)
			}
		}
	}
	return sortSubsets(byMembers)
}

func newSubset(addresses []readyAddress, members []int) *corev1.EndpointSubset {
	s := &corev1.EndpointSubset{}
	for _, i := range members {
		if a := addresses[i]; a.ready {
			s.Addresses = append(s.Addresses, a.EndpointAddress)
		} else {
			s.NotReadyAddresses = append(s.NotReadyAddresses, a.EndpointAddress)
		}
	}
	return s
}

// noPort takes the place of a port for a headless service without ports.
var noPort = corev1.EndpointPort{Port: -1}

// subsetPorts returns the ports of pods that the service leads to.
func subsetPorts(service *corev1.Service, leads []target) []corev1.EndpointPort {
	if len(service.Spec.Ports) == 0 && service.Spec.ClusterIP == corev1.ClusterIPNone {
		return []corev1.EndpointPort{noPort}
	}
	var ports []corev1.EndpointPort
	for _, to := range leads {
		port := &service.Spec.Ports[to.index]
		ports = append(ports, corev1.EndpointPort{Name: port.Name, Port: to.number, Protocol: port.Protocol, AppProtocol: port.AppProtocol})
	}
	return ports
}

// sortSubsets sorts the subsets, their ports and their addresses as Kubernetes does.
func sortSubsets(subsets map[string]*corev1.EndpointSubset) []corev1.EndpointSubset {
	var sorted []corev1.EndpointSubset
	for _, s := range subsets {
		for _, list := range [][]corev1.EndpointAddress{s.Addresses, s.NotReadyAddresses} {
			slices.SortFunc(list, func(a, b corev1.EndpointAddress) int {
				return cmp.Or(strings.Compare(a.IP, b.IP), cmp.Compare(uidOfAddress(&a), uidOfAddress(&b)))
			})
		}
		sortByHash(s.Ports)
		sorted = append(sorted, *s)
	}
	sortByHash(sorted)
	return sorted
}

// truncateSubsets removes addresses beyond the maximum, ready ones last, the same share from each
// subset. It reports whether it removed any.
func truncateSubsets(subsets []corev1.EndpointSubset) ([]corev1.EndpointSubset, bool) {
	ready, others := 0, 0
	for i := range subsets {
		ready += len(subsets[i].Addresses)
		others += len(subsets[i].NotReadyAddresses)
	}
	if ready+others <= maxEndpoints {
		return subsets, false
	}
	total, room := others, maxEndpoints-ready
	if ready > maxEndpoints {
		total, room = ready, maxEndpoints
	}
	left := room
	for i := range subsets {
		list := &subsets[i].NotReadyAddresses
		if ready > maxEndpoints {
			*list = nil
			list = &subsets[i].Addresses
		}
		share := min((len(*list)*room+total-1)/total, left, len(*list)) // rounded up
		*list = (*list)[:share]
		left -= share
	}
	return subsets, true
}
