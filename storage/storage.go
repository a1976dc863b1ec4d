// Package storage defines a key-value store with revisions. A [Store] maps keys to bytes, gives
// every change a revision, and lets callers follow all changes after a revision without missing
// one.
//
//	record, err := store.Commit(ctx, storage.Change{Key: "/pods/default/web", Value: data})
//	watcher, err := store.Watch(ctx, "/pods/", record.Revision)
//
// The model is one global counter. Each committed change has a higher revision than the one before.
// Revisions are shared by all keys, are never reused, may have gaps, and are greater than zero even
// in an empty store. A read without a revision is linearizable: it sees every change that was
// acknowledged, or delivered by a watcher, before it began. A read at a revision sees the store as
// it was at that revision. To follow a prefix without a gap, List it and Watch after the Page's
// revision.
//
// Every write names the state that it expects: no record (Create) or a revision (Update, Delete).
// There is no unconditional write. A record can have a time to live.
//
// Failures: if the expected state does not hold, Commit changes nothing and returns ErrExists,
// ErrNotFound or a *ConflictError. Stores discard old history (compaction); reads and watches that
// need it fail with ErrCompacted, and the caller must list again. After any other error of Commit,
// including that of a context, the outcome is unknown ([Refused]): the change may have been
// committed, or be committed a moment later. A caller that repeats the same change is safe, because
// its own committed change then appears as a conflict. A caller that reads the record and derives
// another change from it may apply itself to its own effect. A full store fails writes with ErrFull,
// where the change may have been committed too, and continues to serve reads.
//
// A store that repeats a change after it lost the answer to it must not return the refusal of the
// repetition: the first may have been committed.
//
// Not included: transactions on several keys, and any knowledge of the values. This package does
// not depend on Kubernetes.
//
// Optional interfaces are found by type assertion: [Current] of a Store, [Progresser] of a Watcher.
//
// Implementations are memstore (a tree in memory) and etcdstore (etcd v3, external or embedded).
// Package encrypted encrypts the values of another store. Package storagetest contains the tests
// that every Store must pass.
package storage

import "context"

// A Watcher delivers the changes under a prefix in revision order, each once. It must be used by
// one goroutine, except Close, which any goroutine may call, more than once.
type Watcher interface {
	// Next waits for at least one event. All events of one revision are in one slice, which belongs
	// to the caller. It fails with ErrCompacted if the next revision is no longer available, with
	// ErrClosed after Close, and with the context's error when ctx or the context of Watch is done.
	// After any failure other than that of ctx, the watcher is unusable.
	Next(ctx context.Context) ([]Event, error)
	// Close ends the watch and releases its resources.
	Close()
}

// A Store keeps records. All methods are safe for concurrent use.
type Store interface {
	// Get returns the record of key at revision at; zero means now, linearizably. It fails with
	// ErrNotFound if there is none, and with ErrDamaged, together with the record, if the value
	// cannot be decoded. Get and List fail with ErrCompacted or ErrFuture if the store does not
	// have the revision.
	Get(ctx context.Context, key Key, at Revision) (Record, error)
	// List returns the records whose keys begin with prefix.
	List(ctx context.Context, prefix Key, o ListOptions) (Page, error)
	// Commit makes one change and returns the record after it. For Delete it returns the record
	// before the change, with the revision of the deletion. ErrExists, ErrNotFound and
	// *ConflictError (which matches ErrConflict) mean that the guard failed and nothing was
	// changed. With ErrExists, Commit returns the existing record. An error that is not [Refused]
	// leaves the outcome unknown.
	Commit(ctx context.Context, c Change) (Record, error)
	// Watch follows the changes under prefix with a revision greater than after; zero follows the
	// changes from now on. A revision in the future is valid: changes up to it are not delivered.
	Watch(ctx context.Context, prefix Key, after Revision) (Watcher, error)
}
