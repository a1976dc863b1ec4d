package endpoints

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/planekit/planekit/reconcile/controllers/owner"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// slicesManager is the name of this controller in the slices that it manages, as in Kubernetes.
const slicesManager = "endpointslice-controller.k8s.io"

// slicePlan is the plan for the slices of a service.
type slicePlan struct {
	sliceWrites
	// lost holds pods that were left out because their nodes are unknown.
	lost []*corev1.Pod
	// crowded is the number of endpoints that were left out because the pods have too many different ports.
	crowded int
}

// slicePlanner plans for one service.
type slicePlanner struct {
	service *corev1.Service
	labels  map[string]string
	// zone returns the zone of a node, which may be empty, and whether the node is
	// known.
	zone func(node string) (string, bool)
	max  int // endpoints a slice
}

// planEndpointSlices returns the changes that turn have, the existing slices of the service, into
// slices with the endpoints of pods. As in Kubernetes it writes as few slices as possible, even if
// they are not full: it first fills slices that change anyway, the fullest first; puts the rest into
// the fullest slice with room for all of it; and only then creates slices. A slice that is no longer
// needed is reused before one is created.
func planEndpointSlices(p slicePlanner, pods []*corev1.Pod, have []*discoveryv1.EndpointSlice) slicePlan {
	var plan slicePlan
	p.labels = sliceLabels(p.service)
	byFamily := map[discoveryv1.AddressType][]*discoveryv1.EndpointSlice{}
	families := addressTypes(p.service)
	for _, slice := range have {
		switch {
		case slice.DeletionTimestamp != nil:
		case !slices.Contains(families, slice.AddressType), !ownedByService(slice, p.service):
			plan.remove = append(plan.remove, slice)
		default:
			byFamily[slice.AddressType] = append(byFamily[slice.AddressType], slice)
		}
	}
	known := make([]*corev1.Pod, 0, len(pods))
	for _, pod := range pods {
		if !reachable(pod) {
			continue
		}
		if _, ok := p.zone(pod.Spec.NodeName); !ok && !p.service.Spec.PublishNotReadyAddresses {
			plan.lost = append(plan.lost, pod)
			continue
		}
		known = append(known, pod)
	}
	for _, family := range families {
		slices.SortFunc(byFamily[family], func(a, b *discoveryv1.EndpointSlice) int { return strings.Compare(a.Name, b.Name) })
		p.planFamily(&plan, family, known, byFamily[family])
	}
	return plan
}

// planFamily plans for the addresses of one family.
func (p *slicePlanner) planFamily(plan *slicePlan, family discoveryv1.AddressType, pods []*corev1.Pod, have []*discoveryv1.EndpointSlice) {
	groups, crowded := p.groupByPorts(family, pods)
	plan.crowded += crowded
	var spare, create []*discoveryv1.EndpointSlice
	byPorts := map[string]*portGroup{}
	for _, g := range groups {
		byPorts[g.key] = g
	}
	for _, slice := range have {
		if g := byPorts[portsKey(slice.Ports)]; g != nil {
			g.have = append(g.have, slice)
		} else {
			spare = append(spare, slice)
		}
	}
	for _, g := range groups {
		made, changed, empty := p.distribute(family, g)
		create, spare = append(create, made...), append(spare, empty...)
		plan.update = append(plan.update, changed...)
	}
	if len(groups) == 0 { // an empty slice: the service has no endpoints
		at := slices.IndexFunc(spare, func(s *discoveryv1.EndpointSlice) bool {
			return len(s.Ports) == 0 && len(s.Endpoints) == 0 && maps.Equal(s.Labels, p.labels)
		})
		if at >= 0 {
			spare = slices.Delete(spare, at, at+1)
		} else {
			create = append(create, p.newSlice(family, nil))
		}
	}
	for len(create) > 0 && len(spare) > 0 {
		made, slice := create[len(create)-1], spare[0].DeepCopy()
		create, spare = create[:len(create)-1], spare[1:]
		slice.Labels, slice.Ports, slice.Endpoints = made.Labels, made.Ports, made.Endpoints
		plan.update = append(plan.update, slice)
	}
	plan.create = append(plan.create, create...)
	plan.remove = append(plan.remove, spare...)
}

// portGroup holds the endpoints that have the same ports: those that are wanted, and the existing
// slices.
type portGroup struct {
	key   string
	ports []discoveryv1.EndpointPort
	want  map[endpointKey]*discoveryv1.Endpoint
	// order lists the keys of want in order. While distribute goes through the existing slices, order
	// also holds keys that it has removed from want.
	order []endpointKey
	have  []*discoveryv1.EndpointSlice
}

// endpointKey identifies an endpoint.
type endpointKey struct{ addresses, hostname, namespace, name string }

func keyOfEndpoint(e *discoveryv1.Endpoint) endpointKey {
	k := endpointKey{addresses: strings.Join(slices.Sorted(slices.Values(e.Addresses)), " ")}
	if e.Hostname != nil {
		k.hostname = *e.Hostname
	}
	if e.TargetRef != nil {
		k.namespace, k.name = e.TargetRef.Namespace, e.TargetRef.Name
	}
	return k
}

