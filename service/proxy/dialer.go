package proxy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"syscall"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/service/ruleset"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// DialerConfig describes a [Dialer].
type DialerConfig struct {
	// Services and EndpointSlices are required.
	Services       localcache.Subscriber[*corev1.Service]
	EndpointSlices localcache.Subscriber[*discoveryv1.EndpointSlice]
	// Node and Zone are those of the client, for policies Local and for hints. Empty means that no
	// endpoint is local or near.
	Node, Zone string
	// Namespace completes names without one; empty means "default".
	Namespace string
	// Domain is the domain of the cluster; empty means "cluster.local".
	Domain string
	// Dial makes connections to endpoints, and to hosts that belong to no service; nil means those of
	// a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// A Dialer makes connections to services without rules of the kernel, and so without root and on every
// system. Its DialContext serves as that of an http.Transport:
//
//	client := &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext}}
//	client.Get("http://web.default")
//
// It is safe for concurrent use.
type Dialer struct {
	DialerConfig
	balancer *balancer
}

// NewDialer checks a configuration and returns a Dialer that follows nothing yet.
func NewDialer(c DialerConfig) (*Dialer, error) {
	if c.Services == nil || c.EndpointSlices == nil {
		return nil, errors.New("proxy: Services and EndpointSlices are required")
	}
	if c.Namespace == "" {
		c.Namespace = corev1.NamespaceDefault
	}
	if c.Domain == "" {
		c.Domain = "cluster.local"
	}
	if c.Dial == nil {
		c.Dial = new(net.Dialer).DialContext
	}
	return &Dialer{c, newBalancer(c.Services, c.EndpointSlices, Site{Node: c.Node, Zone: c.Zone})}, nil
}

// In returns the Dialer for clients in another namespace. It follows what d follows, so that only d runs.
func (d *Dialer) In(namespace string) *Dialer {
	other := *d
	if namespace != "" {
		other.Namespace = namespace
	}
	return &other
}

// Run follows services and endpoints until ctx ends, and returns nil. It must be called once.
func (d *Dialer) Run(ctx context.Context) error { return d.balancer.run(ctx, func() {}) }

// Ready is closed once all services are known.
func (d *Dialer) Ready() <-chan struct{} { return d.balancer.ready }

// DialContext connects to an endpoint of the service at address, which is a cluster or external address
// or a DNS name of the cluster, with a port that is a number or a name. It waits until the services are
// known. Other addresses are dialed as they are. A service without endpoints, and a port that the
// service does not have, is an error that is syscall.ECONNREFUSED.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	select {
	case <-d.balancer.ready:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	protocol := ruleset.TCP
	if strings.HasPrefix(network, "udp") {
		protocol = ruleset.UDP
	}
	r, ok := d.balancer.resolve(host, port, d.Namespace, d.Domain, protocol)
	switch {
	case !ok:
		return d.Dial(ctx, network, address)
	case r.host != "":
		return d.Dial(ctx, network, net.JoinHostPort(r.host, port))
	case len(r.endpoints) > 0:
		return d.Dial(ctx, network, r.endpoints[rand.IntN(len(r.endpoints))].Addr.String())
	}
	if r.target != nil {
		// All connections of a Dialer come from one client.
		if endpoint, ok := d.balancer.choose(r.target, netip.Addr{}, false); ok {
			return d.Dial(ctx, network, endpoint.String())
		}
	}
	return nil, fmt.Errorf("dial %s %s: the service has no endpoint there: %w", network, address, syscall.ECONNREFUSED)
}
