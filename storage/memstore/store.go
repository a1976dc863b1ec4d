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
	// defaultHistory is a number of revisions. At 100 writes a second it covers 8 minutes, more
	// than the 5 that Kubernetes keeps. With objects of 1 KB it takes 50 MB.
	defaultHistory = 50_000
	// degree is the degree of the tree. Copying a node copies 500 bytes.
	degree = 32
	// firstRevision is the revision of an empty store, as in etcd. It is not zero, because zero
	// means "now" or "none".
	firstRevision storage.Revision = 1
)

// tree holds pointers to records that are never changed, as the tree of package storage/cache does: a
// program that has both links the code of one.
type tree = btree.BTreeG[*storage.Record]

// A Store is a [storage.Store] in memory.
type Store struct {
	history int

	mu sync.RWMutex
	// now is the newest state. snapshot, if not nil, is an immutable copy of it.
	now      *tree
	snapshot *tree
	// log holds every change after compacted; the revision of log[i] is compacted+1+i. Entries are
	// never changed, so a slice of log stays valid after mu is released.
	log       []storage.Event
	compacted storage.Revision
	// waiting holds the watchers that wait for a change.
	waiting map[*watcher]struct{}
	// mortal holds the records with a TTL, the first to expire at the top. Records that have
	// changed since remain until their time is over. alarm is the timer for the top, nil before the
	// first record.
	mortal mortals
	alarm  *time.Timer
}

var (
	_ storage.Store   = (*Store)(nil)
	_ storage.Current = (*Store)(nil)
)

// New returns an empty store that keeps its last 50,000 changes.
func New() *Store { return NewHistory(defaultHistory) }

// NewHistory returns an empty store that keeps at least its last revisions changes, and at least
// one.
func NewHistory(revisions int) *Store {
	return &Store{
		history: max(revisions, 1),
		now: btree.NewG(degree, func(a, b *storage.Record) bool {
			return a.Key < b.Key
		}),
		compacted: firstRevision,
		waiting:   map[*watcher]struct{}{},
	}
}

// revision returns the revision of the last change. mu is held.
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
	record, found := s.find(key)
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

// find returns the newest record of key. mu is held.
func (s *Store) find(key storage.Key) (storage.Record, bool) {
	if r, ok := s.now.Get(&storage.Record{Key: key}); ok {
		return *r, true
	}
	return storage.Record{}, false
}

// put makes r the newest record of its key. mu is held.
func (s *Store) put(r storage.Record) { s.now.ReplaceOrInsert(&r) }

// after returns the changes after revision at; none if at is zero. mu is held.
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
	previous, found := s.find(c.Key)
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

// apply makes a change whose guard holds, and returns the result of Commit. mu is held.
func (s *Store) apply(c storage.Change, value []byte, previous storage.Record) storage.Record {
	revision := s.revision() + 1
	record := storage.Record{Key: c.Key, Value: value, Revision: revision, Created: previous.Created}
	event := storage.Event{Type: storage.Updated, Revision: revision, Previous: previous}
	s.snapshot = nil
	switch c.Op {
	case storage.Create:
		event.Type = storage.Created
		record.Created = revision
		s.put(record)
	case storage.Update:
		s.put(record)
	case storage.Delete:
		event.Type = storage.Deleted
		record.Value = nil
		s.now.Delete(&storage.Record{Key: c.Key})
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

// append adds an event to the log, wakes the watchers that it concerns, and bounds the history. mu
// is held.
func (s *Store) append(event storage.Event) {
	s.log = append(s.log, event)
	for w := range s.waiting {
		if strings.HasPrefix(string(event.Record.Key), w.prefix) || event.Revision-w.told >= progressEvery {
			delete(s.waiting, w)
			w.wake <- struct{}{}
		}
	}
	// Remove a quarter at a time, so that compact rarely copies the log.
	if excess := len(s.log) - s.history; excess > s.history/4 {
		s.compact(s.compacted + storage.Revision(excess))
	}
}

// Compact discards the history before revision at: earlier reads and watches then fail with
// [storage.ErrCompacted], and so does Compact itself unless at is later than in the last
// compaction.
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

// compact drops the log up to at. It copies the rest, because watchers may still read the old
// array. mu is held.
func (s *Store) compact(at storage.Revision) {
	s.log = append([]storage.Event(nil), s.log[at-s.compacted:]...)
	s.compacted = at
	for w := range s.waiting {
		// No later change in the log concerns w, which would have been woken.
		w.read = max(w.read, at)
	}
}
