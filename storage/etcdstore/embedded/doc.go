// Package embedded runs a durable etcd of one member inside this process, with
// nothing listening: no port, no socket, no peer.
//
//	server, err := embedded.New(embedded.Config{Dir: "/var/lib/planekit/etcd"})
//	...
//	go func() { done <- server.Run(ctx) }()
//	select {
//	case <-server.Ready():
//	case err := <-done:
//		return err
//	}
//	store, err := etcdstore.New(etcdstore.Config{Client: server.Client(), SoleMember: true})
//
// The model: [Server.Client] calls the server's functions directly. What was
// acknowledged is on disk (the write-ahead log is synced before every answer)
// and is there again when a server is started on the same directory, however
// the one before ended. The directory is an ordinary data directory of etcd
// 3.6, for etcd's tools to read while no Server runs on it.
//
// How it fails: a second server on the same directory, in this process or
// another, is refused at once with [ErrLocked]. Where etcd finds itself unable
// to go on, which it would tell by ending the process, Run returns an error
// instead; that etcd is then abandoned as it stands, its directory stays locked
// until the process ends, and calls through its client fail or end with their
// contexts. Once the database exceeds its quota writes fail and reads go on.
//
// A full disk does not get that far: the server takes the space for its files before it
// needs it (see [Config.ReserveBytes]), refuses writes while it can get no more, as over
// the quota, and admits them again by itself. [Server.CheckSpace] says which. A file
// system without fallocate has only the reserve's free space to go by.
//
// A data directory that etcd would stumble over (no log, a log that ends early, a
// database that is missing, cut short or garbled) is told by an error that is
// [ErrDamaged] and names the file. Only values are not covered: bbolt keeps no sums.
//
// Backups: [Server.Snapshot] writes what the server holds while it runs, in the format
// of etcd's own tools; [Restore] makes a data directory of it, in which revisions go on.
//
// Where compaction has left most of the database free, the server rewrites it, which etcd never does
// by itself; calls wait for some hundred milliseconds at most meanwhile. A database with more than
// 64 MiB in use is left as it is.
//
// What it leaves out: clusters of several members, for which run etcd itself.
// While idle it costs under 1 % of a CPU: etcd ticks. etcd
// registers its metrics in the Prometheus default registry and keeps a few
// process-wide variables; several servers in one process share those and
// nothing else.
package embedded
