package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/planekit/planekit/examples/cluster/machine"
)

// autoCIDR is the --cluster-cidr with which a range is chosen.
const autoCIDR = "auto"

// choosePodNetwork sets the range of the pods' addresses. On a machine that other clusters use as well,
// it first removes those that have no owner any more.
func (c *cluster) choosePodNetwork(ctx context.Context) error {
	kept, err := c.dir.PodNetwork(c.log)
	if err != nil {
		return err
	}
	c.podNetwork = c.options.podNetwork
	if c.runtime == "fake" { // its addresses are in this process alone
		if !c.podNetwork.IsValid() {
			c.podNetwork, err = machine.Choose(kept, c.serviceRanges())
		}
	} else {
		err = c.reservePodNetwork(ctx, kept)
	}
	if err != nil {
		return err
	}
	c.moved = kept.IsValid() && kept != c.podNetwork
	if c.moved {
		c.log.Info("pods get addresses of another range than before", "range", c.podNetwork, "before", kept)
	}
	if kept == c.podNetwork {
		return nil // a cluster starts again on a full disk
	}
	return c.dir.KeepPodNetwork(c.podNetwork)
}

// chooseMachineNetwork sets the range of the addresses of machines.
func (c *cluster) chooseMachineNetwork(ctx context.Context) (err error) {
	c.machineNetwork, err = c.registry.ReserveMachines(ctx, c.dir.ID(), machine.Record{DataDir: c.dir.Path(), PodCIDR: c.podNetwork}, c.options.machineNetwork, c.serviceRanges())
	if blocked, ok := errors.AsType[*machine.BlockedError](err); ok {
		return fmt.Errorf("--machine-cidr %v: %w; name another range, or %q", blocked.Range, blocked, autoCIDR)
	}
	return err
}

func (c *cluster) reservePodNetwork(ctx context.Context, kept netip.Prefix) error {
	registry, err := machine.Open(machine.Dir)
	if err != nil {
		return err
	}
	c.podNetwork, err = registry.Reserve(ctx, machine.Reservation{
		ID: c.dir.ID(), DataDir: c.dir.Path(), Range: c.podNetwork, Kept: kept, Reserved: c.serviceRanges(), Log: c.log,
	})
	if blocked, ok := errors.AsType[*machine.BlockedError](err); ok {
		return fmt.Errorf("--cluster-cidr %v: %w; name another range, or %q", blocked.Range, blocked, autoCIDR)
	}
	if err == nil {
		c.registry = registry // which has something to withdraw
	}
	return err
}

// serviceRanges returns the ranges that pods and machines must not get because services have them.
func (c *cluster) serviceRanges() []machine.Taken {
	var taken []machine.Taken
	for _, prefix := range c.options.kube.ServiceCIDRs() {
		taken = append(taken, machine.Taken{Prefix: prefix, By: fmt.Sprintf("--service-cluster-ip-range %v", prefix)})
	}
	for _, prefix := range c.options.balancerPool {
		taken = append(taken, machine.Taken{Prefix: prefix, By: fmt.Sprintf("--load-balancer-cidr %v", prefix)})
	}
	return taken
}

// releasePodNetwork gives the range back when nothing of the cluster is left.
func (c *cluster) releasePodNetwork() error {
	if c.registry == nil {
		return nil
	}
	return c.registry.Withdraw(c.dir.ID())
}
