// Package etcdstore keeps a [storage.Store] in etcd, version 3.4 or later.
//
//	client, err := etcdstore.Dial(ctx, etcdstore.DialConfig{
//		Endpoints: []string{"https://10.0.0.1:2379"},
//		TLS:       tlsConfig,
//	})
//	...
//	store, err := etcdstore.New(etcdstore.Config{Client: client, Prefix: "/registry"})
//
// Package embedded offers a client of an etcd inside this process.
//
// The model is etcd's own: revisions are those of the whole etcd, so they are
// shared with whatever else it holds, and grow when other prefixes change.
// Every Commit is one transaction that returns what stands in its way if it
// fails. A listing is one range, its later pages are ranges at the revision of
// the first. Records with a time to live share leases: those of one TTL written
// within a twentieth of it (a minute at most) go together, and up to two seconds
// late. A watch asks for previous values and progress; the client library
// resumes it after a broken connection without loss, and holds what its user
// has not taken yet in memory, without bound.
//
// How it fails: a Commit whose connection breaks, or whose context ends, may or
// may not have happened. While etcd has no leader, calls fail after etcd's own
// time-out (5 seconds and two elections) or the context's, and a watch waits. A
// watch that cannot be told an event's previous value, because that was
// compacted away while the watch lagged, ends with [storage.ErrCompacted]. A
// value over etcd's request limit (1.5 MiB) is [storage.ErrInvalid], a write over
// its quota [storage.ErrFull]; [Store.Healthy] names the alarm.
//
// What it leaves out: transactions on several keys, and compacting an
// external etcd unasked: somebody must, see [Store.CompactEvery].
package etcdstore
