// Package memstore is a [storage.Store] in memory, for tests and for programs that do not need
// durable objects.
//
//	store := memstore.New()
//	record, err := store.Commit(ctx, storage.Change{Key: "/greeting", Value: []byte("hello")})
//
// The newest state is a copy-on-write tree, and every change is appended to one log. A listing
// takes a snapshot of the tree and does not block writers. A listing or read at an older revision
// undoes the later changes of the log, so its cost grows with their number. Each watch is a cursor
// in the log: a slow watch blocks no other caller and costs nothing until it falls behind the
// history. Records with a TTL are deleted exactly on time.
//
// Failures: the store keeps a bounded history (see [NewHistory]). Older reads and watches fail with
// [storage.ErrCompacted].
//
// Not included: durability, and a limit on the size of values.
package memstore
