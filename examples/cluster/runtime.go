package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/planekit/planekit/examples/cluster/containerd"
	"github.com/planekit/planekit/examples/cluster/machine"
	"github.com/planekit/planekit/examples/cluster/nodeimages"
	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/nodes"
	"github.com/planekit/planekit/plane/stack"
)

// chooseRuntime settles what --runtime auto means here, and says so where it is
// not what a cluster is for.
func (c *cluster) chooseRuntime() error {
	c.runtime = c.options.runtime
	if c.options.role == roleServer {
		c.runtime = "fake" // nothing runs here, and no range of this machine's addresses is taken
		return nil
	}
	if c.options.containerdSocket != "" {
		c.runtime = "containerd"
		if os.Geteuid() != 0 {
			return errors.New("--containerd-socket: pod networks need root")
		}
		return nil
	}
	if c.runtime == "fake" {
		return nil
	}
	err := containerd.Available()
	switch {
	case err == nil:
		c.runtime = "containerd"
	case c.options.runtime == "containerd":
		return fmt.Errorf("--runtime containerd: %w", err)
	default:
		c.runtime = "fake"
		c.notice = fmt.Sprintf("containers are simulated in this process, none really runs: %v", err)
	}
	return nil
}

// place says where a node is on this machine.
type place struct {
	name string
	dir  string // for its files
	// bridge is the name of the bridge of its pods, and cgroup the parent of their cgroups, which is
	// empty with the fake runtime.
	bridge, cgroup string
}

// placeOf returns the place of the node with that index, from 0.
func (c *cluster) placeOf(index int) place {
	name := nodes.Name(index)
	return place{name: name, dir: c.dir.Join("nodes", name), bridge: machine.Bridge(c.dir.ID(), index+1), cgroup: c.cgroupRoot(name)}
}

// node returns the configuration of one node.
func (c *cluster) node(at place, mirrors map[string]string) (nodes.Config, error) {
	newRuntime := func(at place, mirrors map[string]string) (nodes.Runtime, error) {
		runtime, err := c.newContainerdRuntime(at, mirrors)
		return recordedRuntime{runtime, at.name, c.records}, err
	}
	if c.runtime == "fake" {
		newRuntime = func(at place, _ map[string]string) (nodes.Runtime, error) {
			return c.simulated.add(at.name, c.socketPath(at.dir, at.name+".sock")), c.records.Add(at.name, nodeimages.Simulated, "")
		}
	}
	runtime, err := newRuntime(at, mirrors)
	return nodes.Config{
		Name: at.name, Dir: at.dir, Address: machine.HostAddress(c.podNetwork).String(), CgroupRoot: at.cgroup, Runtime: runtime,
		Server: c.options.kubelet.Server, Kubelet: c.options.configureKubelet, Started: func(k *kubelet.Kubelet) { c.shutdowns.Add(k) },
		Moved: c.moved, StopNow: c.options.stopNow, Log: c.log,
	}, err
}

// recordedRuntime records its socket for the command "image".
type recordedRuntime struct {
	nodes.Runtime
	node    string
	records nodeimages.Records
}

func (r recordedRuntime) Start(ctx context.Context, s *stack.Stack) (string, error) {
	socket, err := r.Runtime.Start(ctx, s)
	if err != nil {
		return "", err
	}
	return socket, r.records.Add(r.node, nodeimages.Containerd, socket)
}

// startNodes starts all nodes, in this process or as machines, and waits until each is ready for pods. It is a
// [plane.Part].
func (c *cluster) startNodes(ctx context.Context, p *plane.Plane, s *stack.Stack) error {
	mirrors, err := c.mirrors(ctx, s)
	if err != nil {
		return err
	}
	if c.moved {
		if err := nodes.DeleteMoved(ctx, p, c.podNetwork); err != nil {
			return err
		}
	}
	if c.records, err = nodeimages.NewRecords(c.dir.Path()); err != nil {
		return err
	}
	if c.startMachines != nil {
		for index := range c.options.nodes {
			at := c.placeOf(index)
			if err := c.records.Add(at.name, nodeimages.Machine, at.dir); err != nil {
				return err
			}
		}
		return c.startMachines(ctx, p, s, mirrors["docker.io"])
	}
	if err := c.startServices(p, s); err != nil {
		return err
	}
	var all []nodes.Config
	for index := range c.options.nodes {
		config, err := c.node(c.placeOf(index), mirrors)
		if err != nil {
			return err
		}
		if index == 0 {
			config.ManifestPath, config.StaticPods = c.options.manifestPath, c.options.kubelet.StaticPods
		}
		all = append(all, config)
	}
	return nodes.Start(ctx, p, s, all...)
}

// cgroupRoot is the cgroup of one node's pods; the cluster's identity keeps two
// clusters on one machine apart.
func (c *cluster) cgroupRoot(node string) string {
	if c.runtime == "fake" {
		return ""
	}
	return machine.Cgroup(c.dir.ID()) + "/" + node
}

// mayBeNode refuses addresses that no node has. The loopback address is one only on
// a machine that has no other, for the kubelets that listen at host.
func mayBeNode(host netip.Addr) func(netip.Addr) error {
	return func(address netip.Addr) error {
		if address.IsGlobalUnicast() || address == host {
			return nil
		}
		return errors.New("address not allowed")
	}
}

// socketPath is dir/name, or a short path where that is too long for a socket
// (107 bytes, unix(7)).
func (c *cluster) socketPath(dir, name string) string {
	if path := filepath.Join(dir, name); len(path) <= 107 {
		return path
	}
	return filepath.Join(os.TempDir(), "planekit-"+c.dir.ID()+"-"+name)
}
