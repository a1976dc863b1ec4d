// Package machine keeps the clusters of one machine out of each other's way. It
// records which cluster has which range of pod addresses, chooses a range that
// nothing else on the machine uses, and removes what a cluster without an owner
// has left.
//
//	registry, err := machine.Open(machine.Dir)
//	unlock, err := registry.Lock(ctx)
//	defer unlock()
//	_, err = registry.Sweep(ctx, id)               // clusters that are gone
//	taken, err := registry.Taken(id)               // by links, routes, clusters
//	pods, err := machine.Choose(netip.Prefix{}, taken)
//	err = registry.Claim(id, machine.Record{DataDir: dir, PodCIDR: pods})
//	...
//	err = registry.Release(id)                     // everything is removed
//
// # Ownership
//
// A cluster has an identity of eight hexadecimal digits, which is in the names
// of its bridges (pkID-NODE) and cgroups (planekit-ID). Its record is a file in
// /run, which is as old as the links are: both end with the machine's uptime. The
// process holds a lock on the record. A cluster has an owner as long as that lock
// is held, or its data directory has its identity: a cluster that was killed is
// taken over by the next process on its data directory. Without an owner, its
// processes, mounts, cgroups, links and rules are removed.
package machine
