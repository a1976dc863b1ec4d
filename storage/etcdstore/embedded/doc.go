// Package embedded runs a durable etcd with a single member inside this process. It does not listen
// on any port or socket.
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
// [Server.Client] calls the server's functions directly. Acknowledged writes are on disk, because
// the write-ahead log is synced before every answer, and survive any end of the process. The
// directory is an ordinary data directory of etcd 3.6; etcd's tools can read it while no Server
// runs on it.
//
// Failures: a second server on the same directory, in this process or another, fails at once with
// [ErrLocked]. On errors for which etcd would end the process, Run returns an error instead. That
// etcd is abandoned: its directory stays locked until the process ends, and calls through its
// client fail or end with their contexts. When the database exceeds its quota, writes fail and
// reads continue.
//
// The server does not let etcd run into a full disk. It allocates space before it is needed (see
// [Config.ReserveBytes]). While it cannot, it refuses writes, as it does over the quota, and admits
// them again by itself. [Server.CheckSpace] reports which. On a file system without fallocate, only
// the free space of the reserve protects it.
//
// Damage to the data directory that etcd could not handle (no log, a log that ends early, a
// database that is missing, truncated or corrupt) is reported as an [ErrDamaged] that names the
// file. Damage inside values is not detected: bbolt has no checksums.
//
// Backups: [Server.Snapshot] writes a snapshot of the running server, in the format of etcd's own
// tools. [Restore] creates a data directory from it, in which revisions continue.
//
// When compaction has freed most of the database, the server rewrites it, which etcd does not do by
// itself. Calls wait for some hundred milliseconds at most meanwhile. A database with more than 64
// MiB in use is not rewritten.
//
// Not included: clusters of several members; run etcd itself for these. An idle server uses less
// than 1 % of a CPU for etcd's ticks. etcd registers its metrics in the default Prometheus registry
// and has a few process-wide variables, which several servers in one process share.
package embedded
