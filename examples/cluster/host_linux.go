package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/examples/cluster/fleet"
	"github.com/planekit/planekit/examples/cluster/guest"
	"github.com/planekit/planekit/examples/cluster/machine"
	"github.com/planekit/planekit/examples/cluster/noderuntime"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/nodes"
	"github.com/planekit/planekit/plane/podnetwork"
	"github.com/planekit/planekit/plane/stack"
)

// asOther runs this program as a network plugin or as the first process of a machine, where it was called as that.
func asOther() (code int, ok bool) {
	if guest.IsInit() {
		return guest.Init(), true
	}
	return noderuntime.AsPlugin()
}

// newContainerdRuntime returns the containerd of one node, not started.
func (c *cluster) newContainerdRuntime(at place, mirrors map[string]string) (nodes.Runtime, error) {
	// The network plugins are the small program beside this one, or this one, which is all of them too but takes
	// longer to start.
	plugin := beside("planekit-cni")
	if plugin == "planekit-cni" {
		var err error
		if plugin, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	return noderuntime.New(noderuntime.Config{
		Socket: c.options.containerdSocket, Dir: at.dir, Name: "planekit-" + c.dir.ID(), Bridge: at.bridge, Pods: c.podNetwork,
		Cgroup: at.cgroup, Mirrors: mirrors, Plugin: plugin, MTU: c.mtu, StopNow: c.options.stopNow, Log: c.log.WithValues("node", at.name),
	})
}

// joinNetwork carries packets between the pods of this process's node and those of other nodes, if its containers are
// real.
func (c *cluster) joinNetwork(api *client.Client, network podnetwork.Network, address netip.Addr) error {
	if c.runtime == "fake" {
		return nil
	}
	member, err := podnetwork.Start(c.stack, podnetwork.Config{
		Node: c.options.joining.name, Address: address, Client: api, Network: network, Bridge: machine.Bridge(c.dir.ID(), 1), Log: c.log,
	})
	if err == nil {
		c.mtu, c.protect = member.MTU, member.Protect
	}
	return err
}

// joinMachines makes the network of machines, if nodes are to be machines of their own, and returns a listener that
// accepts connections from there too.
func (c *cluster) joinMachines(ctx context.Context, listener net.Listener) (net.Listener, error) {
	o := &c.options
	wanted := o.nodes
	if !o.wantsMachines() || c.runtime != "containerd" {
		wanted = 0
	}
	if err := c.endMachines(ctx, wanted); err != nil || wanted == 0 {
		return listener, err
	}
	if err := c.chooseMachineNetwork(ctx); err != nil {
		return nil, err
	}
	f, err := fleet.New(fleet.Config{
		ID: c.dir.ID(), Network: c.machineNetwork, Pods: c.podNetwork, Services: o.kube.ServiceCIDRs(), Restart: o.restartMachines, StopNow: o.stopNow, Log: c.log,
	})
	if err != nil {
		return nil, err
	}
	if !f.Address(o.nodes - 1).IsValid() {
		return nil, fmt.Errorf("--machine-cidr %v has no room for %d machines", c.machineNetwork, o.nodes)
	}
	if listener, err = f.Connect(ctx, c.stack, listener); err != nil {
		return nil, err
	}
	c.gateway, c.leadsToServices = f.Gateway(), f.LeadsToServices
	c.startMachines = func(ctx context.Context, p *plane.Plane, s *stack.Stack, mirror string) error {
		var nodes []fleet.Node
		for index := range o.nodes {
			at := c.placeOf(index)
			program, err := c.machineProgram(at, f.Address(index), index == 0, mirror)
			if err != nil {
				return err
			}
			nodes = append(nodes, fleet.Node{Name: at.name, Dir: at.dir, Cgroup: at.cgroup, Program: program})
		}
		return f.Start(ctx, s, nodes, p.Caches.Nodes)
	}
	return listener, nil
}

// endMachines ends the machines that an earlier run has left, but for the first ones, which are wanted.
func (c *cluster) endMachines(ctx context.Context, wanted int) error {
	dirs, err := filepath.Glob(c.dir.Join("nodes", "*"))
	if err != nil {
		return err
	}
	stay := map[string]bool{}
	for index := range wanted {
		stay[nodes.Name(index)] = true
	}
	var failed error
	for _, dir := range dirs {
		name := filepath.Base(dir)
		if stay[name] {
			continue
		}
		ended, err := guest.End(dir)
		if ended && err == nil {
			err = machine.RemoveCgroups(ctx, machine.Cgroup(c.dir.ID())+"/"+name)
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// machineProgram returns the command line of the program that runs a node, which joins by the cluster's token.
func (c *cluster) machineProgram(at place, address netip.Addr, first bool, mirror string) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(at.dir, 0o700); err != nil {
		return nil, err
	}
	token := filepath.Join(at.dir, "token")
	if err := os.WriteFile(token, []byte(c.invitation.Token+"\n"), 0o600); err != nil {
		return nil, err
	}
	o := &c.options
	program := []string{
		self, "--role", roleNode, "--runtime", "containerd", "--data-dir", at.dir, "--node-name", at.name, "--node-ip", address.String(),
		"--cgroup-root", at.cgroup, "--join", "https://" + netip.AddrPortFrom(c.gateway, c.address.(*net.TCPAddr).AddrPort().Port()).String(),
		"--token-file", token, "--discovery-token-ca-cert-hash", strings.Join(c.invitation.CAHashes, ","),
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
