package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/planekit/planekit/examples/cluster/containerd"
)

// chooseRuntime settles what --runtime auto means here, and says so where it is
// not what a cluster is for.
func (c *cluster) chooseRuntime() error {
	c.runtime = c.options.runtime
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

// newRuntime returns the runtime of one node, not started.
func (c *cluster) newRuntime(index int, mirrors map[string]string) (nodeRuntime, error) {
	name := nodeName(index)
	if c.runtime == "fake" {
		return &fakeRuntime{socket: c.socketPath(c.dir.join("nodes", name), name+".sock")}, nil
	}
	return c.newContainerdRuntime(index, mirrors)
}

// startNodes starts all nodes and waits until each is ready for pods.
func (c *cluster) startNodes(ctx context.Context) error {
	var mirrors map[string]string
	if c.runtime == "containerd" {
		var err error
		if mirrors, err = c.mirrors(ctx); err != nil {
			return err
		}
	}
	if c.moved {
		if err := c.forgetMovedNodes(ctx); err != nil {
			return err
		}
	}
	var nodes []*node
	for index := range c.options.nodes {
		runtime, err := c.newRuntime(index, mirrors)
		if err != nil {
			return err
		}
		n, err := c.newNode(index, runtime)
		if err != nil {
			return err
		}
		nodes = append(nodes, n)
	}
	part := c.stack.start("nodes", runNodes(nodes))
	part.bounded, part.waitingFor = true, func() string { return waitingFor(nodes) }
	for _, n := range nodes {
		if err := c.stack.await(ctx, n.ready); err != nil {
			return err
		}
	}
	return nil
}
