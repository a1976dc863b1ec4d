//go:build linux

package chain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"

	"github.com/planekit/planekit/cni"
	"github.com/planekit/planekit/cni/bridge"
	"github.com/planekit/planekit/cni/hostlocal"
	"github.com/planekit/planekit/cni/portmap"
)

// Network is planekit's standard network of one node: a bridge, addresses from the node's ranges,
// routing to other networks, and ports of the host that are forwarded to containers.
type Network struct {
	// Name is the network's name; empty means "planekit".
	Name string
	// Bridge is the name of the bridge; empty means "planekit0". Nodes that share a network
	// namespace need different names.
	Bridge string
	// PodCIDRs are the node's ranges, one for each family.
	PodCIDRs []netip.Prefix
	// ClusterCIDRs are the ranges of all nodes, which are exempt from Masquerade.
	ClusterCIDRs []netip.Prefix
	// MTU in bytes; zero is the kernel's choice.
	MTU int
	// Masquerade gives traffic that leaves the cluster the node's address.
	Masquerade bool
	// AnySource lets containers send from any address. Without it, a container sends from its own addresses
	// alone, and the host routes between the containers of the node: see addressspoofchk of package bridge.
	AnySource bool
	// DataDir is the directory of addresses, attachments and locks; each node needs its own. Empty
	// means /var/lib/planekit/cni.
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
	portMappings := map[string]bool{"portMappings": true}
	plugin := Conf{
		Type:         "planekit-cni",
		Dir:          n.DataDir,
		Capabilities: portMappings,
		Delegates: []any{bridge.Conf{
			Type: "bridge", Bridge: n.Bridge, MTU: n.MTU,
			IsGateway: true, IsDefaultGateway: true, HairpinMode: true, AddressSpoofChk: !n.AnySource,
			IPMasq: n.Masquerade, ClusterCIDR: n.ClusterCIDRs,
			LockDir: n.DataDir, IPAM: ipam,
		}, portmap.Conf{
			Type: "portmap", Capabilities: portMappings, Scope: n.Bridge, LockDir: n.DataDir,
		}},
	}
	data, err := json.MarshalIndent(map[string]any{
		"cniVersion":  "1.0.0", // for older runtimes
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

// Write writes the configuration to dir, the conf_dir of a runtime, with a name that sorts before
// most others.
func (n Network) Write(dir string) error {
	data, err := n.ConfList()
	if err != nil {
		return err
	}
	return cni.WriteFile(filepath.Join(dir, "10-"+n.complete().Name+".conflist"), data)
}

// Remove removes everything that the network's plugins created on this host, and DataDir. The
// network must not be in use. Remove ignores what is missing.
func (n Network) Remove(ctx context.Context) error {
	n = n.complete()
	return errors.Join(portmap.Remove(ctx, n.Bridge), bridge.Remove(ctx, n.Bridge, n.DataDir))
}
