// Package loadbalancer gives addresses of a pool to Services of type LoadBalancer. It writes them into
// the status of the service; the proxies of the nodes serve them. The pool must be routed to the nodes,
// such as a part of their own network.
//
//	b, err := loadbalancer.New(loadbalancer.Config{Services: services, Writer: client, Pool: ranges})
//	err = b.Run(ctx)
//
// A service keeps its address as long as it is of that type and class, also across restarts: the
// addresses in the statuses are claimed before any is given. One address of each of its families is
// given. A service with spec.loadBalancerIP gets that address or none; until it is free, the service keeps
// the one it has. What cannot be done is an event of the service, once, and tried again when an address is
// released: AllocationFailed if the pool is used up or does not have the address, AddressInUse if the
// address that a service asks for, or has in its status, belongs to another one.
//
// One Balancer may write at a time: run it where a leader is elected.
package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Config describes a [Balancer].
type Config struct {
	// Services is the cache of services. It is required.
	Services localcache.ReadSubscriber[*corev1.Service]
	// Writer writes statuses. It is required.
	Writer StatusWriter
	// Pool are the ranges of addresses, which must not overlap.
	Pool []netip.Prefix
	// Class is the spec.loadBalancerClass of the services that get addresses. Empty means services
	// without a class.
	Class string
	// Retry is when a write that failed is tried again. 0 means a second.
	Retry time.Duration
	// Events receives events of services. Nil drops them.
	Events Recorder
	Log    logr.Logger
}

// A StatusWriter replaces the status of a service.
type StatusWriter interface {
	UpdateStatus(ctx context.Context, s *corev1.Service) (*corev1.Service, error)
}

// A Recorder records events about services.
type Recorder interface {
	Event(service *corev1.Service, kind, reason, message string)
}

// Balancer gives addresses to services.
type Balancer struct {
	Config
	pool *pool
	// waiting are services that did not get what they want. It belongs to the goroutine of Run.
	waiting map[string]bool
	// said has the messages of the events of services that wait. It belongs to the goroutine of Run.
	said    map[string]map[string]bool
	changed chan struct{}

	mu sync.Mutex
	// dirty are the services to look at. Guarded by mu.
	dirty map[string]bool
}

// New checks a configuration and returns a Balancer that does nothing yet.
func New(c Config) (*Balancer, error) {
	if c.Services == nil || c.Writer == nil {
		return nil, errors.New("loadbalancer: Services and Writer are required")
	}
	if c.Retry < 0 {
		return nil, fmt.Errorf("loadbalancer: Retry: %v is negative", c.Retry)
	}
	if c.Retry == 0 {
		c.Retry = time.Second
	}
	p, err := newPool(c.Pool)
	if err != nil {
		return nil, err
	}
	return &Balancer{Config: c, pool: p, waiting: map[string]bool{}, said: map[string]map[string]bool{}, dirty: map[string]bool{}, changed: make(chan struct{}, 1)}, nil
}

// Run gives addresses until ctx ends, and returns nil. It must be called once.
func (b *Balancer) Run(ctx context.Context) error {
	defer b.Services.Subscribe(func(old, new *corev1.Service) {
		if old != nil {
			b.mark(localcache.KeyOf(old))
		}
		if new != nil {
			b.mark(localcache.KeyOf(new))
		}
	}).Stop()
	select {
	case <-b.Services.Synced():
	case <-ctx.Done():
		return nil
	}
	// The oldest service keeps an address that several have.
	all := slices.SortedFunc(b.Services.All(), func(x, y *corev1.Service) int { return x.CreationTimestamp.Compare(y.CreationTimestamp.Time) })
	for _, s := range all {
		for _, a := range b.given(s) {
			b.pool.claim(a, localcache.KeyOf(s))
		}
	}
	retry := time.NewTimer(b.Retry)
	retry.Stop()
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-retry.C:
		case <-b.changed:
		}
		if b.work(ctx) {
			retry.Reset(b.Retry)
		}
	}
}

