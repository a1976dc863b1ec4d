package memstore

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/btree"

	"github.com/planekit/planekit/storage"
)

const (
	// defaultHistory is in revisions. At 100 writes a second it holds 8 minutes,
	// more than the 5 that Kubernetes keeps; at 1 KB an object it takes 50 MB.
	defaultHistory = 50_000
	// degree of the tree: a copied node is 500 bytes.
	degree = 32
	// firstRevision is that of the empty store, as in etcd: zero means other
	// things.
	firstRevision storage.Revision = 1
)

type tree = btree.BTreeG[storage.Record]

// A Store is a [storage.Store] in memory.
type Store struct {
	history int

	mu sync.RWMutex
	// now is the newest state. snapshot, when not nil, equals it and is
	// immutable.
	now      *tree
	snapshot *tree
	// log holds every change after compacted; the revision of log[i] is
	// compacted+1+i. Entries are never changed, so a slice of it stays good
	// after mu is released.
	log       []storage.Event
	compacted storage.Revision
	// waiting are the watchers to be woken by a change that concerns them.
	waiting map[*watcher]struct{}
	// mortal are the records with a time to live, the first to go on top; a
	// record that was changed since is there until its time is over. alarm goes
	// off for the one on top, and is nil before there is any.
	mortal mortals
	alarm  *time.Timer
}

var (
	_ storage.Store   = (*Store)(nil)
	_ storage.Current = (*Store)(nil)
)

// New returns an empty store that remembers its last 50,000 changes.
func New() *Store { return NewHistory(defaultHistory) }

// NewHistory returns an empty store that remembers at least its last revisions
// changes, and at least one.
func NewHistory(revisions int) *Store {
	return &Store{
		history: max(revisions, 1),
		now: btree.NewG(degree, func(a, b storage.Record) bool {
			return a.Key < b.Key
		}),
		compacted: firstRevision,
		waiting:   map[*watcher]struct{}{},
	}
}

// revision returns that of the last change. mu is held.
func (s *Store) revision() storage.Revision {
	return s.compacted + storage.Revision(len(s.log))
}

// Revision implements [storage.Current].
func (s *Store) Revision(ctx context.Context) (storage.Revision, error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("current revision: %w", err)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.revision(), nil
}

// Get implements [storage.Store].
func (s *Store) Get(ctx context.Context, key storage.Key, at storage.Revision) (storage.Record, error) {
	if err := ctx.Err(); err != nil {
		return storage.Record{}, fmt.Errorf("get %s: %w", key, err)
	}
	if key == "" || at < 0 {
		return storage.Record{}, fmt.Errorf("get %q at %d: %w", key, at, storage.ErrInvalid)
	}
	s.mu.RLock()
	record, found := s.now.Get(storage.Record{Key: key})
	later, err := s.after(at)
	s.mu.RUnlock()
	if err != nil {
		return storage.Record{}, fmt.Errorf("get %s at %d: %w", key, at, err)
	}
	for _, event := range later {
		if event.Record.Key == key {
			record, found = event.Previous, event.Type != storage.Created
			break
		}
	}
	if !found {
		return storage.Record{}, fmt.Errorf("get %s: %w", key, storage.ErrNotFound)
	}
	return record, nil
}

// after returns the changes since revision at; none when at is zero. mu is held.
func (s *Store) after(at storage.Revision) ([]storage.Event, error) {
	switch {
	case at == 0:
		return nil, nil
	case at < s.compacted:
		return nil, storage.ErrCompacted
	case at > s.revision():
		return nil, storage.ErrFuture
	}
	return s.log[at-s.compacted:], nil
}

// Commit implements [storage.Store].
func (s *Store) Commit(ctx context.Context, c storage.Change) (storage.Record, error) {
	if err := c.Check(); err != nil {
		return storage.Record{}, err
	}
	if err := ctx.Err(); err != nil {
		return storage.Record{}, fmt.Errorf("%s %s: %w", c.Op, c.Key, err)
	}
	value := bytes.Clone(c.Value)
	s.mu.Lock()
	defer s.mu.Unlock()
	previous, found := s.now.Get(storage.Record{Key: c.Key})
	switch {
	case c.Op == storage.Create && found:
		return previous, fmt.Errorf("%s %s: %w", c.Op, c.Key, storage.ErrExists)
	case c.Op != storage.Create && !found:
		return storage.Record{}, fmt.Errorf("%s %s: %w", c.Op, c.Key, storage.ErrNotFound)
	case c.Previous != previous.Revision:
		return storage.Record{}, &storage.ConflictError{Key: c.Key, Current: previous, Want: c.Previous}
	}
	return s.apply(c, value, previous), nil
}

// apply makes a change whose guard holds, and returns what Commit does. mu is
// held.
func (s *Store) apply(c storage.Change, value []byte, previous storage.Record) storage.Record {
	revision := s.revision() + 1
	record := storage.Record{Key: c.Key, Value: value, Revision: revision, Created: previous.Created}
	event := storage.Event{Type: storage.Updated, Revision: revision, Previous: previous}
	s.snapshot = nil
	switch c.Op {
	case storage.Create:
		event.Type = storage.Created
		record.Created = revision
		s.now.ReplaceOrInsert(record)
	case storage.Update:
		s.now.ReplaceOrInsert(record)
	case storage.Delete:
		event.Type = storage.Deleted
		record.Value = nil
		s.now.Delete(record)
	}
	event.Record = record
	s.append(event)
	if c.TTL > 0 {
		s.expire(record, c.TTL)
	}
	if c.Op == storage.Delete {
		record.Value = previous.Value
	}
	return record
}

// append adds to the log, wakes whom it concerns, and keeps the history to its
// length. mu is held.
func (s *Store) append(event storage.Event) {
	s.log = append(s.log, event)
	for w := range s.waiting {
		if strings.HasPrefix(string(event.Record.Key), w.prefix) || event.Revision-w.told >= progressEvery {
			delete(s.waiting, w)
			w.wake <- struct{}{}
		}
	}
	// Cutting a quarter at a time makes the copying in compact rare.
	if excess := len(s.log) - s.history; excess > s.history/4 {
		s.compact(s.compacted + storage.Revision(excess))
	}
}

// Compact gives up the history before revision at: reads at earlier revisions
// and watches after earlier ones fail with [storage.ErrCompacted] from then
// on, and so does Compact itself unless at is later than that of the last.
func (s *Store) Compact(ctx context.Context, at storage.Revision) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := ctx.Err()
	switch {
	case err != nil:
	case at <= 0:
		err = storage.ErrInvalid
	case at <= s.compacted:
		err = storage.ErrCompacted
	case at > s.revision():
		err = storage.ErrFuture
	}
	if err != nil {
		return fmt.Errorf("compact at %d: %w", at, err)
	}
	s.compact(at)
	return nil
}

// compact drops the log up to at, into a new array: watchers may be reading
// the old one. mu is held.
func (s *Store) compact(at storage.Revision) {
	s.log = append([]storage.Event(nil), s.log[at-s.compacted:]...)
	s.compacted = at
	for w := range s.waiting {
		// Nothing in the log since concerned it, or it would have been woken.
		w.read = max(w.read, at)
	}
}
