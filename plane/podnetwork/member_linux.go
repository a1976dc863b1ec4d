package podnetwork

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/cni/overlay"
	"github.com/planekit/planekit/plane/caches"
	"github.com/planekit/planekit/plane/overlays"
	"github.com/planekit/planekit/plane/stack"
	"github.com/planekit/planekit/service/proxy"
	proxymetrics "github.com/planekit/planekit/service/proxy/metrics"
)

// Config configures a node in the network. All fields but Log must be set.
type Config struct {
	// Node is the name of the node, whose range of pod addresses is the podCIDR of its Node object.
	Node string
	// Address is the node's own address, where its DNS server listens.
	Address netip.Addr
	// Client acts as the user of the node.
	Client *client.Client
	// Network is the network that the control plane has published.
	Network Network
	// Bridge is the bridge that connects the node's pods.
	Bridge string
	// Log is silent when zero.
	Log logr.Logger
}

// Member is a node in the network.
type Member struct {
	config Config
	nodes  *overlays.Nodes
	// made has the overlay once the node has a range.
	made chan *overlay.Overlay
	// policies enforces the policies of the node's pods.
	policies *policies
}

// Start starts the overlay, the service proxy, the enforcer of policies and the DNS server of a node on s, in the network namespace of this process. The overlay
// waits until the Node object has a range.
func Start(s *stack.Stack, c Config) (*Member, error) {
	all, err := caches.Of(typed.Nodes(c.Client), c.Log.WithName("nodes"))
	if err != nil {
		return nil, err
	}
	members, err := overlays.New(overlays.Config{Node: c.Node, Nodes: all, Writer: typed.Nodes(c.Client), Log: c.Log.WithName("overlay")})
	if err != nil {
		return nil, err
	}
	log := c.Log.WithName("services")
	var group caches.Group
	services, err1 := caches.Add(&group, "services", typed.Services(c.Client), log)
	slices, err2 := caches.Add(&group, "endpointslices", typed.EndpointSlices(c.Client), log)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	registry, measured := prometheus.NewRegistry(), proxymetrics.New()
	if err := registry.Register(measured); err != nil {
		return nil, err
	}
	p, err := proxy.New(proxy.Config{
		Meters: measured.Meters(),
		Node:   c.Node, Services: services, EndpointSlices: slices, Nodes: all,
		PodRanges: []netip.Prefix{c.Network.Pods}, ServiceRanges: c.Network.Services, Log: log,
	})
	if err != nil {
		return nil, err
	}
	m := &Member{config: c, nodes: members, made: make(chan *overlay.Overlay, 1)} // one overlay
	s.Start("informer of nodes", all.Run)
	s.Start("overlay", func(ctx context.Context) error { return m.run(ctx, s) })
	group.Start(s)
	s.Start("services", func(ctx context.Context) error {
		return runAndRemove(ctx, s, p)
	})
	if err := startStatus(s, p, registry, log); err != nil {
		return nil, err
	}
	if m.policies, err = startPolicies(s, c); err != nil {
		return nil, err
	}
	if c.Network.DNS.IsValid() {
		if err := startDNS(s, c, services, slices, registry); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// runAndRemove runs a part of the kernel's state until ctx is done, and removes it unless s leaves it: no pods are left
// then.
func runAndRemove(ctx context.Context, s *stack.Stack, part interface {
	Run(ctx context.Context) error
	Remove(ctx context.Context) error
}) error {
	err := part.Run(ctx)
	if s.Leaves() {
		return err
	}
	return errors.Join(err, part.Remove(context.WithoutCancel(ctx)))
}

// run runs the overlay until ctx is done.
func (m *Member) run(ctx context.Context, s *stack.Stack) error {
	local, err := m.nodes.Local(ctx)
	if ctx.Err() != nil {
		return nil
	}
	var running *overlay.Overlay
	if err == nil {
		running, err = overlay.New(overlay.Config{
			Backend: m.config.Network.Backend.Type, Local: local, Members: m.nodes, Publish: m.nodes.Publish,
			Network: []netip.Prefix{m.config.Network.Pods}, Log: m.config.Log.WithName("overlay"),
		})
	}
	if err != nil {
		return fmt.Errorf("overlay %s: %w", m.config.Network.Backend.Type, err)
	}
	m.made <- running
	return runAndRemove(ctx, s, running)
}

// MTU waits until packets get to other nodes and the policies of pods hold, and returns the MTU of the interfaces of
// pods, in bytes. Its only error is that of ctx. It is safe for concurrent use.
func (m *Member) MTU(ctx context.Context) (int, error) {
	select {
	case <-m.policies.enforcer.Ready():
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	select {
	case made := <-m.made:
		m.made <- made // for the next caller
		select {
		case <-made.Ready():
			return made.MTU(), nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}
