package main

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"

	"github.com/planekit/planekit/client/events"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/nodes"
	"github.com/planekit/planekit/plane/podnetwork"
	"github.com/planekit/planekit/plane/stack"
)

// The notices say what has no effect on the nodes of this process.
const (
	sharedNotice = "The nodes share this machine: addresses and names of Services, and NetworkPolicies, have no effect on them. " +
		"With --machines=true each node is a machine of its own, where they have."
	joinedNotice    = "Services and NetworkPolicies have no effect on the simulated containers of a node that joined."
	simulatedNotice = "Services lead to simulated containers from other ones (wget -O - http://NAME) and, by node ports, from 127.0.0.1; " +
		"NetworkPolicies have no effect on them."
)

// networkNotice returns what has no effect on the nodes of this process, or nothing without such nodes.
func (c *cluster) networkNotice() string {
	switch {
	case c.options.role == roleNode && c.runtime == "fake":
		return joinedNotice
	case c.options.role == roleNode:
		return ""
	case c.options.nodes == 0 || c.gateway.IsValid():
		return ""
	case c.runtime == "fake":
		return simulatedNotice
	}
	return sharedNotice
}

// simulatedFields are the fields of services that act on simulated containers.
var simulatedFields = []string{
	"spec.clusterIP", "spec.ports[].nodePort", "spec.externalName", "spec.externalIPs", "spec.sessionAffinity",
	"spec.externalTrafficPolicy", "spec.internalTrafficPolicy",
}

// simulatedNodes are the nodes of this process whose containers are simulated, and their network.
type simulatedNodes struct {
	network *podnetwork.Simulated // nil where services have no effect

	mu    sync.Mutex
	nodes []*nodes.Memory // guarded by mu
}

// startServices starts the network of simulated containers, before their nodes.
func (c *cluster) startServices(p *plane.Plane, s *stack.Stack) error {
	if c.runtime != "fake" || c.options.nodes == 0 {
		return nil
	}
	recorder, err := events.New(events.Config{Client: p.Client(), Component: "kube-proxy", Log: c.log})
	if err != nil {
		return err
	}
	s.Start("events of node ports", recorder.Run)
	config := podnetwork.SimulatedConfig{
		Services: p.Caches.Services, EndpointSlices: p.Caches.EndpointSlices, DialPod: c.simulated.dialPod,
		NodePorts: []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, Event: recorder.Event, Log: c.log.WithName("services"),
	}
	for index := range c.options.nodes {
		config.Nodes = append(config.Nodes, nodes.Name(index))
	}
	c.simulated.network, err = podnetwork.StartSimulated(s, config)
	return err
}

// add returns the runtime of a node, once its network has started if it has one.
func (n *simulatedNodes) add(node, socket string) *nodes.Memory {
	m := &nodes.Memory{Socket: socket}
	if n.network != nil {
		m.Dial = n.network.DialFrom(node)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.nodes = append(n.nodes, m)
	return m
}

// dialPod connects to a pod of any of the nodes.
func (n *simulatedNodes) dialPod(to netip.AddrPort) (net.Conn, error) {
	n.mu.Lock()
	all := slices.Clone(n.nodes)
	n.mu.Unlock()
	for _, m := range all {
		conn, err := m.DialPod(to)
		if !errors.Is(err, syscall.EHOSTUNREACH) {
			return conn, err
		}
	}
	return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(to), Err: syscall.EHOSTUNREACH}
}
