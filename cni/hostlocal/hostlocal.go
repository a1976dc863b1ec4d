// Package hostlocal is the CNI plugin "host-local": it hands out the addresses
// of one host from ranges in its configuration.
//
//	"ipam": {
//		"type": "host-local",
//		"ranges": [[{"subnet": "10.244.1.0/24"}], [{"subnet": "fd00:1::/64"}]],
//		"routes": [{"dst": "0.0.0.0/0"}],
//		"dataDir": "/var/lib/cni/networks"
//	}
//
// The model: an address is taken while the file <dataDir>/<network>/<address>
// exists; its lines are the container's ID and the interface. Each element of
// ranges is a set, of which a container gets one address. The search begins
// behind the address that was handed out last, so that an address rests as
// long as possible before it is used again.
//
// How it fails: a second ADD of one attachment is refused; DEL of an unknown
// one succeeds. Only one process works on a network at a time; one that waits
// longer than 10 s gives up with "try again later". A crash loses no address
// for good: GC frees what belongs to nobody, also files without content.
//
// The layout is that of the reference plugin, which can take over.
package hostlocal

import (
	"context"
	"errors"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/planekit/planekit/cni"
	"github.com/planekit/planekit/cni/skel"
)

// DefaultDir is where addresses are kept if the configuration names nothing.
const DefaultDir = "/var/lib/cni/networks"

// lockTimeout is how long a call waits for others.
const lockTimeout = 10 * time.Second

// Plugin returns the plugin.
func Plugin() skel.Plugin {
	return skel.Plugin{Name: "host-local", Add: add, Del: del, Check: check, GC: gc, Status: status}
}

// IPAM is the plugin's part of the configuration.
type IPAM struct {
	Type string `json:"type"`
	// Ranges are sets; a container gets one address of each.
	Ranges [][]Range `json:"ranges,omitempty"`
	// Routes go into the result as they are.
	Routes []cni.Route `json:"routes,omitempty"`
	// DataDir is where addresses are kept; empty means DefaultDir.
	DataDir string `json:"dataDir,omitempty"`
	// Range is another way to write a single set with a single range.
	Range
}

type conf struct {
	Name string `json:"name"`
	IPAM *IPAM  `json:"ipam"`
	// RuntimeConfig has what the capabilities ipRanges and ips bring.
	RuntimeConfig struct {
		IPRanges [][]Range `json:"ipRanges"`
		IPs      []string  `json:"ips"`
	} `json:"runtimeConfig"`
}

// network is a configuration that was checked.
type network struct {
	pool
	sets   []set
	routes []cni.Route
	wanted []netip.Addr
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
	n := &network{routes: c.IPAM.Routes}
	var err error
	if n.sets, err = newSets(ranges); err != nil {
		return nil, cni.Errorf(cni.CodeInvalidConfig, "ipam: %v", err)
	}
	for _, s := range c.RuntimeConfig.IPs {
		addr, err := parseAddr(s)
		if err != nil {
			return nil, cni.Errorf(cni.CodeInvalidConfig, "runtimeConfig.ips: %v", err)
		}
		n.wanted = append(n.wanted, addr)
	}
	dir := c.IPAM.DataDir
	if dir == "" {
		dir = DefaultDir
	}
	n.pool = pool{dir: filepath.Join(dir, r.Name)}
	return n, nil
}

// locked runs f on the request's network while no other process does.
func locked(ctx context.Context, r *skel.Request, f func(*network) error) error {
	n, err := parse(r)
	if err != nil {
		return err
	}
	return n.locked(ctx, func() error { return f(n) })
}

func add(ctx context.Context, r *skel.Request) (*cni.Result, error) {
	result := new(cni.Result)
	return result, locked(ctx, r, func(n *network) error {
		owner := owner(r)
		if taken, err := n.held(owner); err != nil || len(taken) > 0 {
			return errors.Join(err, cni.Errorf(cni.CodePlugin, "%s already has %v", owner, taken))
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
	})
}

func owner(r *skel.Request) cni.Attachment {
	return cni.Attachment{ContainerID: r.ContainerID, IfName: r.IfName}
}

func del(ctx context.Context, r *skel.Request) error {
	return locked(ctx, r, func(n *network) error { return n.release(owner(r)) })
}

func check(ctx context.Context, r *skel.Request) error {
	return locked(ctx, r, func(n *network) error {
		taken, err := n.held(owner(r))
		if err == nil && len(taken) < len(n.sets) {
			err = cni.Errorf(cni.CodePlugin, "%v has %d addresses of %d", owner(r), len(taken), len(n.sets))
		}
		return err
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
			free, err := n.free(s)
			if err != nil {
				return err
			}
			if !free {
				return cni.Errorf(cni.CodeNotAvailable, "no address is free in %v", s)
			}
		}
		return nil
	})
}
