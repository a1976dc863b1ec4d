package main

import (
	"context"
	"errors"
	"net/netip"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/plane/caches"
	"github.com/planekit/planekit/plane/nodes"
	"github.com/planekit/planekit/service/proxy"
	corev1 "k8s.io/api/core/v1"
)

// startServices starts what makes the addresses of services lead to pods, in the network namespace of this
// process. A machine has one of its own.
func (c *cluster) startServices(api *client.Client, conf netConf, node nodes.Config, all localcache.Subscriber[*corev1.Node]) error {
	log := c.log.WithName("services")
	var group caches.Group
	services, err1 := caches.Add(&group, "services", typed.Services(api), log)
	slices, err2 := caches.Add(&group, "endpointslices", typed.EndpointSlices(api), log)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	p, err := proxy.New(proxy.Config{
		Node: node.Name, Services: services, EndpointSlices: slices, Nodes: all,
		PodRanges: []netip.Prefix{conf.Network}, ServiceRanges: conf.ServiceNetworks, Log: log,
	})
	if err != nil {
		return err
	}
	group.Start(c.stack)
	c.stack.Start("services", func(ctx context.Context) error {
		err := p.Run(ctx)
		return errors.Join(err, p.Remove(context.WithoutCancel(ctx)))
	})
	return nil
}
