// Package hostlocal is the CNI plugin "host-local": it allocates addresses on one host from ranges
// in its configuration.
//
//	"ipam": {
//		"type": "host-local",
//		"ranges": [[{"subnet": "10.244.1.0/24"}], [{"subnet": "fd00:1::/64"}]],
//		"routes": [{"dst": "0.0.0.0/0"}],
//		"dataDir": "/var/lib/cni/networks"
//	}
//
// An address is allocated while the file <dataDir>/<network>/<address> exists; its lines are the
// container's ID and the interface. Each element of ranges is a set; a container gets one address
// of each set. The search begins after the last allocated address, so that addresses are reused as
// late as possible.
//
// A container can request addresses: as IP of CNI_ARGS, as args.cni.ips of the configuration, and as
// the runtime's capability ips. It gets them or none at all.
//
// Failures: a second ADD of an attachment is refused; DEL of an unknown one succeeds. Only one
// process at a time uses a network; a call that waits longer than 10 s fails with "try again
// later". A crash leaks no address forever: DEL and GC free what a killed ADD took, and
// a file without content is free.
//
// The files and their lock are those of the reference plugin: both can use a network in turn, even at
// once. A network of many addresses has a file "owners" besides, an index that is not believed once
// anything else changed the directory.
//
// The result's DNS is what the file resolvConf says.
package hostlocal

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/planekit/planekit/cni"
	"github.com/planekit/planekit/cni/skel"
)

// DefaultDir is the default directory of addresses.
const DefaultDir = "/var/lib/cni/networks"

// lockTimeout is how long a call waits for the lock of a network.
const lockTimeout = 10 * time.Second

// Plugin returns the plugin.
func Plugin() skel.Plugin {
	return skel.Plugin{Name: "host-local", Add: add, Del: del, Check: check, GC: gc, Status: status}
}

// IPAM is the plugin's part of the configuration.
type IPAM struct {
	Type string `json:"type"`
	// Ranges is a list of sets; a container gets one address of each.
	Ranges [][]Range `json:"ranges,omitempty"`
	// Routes are copied to the result.
	Routes []cni.Route `json:"routes,omitempty"`
	// DataDir is the directory of addresses; empty means DefaultDir.
	DataDir string `json:"dataDir,omitempty"`
	// ResolvConf is the path of a file in the form of resolv.conf(5), which becomes the result's DNS.
	ResolvConf string `json:"resolvConf,omitempty"`
	// Range is an alternative form for a single set with a single range.
	Range
}

type conf struct {
	Name string `json:"name"`
	IPAM *IPAM  `json:"ipam"`
	// RuntimeConfig holds the values of the capabilities ipRanges and ips.
	RuntimeConfig struct {
		IPRanges [][]Range `json:"ipRanges"`
		IPs      []string  `json:"ips"`
	} `json:"runtimeConfig"`
	// Args holds what callers pass by the conventions of CNI.
	Args struct {
		CNI struct {
			IPs []string `json:"ips"`
		} `json:"cni"`
	} `json:"args"`
}

// requested returns the addresses that a container requests, each once.
func (c *conf) requested(args cni.Args) ([]netip.Addr, error) {
	var all []netip.Addr
	for _, source := range []struct {
		name string
		ips  []string
	}{{"CNI_ARGS: IP", nonEmpty(args.Get("IP"))}, {"args.cni.ips", c.Args.CNI.IPs}, {"runtimeConfig.ips", c.RuntimeConfig.IPs}} {
		for _, s := range source.ips {
			addr, err := parseAddr(s)
			if err != nil {
				return nil, cni.Errorf(cni.CodeInvalidConfig, "%s: %v", source.name, err)
			}
			if !slices.Contains(all, addr) {
				all = append(all, addr)
			}
		}
	}
	return all, nil
}

