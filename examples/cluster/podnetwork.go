package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/examples/cluster/machine"
	"github.com/planekit/planekit/plane"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// autoCIDR is the --cluster-cidr that has a range chosen.
	autoCIDR = "auto"
	// claimTimeout bounds the wait for another cluster that is being started or
	// stopped, and the removal of those without an owner.
	claimTimeout = time.Minute
)

// choosePodNetwork settles the range of the pods' addresses. On a machine that
// other clusters use as well, it first removes those that have no owner any more.
func (c *cluster) choosePodNetwork(ctx context.Context) error {
	kept, err := c.keptPodNetwork()
	if err != nil {
		return err
	}
	c.podNetwork = c.options.podNetwork
	if c.runtime == "fake" { // its addresses are in this process alone
		if !c.podNetwork.IsValid() {
			c.podNetwork, err = machine.Choose(kept, c.takenByServices())
		}
	} else {
		err = c.claimPodNetwork(ctx, kept)
	}
	if err != nil {
		return err
	}
	c.moved = kept.IsValid() && kept != c.podNetwork
	if c.moved {
		c.log.Info("pods get addresses of another range than before", "range", c.podNetwork, "before", kept)
	}
	return os.WriteFile(c.dir.join(podNetworkFile), []byte(c.podNetwork.String()+"\n"), 0o600)
}

// podNetworkFile is the file of the data directory that keeps the range.
const podNetworkFile = "pod-cidr"

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

// claimPodNetwork chooses a range that nothing on the machine is in the way of,
// unless the options name one, and records that it is this cluster's.
func (c *cluster) claimPodNetwork(ctx context.Context, kept netip.Prefix) error {
	registry, err := machine.Open(machine.Dir)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	unlock, err := registry.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	swept, err := registry.Sweep(ctx, c.dir.id)
	if err != nil { // its addresses are in the way, and nothing else of it
		c.log.Error(err, "a cluster without an owner is left")
	}
	for _, id := range swept {
		c.log.Info("removed a cluster whose data directory is gone", "id", id)
	}
	taken, err := registry.Taken(c.dir.id)
	if err != nil {
		return err
	}
	if !c.podNetwork.IsValid() {
		if c.podNetwork, err = machine.Choose(kept, append(c.takenByServices(), taken...)); err != nil {
			return err
		}
	} else if other := machine.InTheWay(c.podNetwork, taken); other != nil {
		return fmt.Errorf("--cluster-cidr %v: %s is in the way; name another range, or %q", c.podNetwork, other.By, autoCIDR)
	}
	c.registry = registry
	return registry.Claim(c.dir.id, machine.Record{DataDir: c.dir.path, PodCIDR: c.podNetwork})
}

// takenByServices keeps the addresses of pods and services apart.
func (c *cluster) takenByServices() []machine.Taken {
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
	ctx, cancel := context.WithTimeout(context.Background(), claimTimeout)
	defer cancel()
	unlock, err := c.registry.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return c.registry.Release(c.dir.id)
}

// forgetMovedNodes deletes the Nodes whose pods have addresses of another range. A
// Node's range cannot be changed; its kubelet registers it again.
func (c *cluster) forgetMovedNodes(ctx context.Context, p *plane.Plane) error {
	nodes := typed.Nodes(p.Client())
	list, _, err := nodes.List(ctx, "", metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, node := range list {
		pods, err := netip.ParsePrefix(node.Spec.PodCIDR)
		if err != nil || c.podNetwork.Contains(pods.Addr()) {
			continue
		}
		if err := nodes.Delete(ctx, "", node.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// hostAddress is the address of the machine that others would reach it by, or
// the loopback address where it has none. Bridges of clusters, and addresses of
// pods, do not count: they end with a cluster.
func hostAddress(pods netip.Prefix) string {
	interfaces, err := net.Interfaces()
	if err != nil {
		return "127.0.0.1"
	}
	for _, link := range interfaces {
		if _, ofCluster := machine.ClusterOf(link.Name); ofCluster {
			continue
		}
		addresses, err := link.Addrs()
		if err != nil {
			continue // the link has just gone
		}
		for _, address := range addresses {
			network, ok := address.(*net.IPNet)
			if !ok {
				continue
			}
			ip, ok := netip.AddrFromSlice(network.IP.To4())
			if ok && ip.IsGlobalUnicast() && !pods.Contains(ip) {
				return ip.String()
			}
		}
	}
	return "127.0.0.1"
}
