//go:build linux

package chain

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"

	"github.com/planekit/planekit/cni"
	"github.com/planekit/planekit/cni/bridge"
	"github.com/planekit/planekit/cni/hostlocal"
)

// Network is planekit's standard network of one node: a bridge, addresses from
// the node's ranges, and routing for the rest.
type Network struct {
	// Name is the network's name; empty means "planekit".
	Name string
	// Bridge is the name of the bridge; empty means "planekit0". It must be
	// another for each node that shares the host's network namespace.
	Bridge string
	// PodCIDRs are the node's ranges, one for each family.
	PodCIDRs []netip.Prefix
	// ClusterCIDRs are the ranges of all nodes, which Masquerade leaves alone.
	ClusterCIDRs []netip.Prefix
	// MTU in bytes; zero is the kernel's choice.
	MTU int
	// Masquerade hides what leaves the cluster behind the node's address.
	Masquerade bool
	// DataDir keeps addresses, attachments and locks; it must be another for each
	// node. Empty means /var/lib/planekit/cni.
	DataDir string
}

func (n Network) complete() Network {
	if n.Name == "" {
		n.Name = "planekit"
	}
	if n.Bridge == "" {
		n.Bridge = "planekit0"
	}
	if n.DataDir == "" {
		n.DataDir = "/var/lib/planekit/cni"
	}
	return n
}

// ConfList returns the network as a configuration list.
func (n Network) ConfList() ([]byte, error) {
	n = n.complete()
	if len(n.PodCIDRs) == 0 {
		return nil, fmt.Errorf("network %s: no pod CIDR", n.Name)
	}
	ipam := hostlocal.IPAM{Type: "host-local", DataDir: filepath.Join(n.DataDir, "networks")}
	for _, p := range n.PodCIDRs {
		ipam.Ranges = append(ipam.Ranges, []hostlocal.Range{{Subnet: p.Masked()}})
	}
	plugin := Conf{
		Type: "planekit-cni",
		Dir:  n.DataDir,
		Delegates: []any{bridge.Conf{
			Type: "bridge", Bridge: n.Bridge, MTU: n.MTU,
			IsGateway: true, IsDefaultGateway: true, HairpinMode: true,
			IPMasq: n.Masquerade, ClusterCIDR: n.ClusterCIDRs,
			LockDir: n.DataDir, IPAM: ipam,
		}},
	}
	data, err := json.MarshalIndent(map[string]any{
		"cniVersion":  "1.0.0", // what older runtimes look at
		"cniVersions": []string{"0.4.0", "1.0.0", "1.1.0"},
		"name":        n.Name,
		"plugins":     []any{plugin},
	}, "", "  ")
	if err != nil {
		return nil, err
	}
	_, err = cni.ParseList(data)
	return data, err
}

// Write puts the configuration into dir, the conf_dir of a runtime, under a
// name that comes before most others.
func (n Network) Write(dir string) error {
	data, err := n.ConfList()
	if err != nil {
		return err
	}
	return cni.WriteFile(filepath.Join(dir, "10-"+n.complete().Name+".conflist"), data)
}

// Remove undoes on this host what the network's plugins did, and removes
// DataDir. Nothing may use the network any more. It succeeds on what is gone.
func (n Network) Remove(ctx context.Context) error {
	n = n.complete()
	return bridge.Remove(ctx, n.Bridge, n.DataDir)
}