func nonEmpty(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

// network is a validated configuration.
type network struct {
	pool
	sets       []set
	routes     []cni.Route
	wanted     []netip.Addr
	resolvConf string
}

func parse(r *skel.Request) (*network, error) {
	var c conf
	if err := r.Decode(&c); err != nil {
		return nil, err
	}
	if c.IPAM == nil {
		return nil, cni.Errorf(cni.CodeInvalidConfig, "ipam is missing")
	}
	ranges := c.IPAM.Ranges
	if c.IPAM.Subnet.IsValid() {
		ranges = append([][]Range{{c.IPAM.Range}}, ranges...)
	}
	ranges = append(c.RuntimeConfig.IPRanges, ranges...)
	n := &network{routes: c.IPAM.Routes, resolvConf: c.IPAM.ResolvConf}
	var err error
	if n.sets, err = newSets(ranges); err != nil {
		return nil, cni.Errorf(cni.CodeInvalidConfig, "ipam: %v", err)
	}
	if n.wanted, err = c.requested(r.Args); err != nil {
		return nil, err
	}
	dir := c.IPAM.DataDir
	if dir == "" {
		dir = DefaultDir
	}
	n.pool = pool{dir: filepath.Join(dir, r.Name), indexFrom: indexFrom}
	return n, nil
}

// locked runs f on the request's network while no other process uses it.
func locked(ctx context.Context, r *skel.Request, f func(*network) error) error {
	n, err := parse(r)
	if err != nil {
		return err
	}
	return n.locked(ctx, func() error { return f(n) })
}

func add(ctx context.Context, r *skel.Request) (*cni.Result, error) {
	result := new(cni.Result)
	return result, locked(ctx, r, func(n *network) error { return n.add(owner(r), result) })
}

// add allocates one address of each set, or none.
func (n *network) add(owner cni.Attachment, result *cni.Result) error {
	if n.resolvConf != "" {
		data, err := os.ReadFile(n.resolvConf)
		if err != nil {
			return fmt.Errorf("ipam: resolvConf: %w", err)
		}
		result.DNS = cni.ParseResolvConf(data)
	}
	if taken := n.held(owner); len(taken) > 0 {
		return cni.Errorf(cni.CodePlugin, "%s already has %v", owner, taken)
	}
	wanted := n.wanted
	for i, s := range n.sets {
		ip, left, err := n.allocate(i, s, owner, wanted)
		if err != nil {
			return errors.Join(err, n.release(owner))
		}
		wanted = left
		result.IPs = append(result.IPs, ip)
	}
	if len(wanted) > 0 {
		err := cni.Errorf(cni.CodeInvalidConfig, "addresses %v are in no range", wanted)
		return errors.Join(err, n.release(owner))
	}
	result.Routes = n.routes
	return nil
}

func owner(r *skel.Request) cni.Attachment {
	return cni.Attachment{ContainerID: r.ContainerID, IfName: r.IfName}
}

func del(ctx context.Context, r *skel.Request) error {
	return locked(ctx, r, func(n *network) error { return n.release(owner(r)) })
}

func check(ctx context.Context, r *skel.Request) error {
	return locked(ctx, r, func(n *network) error {
		if taken := n.held(owner(r)); len(taken) < len(n.sets) {
			return cni.Errorf(cni.CodePlugin, "%v has %d addresses of %d", owner(r), len(taken), len(n.sets))
		}
		return nil
	})
}

func gc(ctx context.Context, r *skel.Request) error {
	if r.Valid == nil {
		return cni.Errorf(cni.CodeInvalidConfig, "cni.dev/valid-attachments is missing")
	}
	return locked(ctx, r, func(n *network) error { return n.keep(r.Valid) })
}

func status(ctx context.Context, r *skel.Request) error {
	return locked(ctx, r, func(n *network) error {
		for _, s := range n.sets {
			if !n.hasFree(s) {
				return cni.Errorf(cni.CodeNotAvailable, "no address is free in %v", s)
			}
		}
		return nil
	})
}
