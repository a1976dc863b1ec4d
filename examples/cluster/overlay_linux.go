package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/cni/overlay"
	"github.com/planekit/planekit/plane/caches"
	"github.com/planekit/planekit/plane/nodes"
	"github.com/planekit/planekit/plane/overlays"
)

// nodeOverlay carries packets between the pods of a node and those of other nodes.
type nodeOverlay struct {
	nodes *overlays.Nodes
	conf  netConf
	make  func(overlay.Member) (*overlay.Overlay, error)
	// made has the overlay once the node has a range.
	made chan *overlay.Overlay
}

// startOverlay starts the overlay and the service proxy of a node, if its containers are real. The overlay has
// what the node needs once the Node has a range.
func (c *cluster) startOverlay(api *client.Client, conf netConf, node nodes.Config) error {
	runtime, ok := node.Runtime.(*containerdRuntime)
	if !ok {
		return nil
	}
	all, err := caches.Of(typed.Nodes(api), c.log.WithName("nodes"))
	if err != nil {
		return err
	}
	members, err := overlays.New(overlays.Config{Node: node.Name, Nodes: all, Writer: typed.Nodes(api), Log: c.log.WithName("overlay")})
	if err != nil {
		return err
	}
	o := &nodeOverlay{nodes: members, conf: conf, made: make(chan *overlay.Overlay, 1)} // one overlay
	o.make = func(local overlay.Member) (*overlay.Overlay, error) {
		return overlay.New(overlay.Config{
			Backend: conf.Backend.Type, Local: local, Members: members, Publish: members.Publish,
			Network: []netip.Prefix{conf.Network}, Log: c.log.WithName("overlay"),
		})
	}
	runtime.overlay = o
	c.stack.Start("informer of nodes", all.Run)
	c.stack.Start("overlay", o.run)
	return c.startServices(api, conf, node, all)
}

// run runs the overlay until ctx is done, and removes it: no pods are left then.
func (o *nodeOverlay) run(ctx context.Context) error {
	local, err := o.nodes.Local(ctx)
	if ctx.Err() != nil {
		return nil
	}
	var running *overlay.Overlay
	if err == nil {
		running, err = o.make(local)
	}
	if err != nil {
		return fmt.Errorf("overlay %s: %w", o.conf.Backend.Type, err)
	}
	o.made <- running
	err = running.Run(ctx)
	return errors.Join(err, running.Remove(context.WithoutCancel(ctx)))
}

// mtu waits until packets get to other nodes, and returns the MTU of pods' interfaces, in bytes.
func (o *nodeOverlay) mtu(ctx context.Context) (int, error) {
	select {
	case made := <-o.made:
		o.made <- made // for the next caller
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
