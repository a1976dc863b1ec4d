// Package machine keeps the clusters of one machine out of each other's way. It
// records which cluster has which range of pod addresses, chooses a range that
// nothing else on the machine uses, and removes what a cluster without an owner
// has left.
//
//	registry, err := machine.Open(machine.Dir)
//	pods, err := registry.Reserve(ctx, machine.Reservation{ID: id, DataDir: dir})
//	...
//	err = registry.Withdraw(id) // everything is removed
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
