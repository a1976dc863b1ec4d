// Package memstore is a [storage.Store] in memory: for tests, and for programs
// whose objects need not outlive them.
//
//	store := memstore.New()
//	record, err := store.Commit(ctx, storage.Change{Key: "/greeting", Value: []byte("hello")})
//
// The model: the newest state is a copy-on-write tree, and every change is
// appended to one log. A listing takes a snapshot of the tree and reads it
// without holding up writers. A listing or a read at an older revision undoes
// the later changes of the log, so it costs as much as there are of those. Each
// watch has a cursor in the log: a slow one holds up nobody, and costs nothing
// until it falls behind the history. Records with a time to live go when it is
// over, to the moment.
//
// How it fails: the store keeps a bounded history (see [NewHistory]). Reads
// and watches that need more fail with [storage.ErrCompacted].
//
// What it leaves out: durability, and a limit on the size of values.
package memstore
