package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"strings"

	"github.com/planekit/planekit/examples/cluster/machine"
)

// autoCIDR is the --cluster-cidr with which a range is chosen.
const autoCIDR = "auto"

// podNetworkFile is the file in the data directory with the range of the pods' addresses.
const podNetworkFile = "pod-cidr"

// choosePodNetwork sets the range of the pods' addresses. On a machine that other clusters use as well,
// it first removes those that have no owner any more.
func (c *cluster) choosePodNetwork(ctx context.Context) error {
	kept, err := c.keptPodNetwork()
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
	return writeWhole(c.dir.join(podNetworkFile), []byte(c.podNetwork.String()+"\n"))
}

// chooseMachineNetwork sets the range of the addresses of machines.
func (c *cluster) chooseMachineNetwork(ctx context.Context) (err error) {
	c.machineNetwork, err = c.registry.ReserveMachines(ctx, c.dir.id, machine.Record{DataDir: c.dir.path, PodCIDR: c.podNetwork}, c.options.machineNetwork, c.serviceRanges())
	if blocked, ok := errors.AsType[*machine.BlockedError](err); ok {
		return fmt.Errorf("--machine-cidr %v: %w; name another range, or %q", blocked.Range, blocked, autoCIDR)
	}
	return err
}

// keptPodNetwork returns the range of the last run; it is not valid in the first.
func (c *cluster) keptPodNetwork() (netip.Prefix, error) {
	data, err := os.ReadFile(c.dir.join(podNetworkFile))
	if errors.Is(err, fs.ErrNotExist) {
		return netip.Prefix{}, nil
	}
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("data directory: %w", err)
	}
	kept, err := netip.ParsePrefix(strings.TrimSpace(string(data)))
	if err != nil {
		c.log.Error(err, "the range of pods is chosen again", "file", c.dir.join(podNetworkFile))
		return netip.Prefix{}, nil
	}
	return kept, nil
}

func (c *cluster) reservePodNetwork(ctx context.Context, kept netip.Prefix) error {
	registry, err := machine.Open(machine.Dir)
	if err != nil {
		return err
	}
	c.podNetwork, err = registry.Reserve(ctx, machine.Reservation{
		ID: c.dir.id, DataDir: c.dir.path, Range: c.podNetwork, Kept: kept, Reserved: c.serviceRanges(), Log: c.log,
	})
	if blocked, ok := errors.AsType[*machine.BlockedError](err); ok {
		return fmt.Errorf("--cluster-cidr %v: %w; name another range, or %q", blocked.Range, blocked, autoCIDR)
	}
	if err == nil {
		c.registry = registry // which has something to withdraw
	}
	return err
}

// serviceRanges returns the ranges that pods must not get because services have them.
func (c *cluster) serviceRanges() []machine.Taken {
	var taken []machine.Taken
	for _, prefix := range c.options.kube.ServiceCIDRs() {
		taken = append(taken, machine.Taken{Prefix: prefix, By: fmt.Sprintf("--service-cluster-ip-range %v", prefix)})
	}
	return taken
}

// releasePodNetwork gives the range back when nothing of the cluster is left.
func (c *cluster) releasePodNetwork() error {
	if c.registry == nil {
		return nil
	}
	return c.registry.Withdraw(c.dir.id)
}
