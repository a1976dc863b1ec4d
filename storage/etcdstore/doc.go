// Package etcdstore keeps a [storage.Store] in etcd, version 3.4 or later.
//
//	client, err := etcdstore.Dial(ctx, etcdstore.DialConfig{
//		Endpoints: []string{"https://10.0.0.1:2379"},
//		TLS:       tlsConfig,
//	})
//	...
//	store, err := etcdstore.New(etcdstore.Config{Client: client, Prefix: "/registry"})
//
// Package embedded provides a client of an etcd inside this process.
//
// Revisions are those of the whole etcd: they also advance when keys under other prefixes change.
// Every Commit is one transaction, which returns the existing record if its guard fails. A listing
// is one range request; later pages are requests at the revision of the first. Records with a TTL
// share leases: records with the same TTL that were written within a twentieth of it (at most a
// minute) expire together, up to two seconds late. A watch requests previous values and progress.
// The client library resumes it after a broken connection without loss, and buffers undelivered
// events in memory without a bound.
//
// Failures: if the connection breaks or the context ends during a Commit, the change may or may not
// have been committed. While etcd has no leader, calls fail after etcd's own timeout (5 seconds and
// two elections) or the context's, and watches wait. If an event's previous value was compacted
// while a watch lagged, the watch ends with [storage.ErrCompacted]. A value over etcd's request
// limit (1.5 MiB) is [storage.ErrInvalid]; a write over its quota is [storage.ErrFull].
// [Store.Healthy] names the alarm.
//
// Not included: transactions on several keys, and automatic compaction of an external etcd; see
// [Store.CompactEvery].
package etcdstore
