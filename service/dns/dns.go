package dns

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Defaults of [Config].
const (
	DefaultDomain         = "cluster.local"
	DefaultTTL            = 5 * time.Second
	DefaultMaxCacheTTL    = 30 * time.Second
	DefaultCacheBytes     = 16 << 20
	DefaultMaxForwards    = 1000
	DefaultMaxConnections = 1000
	DefaultIdleTimeout    = 8 * time.Second
	// DefaultTimeout is less than the 5 seconds after which clients ask again.
	DefaultTimeout = 4 * time.Second
)

// Config describes a [Server].
type Config struct {
	// Domain is the domain of the cluster, in lower case; empty means [DefaultDomain].
	Domain string
	// Services and EndpointSlices are caches of the whole cluster. They are required.
	Services       localcache.Subscriber[*corev1.Service]
	EndpointSlices localcache.Subscriber[*discoveryv1.EndpointSlice]
	// Namespaces decide whether NAMESPACE.svc exists, and for which namespaces names of pods are
	// answered. If nil, a namespace exists while it has a service, and pods have names in all.
	Namespaces localcache.Subscriber[*corev1.Namespace]
	// ReverseRanges are the ranges of pods and services: an address in them that has no name is NXDOMAIN,
	// while questions about other addresses are forwarded.
	ReverseRanges []netip.Prefix
	// Addresses belong to ns.dns in the domain: clients reach this server at them.
	Addresses []netip.Addr
	// PacketConns and Listeners are what the server listens at, at least one of them. Run closes them.
	PacketConns []net.PacketConn
	Listeners   []net.Listener
	// Upstreams are the resolvers for other names, in the order in which they are asked. Without any such
	// questions are refused. None may be one of Addresses or what the server listens at.
	Upstreams []netip.AddrPort
	// Clients reports whether a client may ask. Others get no answer, so that they, or those whose address they forge, are sent
	// nothing. Nil lets all ask. It is called for every question, by several goroutines.
	Clients func(netip.Addr) bool
	// TTL belongs to the cluster's records; 0 means [DefaultTTL]. It is a number of seconds.
	TTL time.Duration
	// MaxCacheTTL bounds for how long answers of upstreams are remembered; 0 means [DefaultMaxCacheTTL].
	MaxCacheTTL time.Duration
	// CacheBytes bounds the memory of these answers; 0 means [DefaultCacheBytes].
	CacheBytes int
	// MaxForwards bounds how many questions wait for upstreams; further ones get SERVFAIL. 0 means
	// [DefaultMaxForwards].
	MaxForwards int
	// MaxConnections bounds the TCP connections; further ones are closed. 0 means [DefaultMaxConnections].
	MaxConnections int
	// IdleTimeout ends a connection that does not send a whole question; 0 means [DefaultIdleTimeout].
	IdleTimeout time.Duration
	// Timeout ends a question to all upstreams; 0 means [DefaultTimeout].
	Timeout time.Duration
	// Meters are called with measurements.
	Meters Meters
	Log    logr.Logger
}

// Server answers DNS questions. Its methods are safe for concurrent use.
type Server struct {
	Config
	// suffix is the domain with a dot at both ends.
	suffix      string
	ttl, serial uint32
	index       *index
	forwarder   *forwarder
	ready       chan struct{}
	// forwards and connections have room for those that are allowed at a time.
	forwards, connections chan struct{}
}

// New checks a configuration and returns a Server that does nothing yet.
func New(c Config) (*Server, error) {
	c.Domain = cmp.Or(c.Domain, DefaultDomain)
	if !validDomain(c.Domain) {
		return nil, fmt.Errorf("dns: Domain: %q is not a domain name in lower case", c.Domain)
	}
	if c.Services == nil || c.EndpointSlices == nil {
		return nil, errors.New("dns: Services and EndpointSlices are required")
	}
	if len(c.PacketConns)+len(c.Listeners) == 0 {
		return nil, errors.New("dns: PacketConns, Listeners: nothing to listen at")
	}
	for _, r := range c.ReverseRanges {
		if !r.IsValid() || r != r.Masked() || r.Addr().Is4In6() {
			return nil, fmt.Errorf("dns: ReverseRanges: %v is not the first address of a range", r)
		}
	}
	if c.TTL < 0 || c.MaxCacheTTL < 0 || c.Timeout < 0 || c.IdleTimeout < 0 || c.CacheBytes < 0 || c.MaxForwards < 0 || c.MaxConnections < 0 {
		return nil, errors.New("dns: TTL, MaxCacheTTL, Timeout, IdleTimeout, CacheBytes, MaxForwards, MaxConnections: negative")
	}
	c.TTL, c.MaxCacheTTL, c.Timeout = cmp.Or(c.TTL, DefaultTTL), cmp.Or(c.MaxCacheTTL, DefaultMaxCacheTTL), cmp.Or(c.Timeout, DefaultTimeout)
	if c.TTL%time.Second != 0 || c.TTL > 24*time.Hour {
		return nil, fmt.Errorf("dns: TTL: %v is not a number of seconds of at most a day", c.TTL)
	}
	c.IdleTimeout = cmp.Or(c.IdleTimeout, DefaultIdleTimeout)
	c.CacheBytes = cmp.Or(c.CacheBytes, DefaultCacheBytes)
	c.MaxForwards, c.MaxConnections = cmp.Or(c.MaxForwards, DefaultMaxForwards), cmp.Or(c.MaxConnections, DefaultMaxConnections)
	s := &Server{
		Config: c, suffix: "." + c.Domain + ".", ttl: uint32(c.TTL / time.Second), serial: uint32(time.Now().Unix()),
		index: newIndex(c.Namespaces != nil), ready: make(chan struct{}),
		forwards: make(chan struct{}, c.MaxForwards), connections: make(chan struct{}, c.MaxConnections),
		forwarder: &forwarder{
			exchange: overNetwork, cache: newCache(c.CacheBytes, c.Meters), maxTTL: c.MaxCacheTTL, timeout: c.Timeout, meters: c.Meters,
		},
	}
	s.forwarder.isOwn = s.isOwnName
	for _, a := range c.Upstreams {
		if !a.IsValid() || a.Port() == 0 {
			return nil, fmt.Errorf("dns: Upstreams: %v is not an address and a port", a)
		}
		if s.isOwn(a) {
			return nil, fmt.Errorf("dns: Upstreams: %v is this server", a)
		}
		s.forwarder.upstreams = append(s.forwarder.upstreams, newUpstream(a))
	}
	return s, nil
}