func (b *Balancer) mark(keys ...string) {
	b.mu.Lock()
	for _, key := range keys {
		b.dirty[key] = true
	}
	b.mu.Unlock()
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// work looks at all dirty services and reports whether some must be tried again.
func (b *Balancer) work(ctx context.Context) (again bool) {
	b.mu.Lock()
	keys := slices.Sorted(maps.Keys(b.dirty))
	clear(b.dirty)
	b.mu.Unlock()
	for _, key := range keys {
		released, err := b.sync(ctx, key)
		if released && len(b.waiting) > 0 {
			b.mark(slices.Collect(maps.Keys(b.waiting))...)
			clear(b.waiting)
		}
		if err != nil && ctx.Err() == nil {
			b.Log.Error(err, "could not write the address of a service", "service", key)
			b.mu.Lock()
			b.dirty[key] = true
			b.mu.Unlock()
			again = true
		}
	}
	return again
}

// given returns the addresses of the pool in the status of a service.
func (b *Balancer) given(s *corev1.Service) []netip.Addr {
	var all []netip.Addr
	for _, i := range s.Status.LoadBalancer.Ingress {
		if a, err := netip.ParseAddr(i.IP); err == nil && b.pool.contains(a) {
			all = append(all, a)
		}
	}
	return all
}

// wanted reports whether the service gets addresses here.
func (b *Balancer) wanted(s *corev1.Service) bool {
	class := ""
	if s.Spec.LoadBalancerClass != nil {
		class = *s.Spec.LoadBalancerClass
	}
	return s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.DeletionTimestamp == nil && class == b.Class
}

// sync makes the status of a service right, and reports whether addresses became free.
func (b *Balancer) sync(ctx context.Context, key string) (released bool, err error) {
	delete(b.waiting, key)
	defer func() {
		if !b.waiting[key] {
			delete(b.said, key)
		}
	}()
	s, ok := b.Services.Get(key)
	if !ok {
		return b.pool.release(key), nil
	}
	if !b.wanted(s) {
		if len(b.given(s)) > 0 && !b.ofAnother(s) {
			if err := b.write(ctx, s, nil); err != nil {
				return false, err
			}
		}
		return b.pool.release(key), nil
	}
	addrs := b.allocate(s, key)
	released = b.pool.release(key, addrs...)
	if slices.Equal(addrs, b.given(s)) && len(addrs) == len(s.Status.LoadBalancer.Ingress) {
		return released, nil
	}
	return released, b.write(ctx, s, addrs)
}

// ofAnother reports whether a service has the class of another controller, which writes its status.
func (b *Balancer) ofAnother(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.DeletionTimestamp == nil
}

// allocate returns an address for each family of the service: the one that it asks for, that in its status, or any
// if it asks for none.
func (b *Balancer) allocate(s *corev1.Service, key string) []netip.Addr {
	asked, problem := b.asked(s)
	if problem != "" {
		b.event(s, "AllocationFailed", problem)
	}
	var addrs []netip.Addr
	for _, family := range families(s) {
		v6 := family == corev1.IPv6Protocol
		candidates := b.given(s)
		particular := problem != "" || asked.IsValid() && asked.Is6() == v6
		if problem == "" && particular {
			candidates = append([]netip.Addr{asked}, candidates...)
		}
		a, ok := b.claimFirst(s, key, candidates, v6)
		if !ok && particular {
			b.waiting[key] = true
			continue
		}
		if !ok {
			var err error
			if a, err = b.pool.take(v6, key); err != nil {
				b.waiting[key] = true
				b.event(s, "AllocationFailed", fmt.Sprintf("no %s address: %v", family, err))
				continue
			}
		}
		addrs = append(addrs, a)
	}
	return addrs
}

// asked returns the address that a service asks for, invalid if none, or why it cannot have it.
func (b *Balancer) asked(s *corev1.Service) (a netip.Addr, problem string) {
	text := s.Spec.LoadBalancerIP
	if text == "" {
		return a, ""
	}
	a, err := netip.ParseAddr(text)
	family := corev1.IPv4Protocol
	if a.Is6() {
		family = corev1.IPv6Protocol
	}
	switch {
	case err != nil:
		return netip.Addr{}, fmt.Sprintf("spec.loadBalancerIP %.50q is no address", text)
	case !b.pool.contains(a):
		return netip.Addr{}, fmt.Sprintf("spec.loadBalancerIP %v is not in the pool", a)
	case !slices.Contains(families(s), family):
		return netip.Addr{}, fmt.Sprintf("spec.loadBalancerIP %v is of no family of the service", a)
	}
	return a, ""
}

func (b *Balancer) claimFirst(s *corev1.Service, key string, candidates []netip.Addr, v6 bool) (netip.Addr, bool) {
	for _, a := range candidates {
		if a.Is6() != v6 {
			continue
		}
		other, ok := b.pool.claim(a, key)
		if ok {
			return a, true
		}
		b.waiting[key] = true
		b.event(s, "AddressInUse", fmt.Sprintf("address %v belongs to service %s", a, other))
	}
	return netip.Addr{}, false
}

// families returns the families of a service, IPv4 if the API server did not set any.
func families(s *corev1.Service) []corev1.IPFamily {
	if len(s.Spec.IPFamilies) == 0 {
		return []corev1.IPFamily{corev1.IPv4Protocol}
	}
	return s.Spec.IPFamilies
}

// event says why a service waits, unless it was said already.
func (b *Balancer) event(s *corev1.Service, reason, message string) {
	key := localcache.KeyOf(s)
	if b.said[key][message] {
		return
	}
	if b.said[key] == nil {
		b.said[key] = map[string]bool{}
	}
	b.said[key][message] = true
	b.Log.Info("service waits for an address", "service", key, "reason", message)
	if b.Events != nil {
		b.Events.Event(s, corev1.EventTypeWarning, reason, message)
	}
}

// write replaces the addresses in the status. A service that is gone, or newer than the cache, is not
// written: the cache will say so.
func (b *Balancer) write(ctx context.Context, s *corev1.Service, addrs []netip.Addr) error {
	changed := s.DeepCopy()
	changed.Status.LoadBalancer.Ingress = nil
	for _, a := range addrs {
		changed.Status.LoadBalancer.Ingress = append(changed.Status.LoadBalancer.Ingress,
			corev1.LoadBalancerIngress{IP: a.String(), IPMode: new(corev1.LoadBalancerIPModeVIP)})
	}
	_, err := b.Writer.UpdateStatus(ctx, changed)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
