package machine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/planekit/planekit/cni/bridge"
	"github.com/planekit/planekit/cni/portmap"
	"github.com/planekit/planekit/examples/cluster/containerd"
)

// Taken returns the ranges that are not the own cluster's: those of links and
// routes, and those that other clusters have claimed.
func (r *Registry) Taken(own string) ([]Taken, error) {
	records, err := r.all()
	if err != nil {
		return nil, err
	}
	uses, err := bridge.Uses()
	if err != nil {
		return nil, err
	}
	var taken []Taken
	for _, use := range uses {
		id, ours := ClusterOf(use.Link)
		if ours && id == own {
			continue
		}
		taken = append(taken, Taken{Prefix: use.Prefix, Address: use.Address, By: describe(use, records[id])})
	}
	for _, id := range slices.Sorted(maps.Keys(records)) {
		for _, prefix := range []netip.Prefix{records[id].PodCIDR, records[id].Machines} {
			if id != own && prefix.IsValid() {
				taken = append(taken, Taken{Prefix: prefix, By: "the cluster in " + records[id].DataDir})
			}
		}
	}
	return taken, nil
}

// describe names what has a range, as `ip address` and `ip route` show it.
func describe(use bridge.Use, owner Record) string {
	link := "link " + use.Link
	if owner.DataDir != "" {
		link += " of the cluster in " + owner.DataDir
	}
	switch {
	case use.Address.IsValid():
		return fmt.Sprintf("%s (address %v/%d)", link, use.Address, use.Prefix.Bits())
	case use.Link == "":
		return fmt.Sprintf("the route to %v", use.Prefix)
	}
	return fmt.Sprintf("%s (route to %v)", link, use.Prefix)
}

// Sweep removes what is left of clusters without an owner, but own, and returns
// their identities. What cannot be removed keeps its record.
func (r *Registry) Sweep(ctx context.Context, own string) (swept []string, err error) {
	records, err := r.all()
	if err != nil {
		return nil, err
	}
	orphans := map[string]Record{}
	for id, record := range records {
		if id != own && !r.owned(id, record) {
			orphans[id] = record
		}
	}
	networks, err := networks()
	if err != nil {
		return nil, err
	}
	for _, name := range networks {
		id, ok := ClusterOf(name)
		if _, recorded := records[id]; !ok || recorded || id == own || len(Processes(Cgroup(id))) > 0 {
			continue // owned, found above, or made by a program that keeps no records
		}
		orphans[id] = Record{}
	}
	var failed error
	for _, id := range slices.Sorted(maps.Keys(orphans)) {
		err := r.remove(ctx, id, orphans[id], networks)
		if err == nil {
			err = r.Release(id)
		}
		if err == nil {
			swept = append(swept, id)
		}
		failed = errors.Join(failed, err)
	}
	return swept, failed
}

// networks returns the names of bridges, and those of which only the rules of mapped ports are left.
func networks() ([]string, error) {
	bridges, err := bridge.Names()
	if err != nil {
		return nil, err
	}
	scopes, err := portmap.Scopes()
	if err != nil {
		return nil, err
	}
	all := append(bridges, scopes...)
	slices.Sort(all)
	return slices.Compact(all), nil
}

// remove removes all that a cluster has outside its data directory.
func (r *Registry) remove(ctx context.Context, id string, record Record, networks []string) error {
	var failed error
	for _, root := range r.daemons(id, record) {
		daemon, err := containerd.New(containerd.Config{Root: root, CNIConf: root, CNIBin: root})
		if err == nil {
			err = daemon.Kill(ctx)
		}
		failed = errors.Join(failed, err)
	}
	failed = errors.Join(failed, RemoveCgroups(ctx, Cgroup(id)))
	for _, name := range networks {
		if of, ok := ClusterOf(name); ok && of == id {
			failed = errors.Join(failed, portmap.Remove(ctx, name), bridge.Remove(ctx, name))
		}
	}
	if failed != nil {
		return fmt.Errorf("remove what cluster %s left: %w", id, failed)
	}
	return nil
}

// daemons returns the roots of a cluster's daemons. There are none where another
// cluster now runs in its data directory: the daemons are that one's.
func (r *Registry) daemons(id string, record Record) []string {
	if record.DataDir == "" {
		return nil
	}
	records, _ := r.all() // its caller has just read them
	for other, now := range records {
		if other != id && now.DataDir == record.DataDir && r.owned(other, Record{}) {
			return nil
		}
	}
	var roots []string
	for _, root := range containerd.Roots() {
		if strings.HasPrefix(root, filepath.Join(record.DataDir, "nodes")+"/") {
			roots = append(roots, root)
		}
	}
	return roots
}
