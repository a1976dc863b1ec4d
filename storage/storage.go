// Package storage remembers objects. A [Store] maps keys to bytes, gives every
// change a revision, and lets anyone follow all changes after a revision
// without missing one.
//
//	record, err := store.Commit(ctx, storage.Change{Key: "/pods/default/web", Value: data})
//	watcher, err := store.Watch(ctx, "/pods/", record.Revision)
//
// The model: one global counter. Each committed change takes a later revision
// than the one before; revisions are ordered, never reused, shared by all keys,
// and greater than zero even in an empty store. They may have gaps. A read
// without a revision is linearizable: it sees every change that was
// acknowledged, or delivered by a watcher, before it began. A read at a revision sees the store as it stood
// then. To follow a prefix without a gap, List it and Watch after the Page's
// revision.
//
// Every write names what it expects to find: nothing (Create) or a revision
// (Update, Delete). There is no write that overwrites whatever is there. A
// record can be given a time to live.
//
// How it fails: a guard that does not hold is ErrExists, ErrNotFound or a
// *ConflictError, and nothing was changed; a store that is full refuses changes
// with ErrFull, and goes on reading. Stores give up old history
// (compaction); what then needs it fails with ErrCompacted, and the answer is
// to list again. Any other error of a Commit, a context's included, leaves open
// whether it took place: the caller finds out by reading, or by trying again
// and meeting its own change as a conflict.
//
// What it leaves out: transactions on several keys, and any idea of what the
// bytes mean. This package knows nothing of Kubernetes.
//
// Beyond Store there are optional interfaces, found by type assertion: [Current]
// of a Store, [Progresser] of a Watcher.
//
// Implementations are memstore (a tree in memory) and etcdstore (etcd v3,
// external or embedded); encrypted keeps the values of any of them secret.
// Package storagetest is the proof that a Store must pass.
package storage

import "context"

// A Watcher delivers the changes under a prefix in revision order, each once.
// It is used by one goroutine; Close may be called by any, more than once.
type Watcher interface {
	// Next waits for at least one event. All events of one revision come in one
	// slice, which belongs to the caller. It fails with ErrCompacted where the
	// next revision is gone, with ErrClosed after Close, with the context's error
	// when ctx or the context of Watch is done; every failure but that of ctx is
	// final.
	Next(ctx context.Context) ([]Event, error)
	// Close ends the watch and releases what it holds.
	Close()
}

// A Store keeps records. All methods are safe for concurrent use. An error
// that is not one of the sentinels below (possibly wrapped) leaves open
// whether a Commit took place.
type Store interface {
	// Get returns the record of key, as of revision at, or now (linearizable)
	// where at is zero. ErrNotFound when there is none; ErrCompacted and
	// ErrFuture when the store cannot tell, for List too; ErrDamaged, with the
	// record, when its value cannot be made out.
	Get(ctx context.Context, key Key, at Revision) (Record, error)
	// List returns the records whose keys begin with prefix.
	List(ctx context.Context, prefix Key, o ListOptions) (Page, error)
	// Commit makes one change and returns the record as it stands after it; for
	// Delete, as it stood before, with Revision that of the deletion.
	// ErrExists, ErrNotFound and *ConflictError (which is ErrConflict) tell that
	// the guard failed and nothing was changed. With ErrExists comes the record
	// that stands in the way.
	Commit(ctx context.Context, c Change) (Record, error)
	// Watch follows the changes under prefix with a revision greater than after;
	// zero follows from now. A revision in the future is valid: changes up to it
	// are not delivered.
	Watch(ctx context.Context, prefix Key, after Revision) (Watcher, error)
}
