package fleet

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/planekit/planekit/examples/cluster/guest"
	"github.com/planekit/planekit/examples/cluster/machine"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/plane/stack"
)

// Config configures a Fleet. ID, Network and Pods must be set.
type Config struct {
	// ID is the identity of the cluster, which is in the names of links.
	ID string
	// Network is the IPv4 range of the addresses of machines, and Pods that of their pods.
	Network, Pods netip.Prefix
	// Services are the ranges of the addresses of services, which lead to a machine from here unless this machine has
	// another route into one of them.
	Services []netip.Prefix
	// Restart is set if machines that end are started again.
	Restart bool
	// StopNow, when closed, ends the time that machines get to stop. It may be nil.
	StopNow <-chan struct{}
	// Log is silent when zero.
	Log logr.Logger
}

// Node is a node with a machine of its own. All fields must be set.
type Node struct {
	// Name is the name of the node and of the host in its machine.
	Name string
	// Dir is the absolute path of the directory of the machine's files.
	Dir string
	// Cgroup is the cgroup of the node's pods, which is removed when the machine is off.
	Cgroup string
	// Program is the command line that runs the node.
	Program []string
}

// Fleet runs the machines of a cluster. Its methods are for one goroutine.
type Fleet struct {
	config  Config
	network *guest.Network
	all     []*nodeMachine
	routed  []netip.Prefix // those of Config.Services that lead to a machine

	mu   sync.Mutex
	wake chan struct{} // guarded by mu; closed when machines that are off are to be started
}

// nodeMachine is a machine and its node.
type nodeMachine struct {
	*guest.Machine
	node Node
}

// New returns a fleet without machines. It makes nothing.
func New(c Config) (*Fleet, error) {
	network, err := guest.NewNetwork(guest.NetworkConfig{Bridge: machine.Bridge(c.ID, 0), Prefix: c.Network})
	if err != nil {
		return nil, err
	}
	return &Fleet{config: c, network: network}, nil
}

// Gateway returns the address of this host for machines.
func (f *Fleet) Gateway() netip.Addr { return f.network.Gateway() }

// LeadsToServices reports whether addresses of services lead to a machine from here. It is known once Start has been called.
func (f *Fleet) LeadsToServices() bool { return len(f.routed) > 0 }

// Address returns the address of the machine with that index, from 0. It is not valid if the network has no room
// for it.
func (f *Fleet) Address(index int) netip.Addr { return f.network.Address(index) }

// Connect makes the network of machines, and returns a listener that accepts connections from there too, at the port
// of listener. The network is removed when s stops, unless machines are left.
func (f *Fleet) Connect(ctx context.Context, s *stack.Stack, listener net.Listener) (net.Listener, error) {
	s.OnStop("network of machines", func() error {
		if s.Leaves() {
			return nil
		}
		return f.network.Down(context.WithoutCancel(ctx))
	})
	if err := f.network.Up(ctx); err != nil {
		return nil, err
	}
	listens, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		return nil, fmt.Errorf("machines cannot connect to %v", listener.Addr())
	}
	port := listens.AddrPort()
	if port.Addr().IsUnspecified() {
		return listener, nil
	}
	inner, err := net.Listen("tcp", netip.AddrPortFrom(f.Gateway(), port.Port()).String())
	if err != nil {
		return nil, fmt.Errorf("listen for machines: %w", err)
	}
	return joinListeners(listener, inner), nil
}

// Start starts a machine for each node and waits until the nodes are ready. It is called once; all is a running cache
// of the nodes of the cluster.
func (f *Fleet) Start(ctx context.Context, s *stack.Stack, nodes []Node, all localcache.ReadSubscriber[*corev1.Node]) error {
	for index, node := range nodes {
		one, err := guest.New(guest.Config{
			Name: node.Name, Port: portName(f.config.ID, index), Dir: node.Dir, Network: f.network, Address: f.Address(index), Program: node.Program,
		})
		if err != nil {
			return err
		}
		f.all = append(f.all, &nodeMachine{Machine: one, node: node})
	}
	since := time.Now().Truncate(time.Second) // as conditions have it
	if err := f.chooseRoutes(); err != nil {
		return err
	}
	s.Start("routes to pods", func(ctx context.Context) error { return f.followRoutes(ctx, all) })
	part := s.Start("machines", func(ctx context.Context) error { return f.run(ctx, s.Leaves) })
	part.Bounded, part.WaitingFor = true, f.waitingFor
	return f.awaitReady(ctx, s, all, since)
}

// portName returns the name of the host's end of a machine's link.
func portName(id string, index int) string { return "pk" + id + "m" + strconv.Itoa(index+1) }

// readyPoll is how often the Nodes of machines are looked at while they start.
const readyPoll = 10 * time.Millisecond

// awaitReady waits until the Node of each machine is ready, as its program has said since then, in this boot.
func (f *Fleet) awaitReady(ctx context.Context, s *stack.Stack, all localcache.Getter[*corev1.Node], since time.Time) error {
	for _, m := range f.all {
		for !m.ready(all, since) {
			soon, cancel := context.WithTimeout(ctx, readyPoll)
			err := s.Await(soon, nil)
			cancel()
			if ctx.Err() != nil || soon.Err() == nil {
				return err
			}
		}
	}
	return nil
}

// ready reports whether the Node of a machine was reported ready since then, in this boot.
func (m *nodeMachine) ready(all localcache.Getter[*corev1.Node], since time.Time) bool {
	node, ok := all.Get(m.node.Name)
	boot := m.Boot()
	if !ok || boot == "" || node.Status.NodeInfo.BootID != boot {
		return false
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue && !condition.LastHeartbeatTime.Time.Before(since)
		}
	}
	return false
}
