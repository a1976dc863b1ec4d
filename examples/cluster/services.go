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
	sharedNotice = "The nodes share this machine: Services lead to their pods only by node ports, from 127.0.0.1. Addresses and names of " +
		"Services, and NetworkPolicies, have no effect. Without --machines=false and --containerd-socket each node is a machine of its own, where they have."
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

// sharedFields are the fields of services that have an effect on nodes that share this machine, and simulatedFields those
// on simulated containers.
var (
	sharedFields    = []string{"spec.ports[].nodePort", "spec.sessionAffinity", "spec.externalTrafficPolicy"}
	simulatedFields = append([]string{"spec.clusterIP", "spec.externalName", "spec.externalIPs", "spec.internalTrafficPolicy"}, sharedFields...)
)

// localFields returns the fields of services that have an effect on the nodes of this process.
func (c *cluster) localFields() []string {
	if c.runtime == "fake" {
		return simulatedFields
	}
	return sharedFields
}

// simulatedNodes are the nodes of this process whose containers are simulated, and their network.
type simulatedNodes struct {
	network *podnetwork.Simulated // nil where services have no effect

	mu    sync.Mutex
	nodes []*nodes.Memory // guarded by mu
}

// startServices starts what makes services lead to the pods of the nodes in this process, before these nodes.
func (c *cluster) startServices(p *plane.Plane, s *stack.Stack) error {
	if c.options.nodes == 0 {
		return nil
	}
	recorder, err := events.New(events.Config{Client: p.Client(), Component: "kube-proxy", Log: c.log})
	if err != nil {
		return err
	}
	s.Start("events of node ports", recorder.Run)
	config := podnetwork.LocalConfig{
		Services: p.Caches.Services, EndpointSlices: p.Caches.EndpointSlices,
		NodePorts: []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, Event: recorder.Event, Log: c.log.WithName("services"),
	}
	for index := range c.options.nodes {
		config.Nodes = append(config.Nodes, nodes.Name(index))
	}
	if c.runtime != "fake" {
		return podnetwork.StartNodePorts(s, config, nil)
	}
	c.simulated.network, err = podnetwork.StartSimulated(s, config, c.simulated.dialPod)
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
