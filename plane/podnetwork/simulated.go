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

// SimulatedConfig configures the network of nodes whose containers are simulated in this process.
type SimulatedConfig struct {
	// Services and EndpointSlices are required.
	Services       localcache.Subscriber[*corev1.Service]
	EndpointSlices localcache.Subscriber[*discoveryv1.EndpointSlice]
	// Nodes are the names of the nodes. At least one is required.
	Nodes []string
	// DialPod connects to a port of a pod. Its error is syscall.EHOSTUNREACH if no pod has the address.
	DialPod func(netip.AddrPort) (net.Conn, error)
	// NodePorts are the addresses of this machine where node ports are opened; none by default. They lead
	// where those of the first node would.
	NodePorts []netip.Addr
	// Event records an event about a service whose node port cannot be opened. It is required with NodePorts.
	Event func(object runtime.Object, eventtype, reason, message string)
	Log   logr.Logger
}

// recorder is a function as a [proxy.Recorder].
type recorder func(object runtime.Object, eventtype, reason, message string)

func (r recorder) Event(s *corev1.Service, eventtype, reason, message string) {
	r(s, eventtype, reason, message)
}

// A Simulated network leads from the addresses and names of services to pods, without the kernel. Only
// pods of this process can be reached: a container has no way out.
type Simulated struct {
	config  SimulatedConfig
	dialers map[string]*proxy.Dialer // by node
}

// StartSimulated starts the network on s.
func StartSimulated(s *stack.Stack, c SimulatedConfig) (*Simulated, error) {
	if len(c.Nodes) == 0 || c.DialPod == nil || len(c.NodePorts) > 0 && c.Event == nil {
		return nil, errors.New("podnetwork: Nodes, DialPod and, with NodePorts, Event are required")
	}
	n := &Simulated{config: c, dialers: map[string]*proxy.Dialer{}}
	for _, node := range c.Nodes {
		d, err := proxy.NewDialer(proxy.DialerConfig{Services: c.Services, EndpointSlices: c.EndpointSlices, Node: node, Domain: Domain, Dial: n.dialPod})
		if err != nil {
			return nil, err
		}
		n.dialers[node] = d
		s.Start("services of "+node, d.Run)
	}
	if len(c.NodePorts) == 0 {
		return n, nil
	}
	ports, err := proxy.NewListeners(proxy.ListenersConfig{
		Services: c.Services, EndpointSlices: c.EndpointSlices, Node: c.Nodes[0], Addresses: c.NodePorts, Dial: n.dialPod,
		Events: recorder(c.Event), Log: c.Log.WithName("node-ports"),
	})
	if err != nil {
		return nil, err
	}
	s.Start("node ports", ports.Run)
	return n, nil
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

// dialPod connects to a pod. Names that belong to no service are unknown.
func (n *Simulated) dialPod(_ context.Context, network, address string) (net.Conn, error) {
	if !strings.HasPrefix(network, "tcp") {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.EPROTONOSUPPORT}
	}
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		host, _, _ := net.SplitHostPort(address)
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return n.config.DialPod(to)
}
