package storage

import (
	"fmt"
	"time"
)

// Key names a record. Keys are compared byte by byte. By convention they begin with a slash and are
// divided by slashes. The empty key is invalid.
type Key string

// Revision numbers a change to the store. Zero means "none" or "now", depending on the context.
type Revision int64

// Record is a key's value at one revision.
type Record struct {
	Key Key
	// Value may be kept by the caller but must not be changed: stores share these bytes between
	// readers.
	Value []byte
	// Revision is the revision of the change that last wrote the key.
	Revision Revision
	// Created is the revision of the change that created the key.
	Created Revision
	// Damage, if not nil, says why the store cannot decode the value of the record. It matches
	// [ErrDamaged], and Value is nil. Get returns the record together with this error; List, Watch
	// and Commit succeed.
	Damage error
	// Stale means that the value is stored in an outdated form, for example encrypted with an old
	// key. Any update, even one with the same value, rewrites it.
	Stale bool
}

// Op selects the operation of a [Change].
type Op int

// The operations. The zero Op is Create.
const (
	// Create stores a record under a key that must not exist.
	Create Op = iota
	// Update replaces the value of a key.
	Update
	// Delete removes a key.
	Delete
)

func (o Op) String() string {
	switch o {
	case Create:
		return "create"
	case Update:
		return "update"
	case Delete:
		return "delete"
	}
	return fmt.Sprintf("operation %d", int(o))
}

// Change is one guarded write: a single transaction on a single key.
type Change struct {
	Op  Op
	Key Key
	// Value is the new value for Create and Update. The store does not keep it after Commit
	// returns.
	Value []byte
	// Previous guards Update and Delete: the change fails unless the record is at this revision. It
	// is required for Update and Delete and must be zero for Create; otherwise the change fails
	// with [ErrInvalid].
	Previous Revision
	// TTL, for Create and Update, makes the store delete the record once TTL has passed since the
	// call of Commit. A later update replaces the TTL. The deletion has a revision and an event
	// like any other. It never comes early. It is late by at most a tenth of TTL, or one minute if
	// that is less, plus a few seconds. TTL must be in whole seconds; zero keeps the record.
	TTL time.Duration
}

// Check returns nil if c is a valid change, or an error that matches [ErrInvalid].
func (c Change) Check() error {
	switch {
	case c.Key == "":
		return fmt.Errorf("%s: empty key: %w", c.Op, ErrInvalid)
	case c.Op < Create || c.Op > Delete:
		return fmt.Errorf("%s %s: no such operation: %w", c.Op, c.Key, ErrInvalid)
	case c.Op == Create && c.Previous != 0:
		return fmt.Errorf("%s %s: guarded by revision %d: %w", c.Op, c.Key, c.Previous, ErrInvalid)
	case c.Op != Create && c.Previous <= 0:
		return fmt.Errorf("%s %s: not guarded by a revision: %w", c.Op, c.Key, ErrInvalid)
	case c.TTL < 0 || c.TTL%time.Second != 0:
		return fmt.Errorf("%s %s: a TTL of %v, which is no number of seconds: %w", c.Op, c.Key, c.TTL, ErrInvalid)
	case c.Op == Delete && c.TTL != 0:
		return fmt.Errorf("%s %s: a deletion with a TTL: %w", c.Op, c.Key, ErrInvalid)
	}
	return nil
}

// ListOptions selects a part of a listing. The zero value lists everything now.
type ListOptions struct {
	// At is the revision to list at; zero lists the current state, linearizably.
	At Revision
	// Limit is the maximum number of records to return; zero means no limit.
	Limit int
	// After, if set, is the key to continue after: the key of the last record of the previous page.
	After Key
}

// Page is a listing in key order at one revision.
type Page struct {
	Records []Record
	// Revision is the revision of the listing. A Watch after it misses no change.
	Revision Revision
	// Remaining counts the records after this page. Zero means that this is the last page.
	Remaining int64
}

// EventType is the kind of a change to a key.
type EventType int

// The event types. A Progress event carries only a Revision: all changes up to it have been
// delivered.
const (
	Created EventType = iota + 1
	Updated
	Deleted
	Progress
)

func (t EventType) String() string {
	switch t {
	case Created:
		return "created"
	case Updated:
		return "updated"
	case Deleted:
		return "deleted"
	case Progress:
		return "progress"
	}
	return fmt.Sprintf("event type %d", int(t))
}

// Event is one change as delivered to a watcher.
type Event struct {
	Type EventType
	// Revision is the revision of the change, including a deletion.
	Revision Revision
	// Record is the record after the change. For Deleted, Value is nil and Revision is the revision
	// of the deletion. For Progress, Record is zero.
	Record Record
	// Previous is the record before the change. It is zero for Created and Progress.
	Previous Record
}
