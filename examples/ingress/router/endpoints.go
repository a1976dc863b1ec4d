package router

import (
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Addresses are the ready endpoints of a service, as "address:port", by the number of a port of the
// service and by its name, if it has one.
type Addresses map[string][]string

// Endpoints returns the ready endpoints of a service. An address that is in several slices counts once.
func Endpoints(service *corev1.Service, all []*discoveryv1.EndpointSlice) Addresses {
	addresses := Addresses{}
	for _, port := range service.Spec.Ports {
		if port.Protocol != corev1.ProtocolTCP && port.Protocol != "" {
			continue
		}
		var ready []string
		for _, slice := range all {
			ready = append(ready, readyIn(slice, port.Name)...)
		}
		slices.Sort(ready)
		ready = slices.Compact(ready)
		addresses[strconv.Itoa(int(port.Port))] = ready
		if port.Name != "" {
			addresses[port.Name] = ready
		}
	}
	return addresses
}

// readyIn returns the ready endpoints of a slice for a port of its service.
func readyIn(slice *discoveryv1.EndpointSlice, port string) (ready []string) {
	if slice.AddressType == discoveryv1.AddressTypeFQDN {
		return nil
	}
	for _, p := range slice.Ports {
		if p.Port == nil || p.Name == nil && port != "" || p.Name != nil && *p.Name != port {
			continue
		}
		for i := range slice.Endpoints {
			e := &slice.Endpoints[i]
			if len(e.Addresses) > 0 && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
				ready = append(ready, net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(*p.Port))))
			}
		}
	}
	return ready
}

// avoidance is how long an endpoint that refused a connection is not tried while there are others.
const avoidance = 5 * time.Second

// endpoint is an address of a service.
type endpoint struct {
	address string
	avoided atomic.Int64 // until when, in nanoseconds since 1970
}

// rotation has the endpoints of one port of a service, which take turns.
type rotation struct {
	endpoints []*endpoint
	turn      *atomic.Uint32
}

// next returns the next endpoint that was not tried, rather one that is not avoided. It returns nil if
// there is none.
func (r rotation) next(now time.Time, tried []*endpoint) *endpoint {
	if len(r.endpoints) == 0 {
		return nil
	}
	var avoided *endpoint
	start := r.turn.Add(1)
	for i := range r.endpoints {
		e := r.endpoints[(uint64(start)+uint64(i))%uint64(len(r.endpoints))]
		switch {
		case slices.Contains(tried, e):
		case e.avoided.Load() <= now.UnixNano():
			return e
		case avoided == nil:
			avoided = e
		}
	}
	return avoided
}

// pool has the endpoints of a service.
type pool map[string]rotation

// update returns the pool with other addresses. Endpoints that stay are still avoided, and turns go on.
func (p pool) update(addresses Addresses) pool {
	known := map[string]*endpoint{}
	for _, r := range p {
		for _, e := range r.endpoints {
			known[e.address] = e
		}
	}
	next := pool{}
	for port, list := range addresses {
		r := rotation{turn: new(atomic.Uint32)}
		if before, ok := p[port]; ok {
			r.turn = before.turn
		}
		for _, address := range list {
			if known[address] == nil {
				known[address] = &endpoint{address: address}
			}
			r.endpoints = append(r.endpoints, known[address])
		}
		next[port] = r
	}
	return next
}