// isOwn reports whether this server answers at an address.
func (s *Server) isOwn(a netip.AddrPort) bool {
	for _, own := range s.Addresses {
		if own == a.Addr().Unmap() {
			return true
		}
	}
	var all []net.Addr
	for _, c := range s.PacketConns {
		all = append(all, c.LocalAddr())
	}
	for _, l := range s.Listeners {
		all = append(all, l.Addr())
	}
	for _, own := range all {
		if p, err := netip.ParseAddrPort(own.String()); err == nil && p.Port() == a.Port() &&
			(p.Addr().Unmap() == a.Addr().Unmap() || p.Addr().IsUnspecified() && a.Addr().IsLoopback()) {
			return true
		}
	}
	return false
}

// isOwnName reports whether this server answers about a name, which is in lower case, itself.
func (s *Server) isOwnName(lower string) bool {
	if _, ok := s.inDomain(lower); ok {
		return true
	}
	a, _, ok := reverseAddress(lower)
	return ok && slices.ContainsFunc(s.ReverseRanges, func(r netip.Prefix) bool { return r.Contains(a) })
}

// Ready is closed once all services are known. Before, questions about the cluster get SERVFAIL.
func (s *Server) Ready() <-chan struct{} { return s.ready }

func (s *Server) isReady() bool {
	select {
	case <-s.ready:
		return true
	default:
		return false
	}
}

// Run answers questions until ctx ends, and then returns nil. It returns an error if one of the sockets
// fails. It must be called once.
func (s *Server) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	subscriptions := []localcache.Subscription{
		s.Services.Subscribe(s.index.setService), s.EndpointSlices.Subscribe(s.setSlice),
	}
	if s.Namespaces != nil {
		subscriptions = append(subscriptions, s.Namespaces.Subscribe(s.index.setNamespace))
	}
	var running sync.WaitGroup
	running.Go(func() { s.becomeReady(ctx, subscriptions) })
	running.Go(func() { s.probe(ctx) })
	for _, c := range s.PacketConns {
		running.Go(func() { s.servePackets(ctx, c, cancel) })
	}
	for _, l := range s.Listeners {
		running.Go(func() { s.serveConnections(ctx, l, cancel) })
	}
	<-ctx.Done()
	for _, c := range s.PacketConns {
		c.Close()
	}
	for _, l := range s.Listeners {
		l.Close()
	}
	for _, one := range subscriptions {
		one.Stop()
	}
	running.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// becomeReady closes ready once all handlers have received the first lists.
func (s *Server) becomeReady(ctx context.Context, all []localcache.Subscription) {
	for _, one := range all {
		select {
		case <-one.CaughtUp:
		case <-ctx.Done():
			return
		}
	}
	close(s.ready)
}

// setSlice is the handler of changes of slices.
func (s *Server) setSlice(old, new *discoveryv1.EndpointSlice) {
	s.index.setSlice(old, new)
	if new == nil || s.Meters.Programmed == nil || !s.isReady() || !isHeadless(new) {
		return
	}
	if at, err := time.Parse(time.RFC3339Nano, new.Annotations[corev1.EndpointsLastChangeTriggerTime]); err == nil {
		s.Meters.Programmed(time.Since(at))
	}
}

// isHeadless reports whether a slice belongs to a headless service.
func isHeadless(s *discoveryv1.EndpointSlice) bool {
	_, ok := s.Labels[corev1.IsHeadlessService]
	return ok
}
