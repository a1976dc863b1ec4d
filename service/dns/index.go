package dns

import (
	"net/netip"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// key identifies a service.
type key struct{ namespace, name string }

// index finds services by name and by address. A change of an object changes the entries of that object
// alone. It is safe for concurrent use.
type index struct {
	mu sync.RWMutex
	// The fields below are guarded by mu.
	services map[key]*entry
	// namespaces counts the services of each namespace.
	namespaces map[string]int
	// exists holds the namespaces that exist, if a cache of them is followed.
	exists map[string]bool
	// clusterIPs finds services by their cluster addresses.
	clusterIPs map[netip.Addr]map[key]bool
	// endpoints counts the slices of each service that an address is in.
	endpoints map[netip.Addr]map[key]int
}

// entry is a service with its slices.
type entry struct {
	service *corev1.Service // nil if only slices are known
	slices  map[string]*discoveryv1.EndpointSlice
	// records are made of the objects at the first question after a change. They are replaced, never
	// changed. A change sets nil and needs mu; a reader that holds mu may store records.
	records atomic.Pointer[records]
}

func newIndex(followNamespaces bool) *index {
	x := &index{
		services: map[key]*entry{}, namespaces: map[string]int{},
		clusterIPs: map[netip.Addr]map[key]bool{}, endpoints: map[netip.Addr]map[key]int{},
	}
	if followNamespaces {
		x.exists = map[string]bool{}
	}
	return x
}

// setService is the handler of changes of services.
func (x *index) setService(old, new *corev1.Service) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if old != nil {
		k := key{old.Namespace, old.Name}
		if e := x.services[k]; e != nil && e.service != nil {
			x.count(k.namespace, -1)
			for _, a := range clusterIPs(e.service) {
				delete(x.clusterIPs[a], k)
				if len(x.clusterIPs[a]) == 0 {
					delete(x.clusterIPs, a)
				}
			}
			e.service = nil
			x.changed(k, e)
		}
	}
	if new == nil {
		return
	}
	k := key{new.Namespace, new.Name}
	e := x.entry(k)
	e.service = new
	x.count(k.namespace, 1)
	for _, a := range clusterIPs(new) {
		if x.clusterIPs[a] == nil {
			x.clusterIPs[a] = map[key]bool{}
		}
		x.clusterIPs[a][k] = true
	}
	x.changed(k, e)
}

// setSlice is the handler of changes of slices.
func (x *index) setSlice(old, new *discoveryv1.EndpointSlice) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if k, ok := serviceOf(old); ok {
		if e := x.services[k]; e != nil && e.slices[old.Name] != nil {
			for a := range addressesOf(e.slices[old.Name]) {
				if x.endpoints[a][k]--; x.endpoints[a][k] == 0 {
					delete(x.endpoints[a], k)
				}
				if len(x.endpoints[a]) == 0 {
					delete(x.endpoints, a)
				}
			}
			delete(e.slices, old.Name)
			x.changed(k, e)
		}
	}
	k, ok := serviceOf(new)
	if !ok {
		return
	}
	e := x.entry(k)
	e.slices[new.Name] = new
	for a := range addressesOf(new) {
		if x.endpoints[a] == nil {
			x.endpoints[a] = map[key]int{}
		}
		x.endpoints[a][k]++
	}
	x.changed(k, e)
}

// setNamespace is the handler of changes of namespaces.
func (x *index) setNamespace(old, new *corev1.Namespace) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if old != nil {
		delete(x.exists, old.Name)
	}
	if new != nil {
		x.exists[new.Name] = true
	}
}

// entry returns the entry of a service, which it makes if there is none.
func (x *index) entry(k key) *entry {
	e := x.services[k]
	if e == nil {
		e = &entry{slices: map[string]*discoveryv1.EndpointSlice{}}
		x.services[k] = e
	}
	return e
}

// changed drops the records of an entry, and the entry if nothing is left of it.
func (x *index) changed(k key, e *entry) {
	e.records.Store(nil)
	if e.service == nil && len(e.slices) == 0 {
		delete(x.services, k)
	}
}

func (x *index) count(namespace string, by int) {
	if x.namespaces[namespace] += by; x.namespaces[namespace] == 0 {
		delete(x.namespaces, namespace)
	}
}

// find returns the records of a service; nil if there is no such service.
func (x *index) find(k key) *records {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.findLocked(k)
}

func (x *index) findLocked(k key) *records {
	e := x.services[k]
	if e == nil || e.service == nil {
		return nil
	}
	r := e.records.Load()
	if r == nil {
		r = makeRecords(e.service, e.slices)
		e.records.Store(r)
	}
	return r
}

// hasNamespace reports whether a namespace exists or, if namespaces are not followed, has a service.
func (x *index) hasNamespace(name string) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.exists != nil {
		return x.exists[name]
	}
	return x.namespaces[name] > 0
}

// mayHavePods reports whether names of pods of a namespace are answered. Without a cache of namespaces
// that is every namespace.
func (x *index) mayHavePods(name string) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.exists == nil || x.exists[name]
}

// names returns at most some of the names of an address: those of the services that have it as a cluster address or,
// if there is none, those of endpoints. Users can give an address any number of names.
func (x *index) names(a netip.Addr, most int) []string {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var all []string
	for k := range x.clusterIPs[a] {
		if all = append(all, k.name+"."+k.namespace); len(all) == most {
			break
		}
	}
	if len(all) > 0 {
		return all
	}
	for k := range x.endpoints[a] { // in random order
		if r := x.findLocked(k); r != nil {
			for _, host := range r.names[a] {
				if all = append(all, host+"."+k.name+"."+k.namespace); len(all) == most {
					return all
				}
			}
		}
	}
	return all
}

// clusterIPs returns the cluster addresses of a service.
func clusterIPs(s *corev1.Service) []netip.Addr {
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	texts := s.Spec.ClusterIPs
	if len(texts) == 0 {
		texts = []string{s.Spec.ClusterIP}
	}
	var all []netip.Addr
	for _, text := range texts {
		if a, err := netip.ParseAddr(text); err == nil { // "None" and "" are no addresses
			all = append(all, a.Unmap())
		}
	}
	return all
}

// serviceOf returns the service of a slice.
func serviceOf(s *discoveryv1.EndpointSlice) (key, bool) {
	if s == nil || s.AddressType == discoveryv1.AddressTypeFQDN || s.Labels[discoveryv1.LabelServiceName] == "" {
		return key{}, false
	}
	return key{s.Namespace, s.Labels[discoveryv1.LabelServiceName]}, true
}

// addressesOf returns the addresses of a slice.
func addressesOf(s *discoveryv1.EndpointSlice) map[netip.Addr]bool {
	all := make(map[netip.Addr]bool, len(s.Endpoints))
	for i := range s.Endpoints {
		for _, text := range s.Endpoints[i].Addresses {
			if a, err := netip.ParseAddr(text); err == nil {
				all[a.Unmap()] = true
			}
		}
	}
	return all
}
