package podnetwork

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/plane/stack"
	"github.com/planekit/planekit/service/proxy"
)

// LocalConfig configures the network of nodes that share the network of this process.
type LocalConfig struct {
	// Services and EndpointSlices are required.
	Services       localcache.Subscriber[*corev1.Service]
	EndpointSlices localcache.Subscriber[*discoveryv1.EndpointSlice]
	// Nodes are the names of the nodes. At least one is required.
	Nodes []string
	// NodePorts are the addresses of this machine where [StartNodePorts] opens node ports. They lead where those
	// of the first node would.
	NodePorts []netip.Addr
	// Event records an event about a service whose node port cannot be opened. It is required with NodePorts.
	Event func(object runtime.Object, eventtype, reason, message string)
	Log   logr.Logger
}

func (c *LocalConfig) check() error {
	if len(c.Nodes) == 0 || len(c.NodePorts) > 0 && c.Event == nil {
		return errors.New("podnetwork: Nodes and, with NodePorts, Event are required")
	}
	return nil
}

// StartNodePorts starts what serves node ports on s without rules of the kernel. It reaches pods by dial; nil means
// by the network of this process.
func StartNodePorts(s *stack.Stack, c LocalConfig, dial func(ctx context.Context, network, address string) (net.Conn, error)) error {
	if err := c.check(); err != nil {
		return err
	}
	ports, err := proxy.NewListeners(proxy.ListenersConfig{
		Services: c.Services, EndpointSlices: c.EndpointSlices, Node: c.Nodes[0], Addresses: c.NodePorts, Dial: dial,
		Events: recorder(c.Event), Log: c.Log.WithName("node-ports"),
	})
	if err != nil {
		return err
	}
	s.Start("node ports", ports.Run)
	return nil
}

// recorder is a function as a [proxy.Recorder].
type recorder func(object runtime.Object, eventtype, reason, message string)

func (r recorder) Event(s *corev1.Service, eventtype, reason, message string) {
	r(s, eventtype, reason, message)
}

// A Simulated network leads from the addresses and names of services to the simulated containers of this
// process, without the kernel. Nothing else can be reached: a container has no way out.
type Simulated struct {
	dialPod func(netip.AddrPort) (net.Conn, error)
	dialers map[string]*proxy.Dialer // by node
}

// StartSimulated starts the network on s, with node ports if there are addresses for them. dialPod connects to
// a port of a pod; its error is syscall.EHOSTUNREACH if no pod has the address.
func StartSimulated(s *stack.Stack, c LocalConfig, dialPod func(netip.AddrPort) (net.Conn, error)) (*Simulated, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	n := &Simulated{dialPod: dialPod, dialers: map[string]*proxy.Dialer{}}
	for _, node := range c.Nodes {
		d, err := proxy.NewDialer(proxy.DialerConfig{Services: c.Services, EndpointSlices: c.EndpointSlices, Node: node, Domain: Domain, Dial: n.dial})
		if err != nil {
			return nil, err
		}
		n.dialers[node] = d
		s.Start("services of "+node, d.Run)
	}
	if len(c.NodePorts) == 0 {
		return n, nil
	}
	return n, StartNodePorts(s, c, n.dial)
}

// DialFrom returns a function that makes connections as a pod of a node does, in whose namespace names
// without one are looked up.
func (n *Simulated) DialFrom(node string) func(ctx context.Context, namespace, network, address string) (net.Conn, error) {
	dialer := n.dialers[node]
	return func(ctx context.Context, namespace, network, address string) (net.Conn, error) {
		if dialer == nil {
			return nil, fmt.Errorf("node %s is not one of the network", node)
		}
		return dialer.In(namespace).DialContext(ctx, network, address)
	}
}

// dial connects to a pod. Names that belong to no service are unknown.
func (n *Simulated) dial(_ context.Context, network, address string) (net.Conn, error) {
	if !strings.HasPrefix(network, "tcp") {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.EPROTONOSUPPORT}
	}
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		host, _, _ := net.SplitHostPort(address)
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return n.dialPod(to)
}