// groupByPorts returns the endpoints of pods, grouped by their ports, in an order that depends only
// on pods, and the number of pods that are left out, see maxTargets.
func (p *slicePlanner) groupByPorts(family discoveryv1.AddressType, pods []*corev1.Pod) (groups []*portGroup, crowded int) {
	byPorts := map[string]*portGroup{}
	targets := newTargets(p.service, func(leads []target) *portGroup {
		ports := slicePorts(p.service, leads)
		name := portsKey(ports)
		if byPorts[name] == nil {
			sortByHash(ports)
			byPorts[name] = &portGroup{key: name, ports: ports, want: map[endpointKey]*discoveryv1.Endpoint{}}
			groups = append(groups, byPorts[name])
		}
		return byPorts[name]
	})
	for _, pod := range pods {
		endpoint := p.endpoint(family, pod)
		if len(endpoint.Addresses) == 0 {
			continue
		}
		g, ok := targets.of(pod)
		if !ok {
			crowded++
			continue
		}
		k := keyOfEndpoint(endpoint)
		if g.want[k] == nil {
			g.order = append(g.order, k)
		}
		g.want[k] = endpoint
	}
	return groups, crowded
}

// distribute distributes the endpoints of g over slices. It returns the slices to create, those to
// update, and those that have become empty.
func (p *slicePlanner) distribute(family discoveryv1.AddressType, g *portGroup) (create, update, empty []*discoveryv1.EndpointSlice) {
	var unchanged []*discoveryv1.EndpointSlice
	for _, slice := range g.have {
		kept, changed := g.keep(slice)
		switch {
		case len(kept) == 0 && len(slice.Endpoints) > 0:
			empty = append(empty, slice)
		case changed || !maps.Equal(slice.Labels, p.labels):
			slice = slice.DeepCopy()
			slice.Endpoints, slice.Labels = kept, p.labels
			update = append(update, slice)
		default:
			unchanged = append(unchanged, slice)
		}
	}
	g.order = slices.DeleteFunc(g.order, func(k endpointKey) bool { return g.want[k] == nil })
	slices.SortStableFunc(update, func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(len(b.Endpoints), len(a.Endpoints)) })
	for _, slice := range update {
		g.fill(slice, p.max)
	}
	for len(g.order) > 0 {
		var slice *discoveryv1.EndpointSlice
		if at := bestFit(unchanged, len(g.order), p.max); at >= 0 {
			slice = unchanged[at].DeepCopy()
			unchanged = slices.Delete(unchanged, at, at+1)
			update = append(update, slice)
		} else {
			slice = p.newSlice(family, g.ports)
			create = append(create, slice)
		}
		g.fill(slice, p.max)
	}
	return create, update, empty
}

// keep returns the wanted endpoints of slice in their wanted form, and whether that changes the
// slice. It removes them from those wanted of other slices.
func (g *portGroup) keep(slice *discoveryv1.EndpointSlice) (kept []discoveryv1.Endpoint, changed bool) {
	for i := range slice.Endpoints {
		k := keyOfEndpoint(&slice.Endpoints[i])
		want := g.want[k]
		if want == nil {
			changed = true
			continue
		}
		delete(g.want, k)
		changed = changed || !sameEndpoint(want, &slice.Endpoints[i])
		kept = append(kept, *want)
	}
	return kept, changed
}

// fill moves wanted endpoints into slice until it has most of them.
func (g *portGroup) fill(slice *discoveryv1.EndpointSlice, most int) {
	n := min(len(g.order), max(0, most-len(slice.Endpoints)))
	for _, k := range g.order[:n] {
		slice.Endpoints = append(slice.Endpoints, *g.want[k])
		delete(g.want, k)
	}
	g.order = g.order[n:]
}

// bestFit returns the index of the fullest slice with room for n more endpoints, or -1.
func bestFit(have []*discoveryv1.EndpointSlice, n, most int) int {
	best := -1
	for i, slice := range have {
		if len(slice.Endpoints)+n <= most && (best < 0 || len(slice.Endpoints) > len(have[best].Endpoints)) {
			best = i
		}
	}
	return best
}

func (p *slicePlanner) newSlice(family discoveryv1.AddressType, ports []discoveryv1.EndpointPort) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		TypeMeta: metav1.TypeMeta{APIVersion: discoveryv1.SchemeGroupVersion.String(), Kind: "EndpointSlice"},
		ObjectMeta: metav1.ObjectMeta{
			GenerateName:    p.service.Name + "-",
			Namespace:       p.service.Namespace,
			Labels:          p.labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(p.service, serviceKind)},
		},
		AddressType: family,
		Endpoints:   []discoveryv1.Endpoint{},
		Ports:       ports,
	}
}

// nameSlices gives new slices of the owner with a UID the first names that are not taken, so that a
// process that creates the same slice twice is refused the second time.
func nameSlices(ref types.UID, create []*discoveryv1.EndpointSlice, taken func(name string) bool) {
	number := 0
	for _, slice := range create {
		for slice.Name == "" || taken(slice.Name) {
			slice.Name = owner.PodName(slice.GenerateName, ref, number)
			number++
		}
	}
}
