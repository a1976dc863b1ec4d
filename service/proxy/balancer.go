package proxy

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/service/ruleset"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// balancer chooses endpoints in the process, by the same functions as the rules of the kernel.
type balancer struct {
	services localcache.Subscriber[*corev1.Service]
	slices   localcache.Subscriber[*discoveryv1.EndpointSlice]
	site     Site
	tracker  *tracker
	ready    chan struct{}

	mu sync.Mutex
	// The fields below are guarded by mu.
	known map[string]*balanced
	// addresses finds services by cluster and external addresses.
	addresses map[netip.Addr]string
}

// balanced is a service and its ports.
type balanced struct {
	service   *corev1.Service
	endpoints map[portName][]Endpoint
	targets   []*target
}

// target is a port of a service with what its clients were given.
type target struct {
	Port
	choice Choice
	// clients have the endpoint of each client, with affinity. Guarded by the balancer's mu.
	clients map[netip.Addr]client
}

type client struct {
	endpoint netip.AddrPort
	until    time.Time
}

func newBalancer(services localcache.Subscriber[*corev1.Service], slices localcache.Subscriber[*discoveryv1.EndpointSlice], site Site) *balancer {
	return &balancer{
		services: services, slices: slices, site: site, tracker: newTracker(func() {}), ready: make(chan struct{}),
		known: map[string]*balanced{}, addresses: map[netip.Addr]string{},
	}
}

// run follows the caches until ctx ends, and calls changed after each change.
func (b *balancer) run(ctx context.Context, changed func()) error {
	for _, stop := range []func(){b.services.Subscribe(b.tracker.service).Stop, b.slices.Subscribe(b.tracker.slice).Stop} {
		defer stop()
	}
	for _, synced := range []<-chan struct{}{b.services.Synced(), b.slices.Synced()} {
		select {
		case <-synced:
		case <-ctx.Done():
			return nil
		}
	}
	b.update()
	changed()
	close(b.ready)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-b.tracker.changed:
			b.update()
			changed()
		}
	}
}

func (b *balancer) update() {
	updates, _ := b.tracker.take()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, u := range updates {
		before := b.known[u.key]
		if before != nil {
			for _, t := range before.targets {
				for _, a := range t.fronts() {
					delete(b.addresses, a)
				}
			}
			delete(b.known, u.key)
		}
		if u.service == nil {
			continue
		}
		now := &balanced{service: u.service, endpoints: endpointsOf(u.slices, b.site.Node)}
		for _, p := range Ports(u.service) {
			t := &target{Port: p, clients: map[netip.Addr]client{}}
			t.choice = Choose(p, now.endpoints[portName{p.Name, p.Protocol, p.Family}], b.site.Node, b.site.Zone)
			t.remember(before)
			now.targets = append(now.targets, t)
			for _, a := range t.fronts() {
				b.addresses[a] = u.key
			}
		}
		b.known[u.key] = now
	}
}

// remember keeps the clients of the port before a change.
func (t *target) remember(before *balanced) {
	if before == nil || t.Affinity == 0 {
		return
	}
	for _, old := range before.targets {
		if old.Name == t.Name && old.Protocol == t.Protocol && old.Family == t.Family {
			t.clients = old.clients
		}
	}
}

// fronts returns the addresses of the port but that of the node.
func (t *target) fronts() []netip.Addr {
	return slices.Concat([]netip.Addr{t.ClusterIP}, t.ExternalIPs, t.LoadBalancerIPs)
}

// maxClients bounds how many clients of a port are remembered, as the kernel's rules do.
const maxClients = 1 << 16

