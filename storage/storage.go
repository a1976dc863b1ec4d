// Package storage remembers objects. A [Store] maps keys to bytes, gives every
// change a revision, and lets anyone follow all changes after a revision
// without missing one.
//
//	record, err := store.Commit(ctx, storage.Change{Key: "/pods/default/web", Value: data})
//	watcher, err := store.Watch(ctx, "/pods/", record.Revision)
//
// The model: one global counter. Each committed change takes the next
// revision; revisions are ordered, never reused, and shared by all keys. A
// read without a revision is linearizable: it sees every change that was
// acknowledged before it began.
//
// Implementations are memstore (a tree in memory) and etcdstore (etcd v3,
// external or embedded). Package storagetest is the proof that a Store must
// pass. This package knows nothing of Kubernetes.
package storage

import (
	"context"
	"errors"
	"fmt"
)

// Key names a record. Keys are plain strings compared byte by byte; by
// convention they begin with and are divided by slashes. The empty key names
// nothing and is refused.
type Key string

// Revision numbers a change to the store. Zero stands for "none" or "now",
// depending on where it is used.
type Revision int64

// Record is a key's value at one revision.
type Record struct {
	Key Key
	// Value belongs to whoever received the record, who may keep it but must not
	// change it: stores share these bytes between readers.
	Value []byte
	// Revision is that of the change that last wrote the key.
	Revision Revision
	// Created is the revision of the change that created the key.
	Created Revision
}

// Op is what a [Change] does.
type Op int

// The changes there are. The zero Op is Create.
const (
	// Create puts a key that must be absent.
	Create Op = iota
	// Update replaces the value of a key.
	Update
	// Delete removes a key.
	Delete
)

// Change is one guarded write: a single transaction on a single key.
type Change struct {
	Op  Op
	Key Key
	// Value is the new value for Create and Update. The store copies it or is
	// done with it when Commit returns.
	Value []byte
	// Previous guards Update and Delete: the key must stand at this revision.
	// It must be set; unguarded writes are refused with [ErrInvalid].
	Previous Revision
}

// ListOptions select a part of a listing. The zero value lists everything now.
type ListOptions struct {
	// At lists as of this revision; zero is now, linearizable.
	At Revision
	// Limit is the most records to return; zero is all.
	Limit int
	// After, when set, starts behind this key: the Key of the last record of
	// the page before.
	After Key
}

// Page is a listing in key order, all as of one revision.
type Page struct {
	Records []Record
	// Revision is what the listing is as of. Watching after it misses nothing.
	Revision Revision
	// Remaining counts the records after this page; zero says it is the last.
	Remaining int64
}

// EventType says what happened to a key.
type EventType int

// The event types. Progress carries only a Revision: everything up to it has
// been delivered.
const (
	Created EventType = iota + 1
	Updated
	Deleted
	Progress
)

// Event is one change, as a watcher sees it.
type Event struct {
	Type EventType
	// Revision is that of the change, also for Deleted.
	Revision Revision
	// Record is the record after the change. For Deleted its Value is nil. Zero
	// for Progress.
	Record Record
	// Previous is the record before the change; zero for Created and Progress.
	Previous Record
}

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
	// where at is zero. ErrNotFound when there is none.
	Get(ctx context.Context, key Key, at Revision) (Record, error)
	// List returns the records whose keys begin with prefix.
	List(ctx context.Context, prefix Key, o ListOptions) (Page, error)
	// Commit makes one change and returns the record as it stands after it; for
	// Delete, as it stood before, with Revision that of the deletion.
	// ErrExists, ErrNotFound and *ConflictError (which is ErrConflict) tell that
	// the guard failed and nothing was changed.
	Commit(ctx context.Context, c Change) (Record, error)
	// Watch follows the changes under prefix with a revision greater than after;
	// zero follows from now. A revision in the future is valid: changes up to it
	// are not delivered.
	Watch(ctx context.Context, prefix Key, after Revision) (Watcher, error)
}

// The conditions a Store reports. Compare with errors.Is.
var (
	ErrNotFound  = errors.New("not found")
	ErrExists    = errors.New("already exists")
	ErrConflict  = errors.New("conflict")
	ErrCompacted = errors.New("revision has been compacted")
	ErrFuture    = errors.New("revision is in the future")
	ErrInvalid   = errors.New("invalid argument")
	ErrClosed    = errors.New("closed")
)

// ConflictError says that a guarded change found another revision than it
// wanted. It is [ErrConflict].
type ConflictError struct {
	Key Key
	// Current is the record that stands in the way.
	Current Record
	// Want is the revision that the change was guarded by.
	Want Revision
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s: conflict: at revision %d, not %d", e.Key, e.Current.Revision, e.Want)
}

// Is reports that e is [ErrConflict].
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }
