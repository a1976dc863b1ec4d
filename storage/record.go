package storage

import (
	"fmt"
	"time"
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
	// Damage is set where the store has the record but cannot make out its value,
	// which is nil then: it is [ErrDamaged] and says why. Get fails with it, and
	// returns the record beside it; listings, watches and answers to changes go on.
	Damage error
	// Stale says that the value is kept in a way that the store has moved on from:
	// an update, of the same value even, brings it up to date.
	Stale bool
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
	// Value is the new value for Create and Update. The store copies it or is
	// done with it when Commit returns.
	Value []byte
	// Previous guards Update and Delete: the key must stand at this revision.
	// It must be set for these, and not for Create; else the change is refused
	// with [ErrInvalid].
	Previous Revision
	// TTL, for Create and Update, has the store delete the record by itself when
	// that time has passed since Commit was called, unless another change comes
	// first: what counts is the TTL of the last one. The deletion is a change with a
	// revision and an event as any. It does not come early, and late by at most a
	// tenth of TTL, a minute at most, and a few seconds. TTL is in whole seconds;
	// zero keeps the record.
	TTL time.Duration
}

// Check returns nil if c is a change that a Store can be asked for, or an
// error that is [ErrInvalid].
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

// Event is one change, as a watcher sees it.
type Event struct {
	Type EventType
	// Revision is that of the change, also for Deleted.
	Revision Revision
	// Record is the record after the change. For Deleted its Value is nil and its
	// Revision that of the deletion. Zero for Progress.
	Record Record
	// Previous is the record before the change; zero for Created and Progress.
	Previous Record
}