// choose returns an endpoint of the port for a client. External traffic follows the external policy.
func (b *balancer) choose(t *target, from netip.Addr, external bool) (netip.AddrPort, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := t.choice.Cluster
	if external && t.ExternalLocal || !external && t.InternalLocal {
		all = t.choice.Local
	}
	if len(all) == 0 {
		return netip.AddrPort{}, false
	}
	now := time.Now()
	if c, ok := t.clients[from]; ok && t.Affinity > 0 && now.Before(c.until) {
		if slices.ContainsFunc(all, func(e Endpoint) bool { return e.Addr == c.endpoint }) {
			t.clients[from] = client{c.endpoint, now.Add(t.Affinity)}
			return c.endpoint, true
		}
	}
	endpoint := all[rand.IntN(len(all))].Addr
	if t.Affinity > 0 {
		if len(t.clients) >= maxClients {
			for a, c := range t.clients {
				if !now.Before(c.until) {
					delete(t.clients, a)
				}
			}
		}
		if len(t.clients) < maxClients {
			t.clients[from] = client{endpoint, now.Add(t.Affinity)}
		}
	}
	return endpoint, true
}

// serves reports whether an endpoint still serves the port.
func (b *balancer) serves(t *target, endpoint netip.AddrPort) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.known[localcache.Key(t.Namespace, t.Service)]
	if known == nil {
		return false
	}
	return slices.ContainsFunc(known.endpoints[portName{t.Name, t.Protocol, t.Family}], func(e Endpoint) bool {
		return e.Addr == endpoint && e.Serving
	})
}

// resolution is where an address of a client leads.
type resolution struct {
	// target is the port of a service; nil if the service has no such port.
	target *target
	// host is a name to dial instead, of a service of type ExternalName.
	host string
	// endpoints holds the endpoints of a headless service.
	endpoints []Endpoint
}

// resolve finds the service of a host, which is an address or a name, and a port, which is a number or
// a name. It reports false for hosts that belong to no service.
func (b *balancer) resolve(host, port, namespace, domain string, protocol ruleset.Protocol) (resolution, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a, err := netip.ParseAddr(host); err == nil {
		known := b.known[b.addresses[a.Unmap()]]
		if known == nil {
			return resolution{}, false
		}
		for _, t := range known.targets {
			if slices.Contains(t.fronts(), a.Unmap()) && t.is(port, protocol) {
				return resolution{target: t}, true
			}
		}
		return resolution{}, true
	}
	known := b.known[serviceKey(host, namespace, domain)]
	if known == nil {
		return resolution{}, false
	}
	if known.service.Spec.Type == corev1.ServiceTypeExternalName {
		return resolution{host: known.service.Spec.ExternalName}, true
	}
	for _, t := range known.targets {
		if t.is(port, protocol) {
			return resolution{target: t}, true
		}
	}
	return resolution{endpoints: known.headless(port, protocol)}, true
}

func (t *target) is(port string, protocol ruleset.Protocol) bool {
	return t.Protocol == protocol && (strconv.Itoa(int(t.Port.Port)) == port || t.Name != "" && t.Name == port)
}

// headless returns the ready endpoints of a service without cluster address. Its clients reach pods at
// their own ports, so a number is the endpoint's.
func (s *balanced) headless(port string, protocol ruleset.Protocol) []Endpoint {
	if len(s.targets) > 0 {
		return nil
	}
	var all []Endpoint
	for name, list := range s.endpoints {
		for _, e := range list {
			number := strconv.Itoa(int(e.Addr.Port()))
			if name.protocol == protocol && (number == port || name.name != "" && name.name == port) &&
				(e.Ready || s.service.Spec.PublishNotReadyAddresses) {
				all = append(all, e)
			}
		}
	}
	return all
}

// serviceKey returns the key of the service that a DNS name of the cluster stands for: NAME,
// NAME.NAMESPACE, NAME.NAMESPACE.svc and NAME.NAMESPACE.svc.DOMAIN.
func serviceKey(host, namespace, domain string) string {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	host = strings.TrimSuffix(strings.TrimSuffix(host, "."+domain), ".svc")
	name, rest, qualified := strings.Cut(host, ".")
	switch {
	case !qualified:
		return localcache.Key(namespace, name)
	case strings.Contains(rest, "."):
		return ""
	}
	return localcache.Key(rest, name)
}
