package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/examples/cluster/guest"
	"github.com/planekit/planekit/examples/cluster/machine"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/nodes"
	"github.com/planekit/planekit/plane/stack"
)

// asInit runs this program as the first process of a machine, where it was called as that.
func asInit() (code int, ok bool) {
	if !guest.IsInit() {
		return 0, false
	}
	return guest.Init(), true
}

// wantsMachines reports whether nodes are machines of their own.
func (c *cluster) wantsMachines() bool {
	return c.options.machines && c.options.nodes > 1 && c.runtime == "containerd"
}

// joinMachines makes the network of machines, if there are some, and returns a listener that accepts
// connections from there too.
func (c *cluster) joinMachines(ctx context.Context, listener net.Listener) (net.Listener, error) {
	if !c.wantsMachines() {
		return listener, nil
	}
	if err := c.chooseMachineNetwork(ctx); err != nil {
		return nil, err
	}
	network, err := c.guests()
	if err != nil {
		return nil, err
	}
	if !network.Address(c.options.nodes - 1).IsValid() {
		return nil, fmt.Errorf("--machine-cidr %v has no room for %d machines", c.machineNetwork, c.options.nodes)
	}
	c.stack.OnStop("network of machines", func() error { return network.Down(context.WithoutCancel(ctx)) })
	if err := network.Up(ctx); err != nil {
		return nil, err
	}
	c.gateway = network.Gateway()
	port := c.address.(*net.TCPAddr).AddrPort()
	if port.Addr().IsUnspecified() {
		return listener, nil
	}
	inner, err := net.Listen("tcp", netip.AddrPortFrom(c.gateway, port.Port()).String())
	if err != nil {
		return nil, fmt.Errorf("listen for machines: %w", err)
	}
	return joinListeners(listener, inner), nil
}

// guests returns the network of machines.
func (c *cluster) guests() (*guest.Network, error) {
	return guest.NewNetwork(guest.NetworkConfig{Bridge: machine.Bridge(c.dir.ID(), 0), Prefix: c.machineNetwork})
}

// startMachines starts a machine for each node and waits until all nodes are ready. It is a [plane.Part].
func (c *cluster) startMachines(ctx context.Context, p *plane.Plane, s *stack.Stack) error {
	mirrors, err := c.mirrors(ctx, s)
	if err != nil {
		return err
	}
	if c.moved {
		if err := nodes.DeleteMoved(ctx, p, c.podNetwork); err != nil {
			return err
		}
	}
	network, err := c.guests()
	if err != nil {
		return err
	}
	f := &fleet{restart: c.options.restartMachines, now: c.options.stopNow, log: c.log}
	for index := range c.options.nodes {
		at := c.placeOf(index)
		program, err := c.machineProgram(p, at, network.Address(index), index == 0, mirrors["docker.io"])
		if err != nil {
			return err
		}
		one, err := guest.New(guest.Config{
			Name: at.name, Port: machinePort(c.dir.ID(), index), Dir: at.dir, Network: network, Address: network.Address(index), Program: program,
		})
		if err != nil {
			return err
		}
		f.all = append(f.all, &fleetMachine{Machine: one, at: at})
	}
	s.Start("routes to pods", func(ctx context.Context) error {
		return followRoutes(ctx, p.Caches.Nodes, c.machineNetwork, c.podNetwork, c.log)
	})
	part := s.Start("machines", f.run)
	part.Bounded, part.WaitingFor = true, f.waitingFor
	return f.awaitReady(ctx, s, p.Caches.Nodes.Get)
}

// machinePort returns the name of the host's end of a machine's link.
func machinePort(id string, index int) string { return "pk" + id + "m" + strconv.Itoa(index+1) }

// machineProgram returns the command line of the program that runs a node, and writes the node's credentials.
func (c *cluster) machineProgram(p *plane.Plane, at place, address netip.Addr, first bool, mirror string) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	authority := p.Credentials.Authority
	own, err := authority.Client("node-"+at.name, user.NodePrefix+at.name, user.Nodes)
	if err != nil {
		return nil, err
	}
	if _, err := authority.Kubelet(at.name, address.String()); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(at.dir, 0o700); err != nil {
		return nil, err
	}
	server := "https://" + netip.AddrPortFrom(c.gateway, c.address.(*net.TCPAddr).AddrPort().Port()).String()
	config := filepath.Join(at.dir, "kubelet.kubeconfig")
	if err := p.Credentials.KubeconfigOf(server, own).Write(config); err != nil {
		return nil, err
	}
	o := &c.options
	program := []string{
		self, "--role", roleNode, "--runtime", "containerd", "--data-dir", at.dir, "--node-name", at.name, "--node-ip", address.String(),
		"--cgroup-root", at.cgroup, "--kubeconfig", config,
		"--tls-cert-file", c.dir.Join("pki", "kubelet-"+at.name+".crt"), "--tls-private-key-file", c.dir.Join("pki", "kubelet-"+at.name+".key"),
		"--eviction-hard", o.evictionHard, "--verbosity=" + strconv.Itoa(o.verbosity),
	}
	if mirror != "" {
		program = append(program, "--registry-mirror", mirror)
	} else {
		program = append(program, "--offline-images", "off")
	}
	if o.kubeletConfig != "" {
		program = append(program, "--kubelet-config", o.kubeletConfig)
	}
	if first && o.manifestPath != "" {
		program = append(program, "--pod-manifest-path", o.manifestPath)
	}
	return program, nil
}

// readyPoll is how often the Nodes of machines are looked at while they start.
const readyPoll = 10 * time.Millisecond

// awaitReady waits until the Node of each machine is ready, since the machine has been on.
func (f *fleet) awaitReady(ctx context.Context, s *stack.Stack, get func(string) (*corev1.Node, bool)) error {
	ready := func(m *fleetMachine) bool {
		node, ok := get(m.at.name)
		boot := m.Boot()
		if !ok || boot == "" || node.Status.NodeInfo.BootID != boot {
			return false
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady {
				return condition.Status == corev1.ConditionTrue
			}
		}
		return false
	}
	for _, m := range f.all {
		for !ready(m) {
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
