package memstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/planekit/planekit/storage"
)

// List implements [storage.Store].
func (s *Store) List(ctx context.Context, prefix storage.Key, o storage.ListOptions) (storage.Page, error) {
	if err := ctx.Err(); err != nil {
		return storage.Page{}, fmt.Errorf("list %s: %w", prefix, err)
	}
	if o.At < 0 || o.Limit < 0 {
		return storage.Page{}, fmt.Errorf("list %s: at %d, limit %d: %w", prefix, o.At, o.Limit, storage.ErrInvalid)
	}
	state, revision, err := s.state(prefix, o.At)
	if err != nil {
		return storage.Page{}, fmt.Errorf("list %s at %d: %w", prefix, o.At, err)
	}
	page := storage.Page{Revision: revision}
	from := prefix
	if o.After != "" {
		from = max(from, o.After+"\x00")
	}
	state.AscendGreaterOrEqual(&storage.Record{Key: from}, func(r *storage.Record) bool {
		if !strings.HasPrefix(string(r.Key), string(prefix)) {
			return false
		}
		if o.Limit > 0 && len(page.Records) == o.Limit {
			page.Remaining++
		} else {
			page.Records = append(page.Records, *r)
		}
		return true
	})
	return page, nil
}

// state returns the records at revision at, or now if it is zero. Only records under prefix are
// correct. The tree must not be changed.
func (s *Store) state(prefix storage.Key, at storage.Revision) (*tree, storage.Revision, error) {
	s.mu.Lock()
	later, err := s.after(at)
	if err != nil {
		s.mu.Unlock()
		return nil, 0, err
	}
	if s.snapshot == nil {
		s.snapshot = s.now.Clone()
	}
	state, revision := s.snapshot, s.revision()
	if len(later) > 0 {
		// Clone writes to the tree it clones, so it needs mu.
		state, revision = state.Clone(), at
	}
	s.mu.Unlock()
	undo(state, prefix, later)
	return state, revision, nil
}

// undo reverts changes under prefix, the last one first.
func undo(state *tree, prefix storage.Key, changes []storage.Event) {
	for i := len(changes) - 1; i >= 0; i-- {
		event := &changes[i]
		if !strings.HasPrefix(string(event.Record.Key), string(prefix)) {
			continue
		}
		if event.Type == storage.Created {
			state.Delete(&event.Record)
		} else {
			state.ReplaceOrInsert(&event.Previous)
		}
	}
}
