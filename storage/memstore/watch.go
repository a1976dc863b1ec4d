package memstore

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/planekit/planekit/storage"
)

const (
	// batch is the maximum number of changes that one call of Next examines.
	batch = 1000
	// progressEvery is the number of unrelated changes after which a watcher reports its progress,
	// so that its revision stays within the history while its keys do not change.
	progressEvery = 1000
)

// A watcher is a cursor in the store's log.
type watcher struct {
	store  *Store
	prefix string
	outer  context.Context // of Watch
	close  func()
	closed chan struct{}
	// wake has at most one message: it is sent by the goroutine that removes the watcher from
	// store.waiting.
	wake chan struct{}

	// read is the revision up to which the log was examined; told is the last revision reported to
	// the caller. They belong to Next, and are guarded by store.mu while the watcher is in
	// store.waiting.
	read, told storage.Revision
	// asked is the revision that RequestProgress wants reported. store.mu guards it.
	asked storage.Revision
	err   error // how the watch ended
}

// Watch implements [storage.Store].
func (s *Store) Watch(ctx context.Context, prefix storage.Key, after storage.Revision) (storage.Watcher, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("watch %s: %w", prefix, err)
	}
	if after < 0 {
		return nil, fmt.Errorf("watch %s after %d: %w", prefix, after, storage.ErrInvalid)
	}
	if after == 0 {
		s.mu.RLock()
		after = s.revision()
		s.mu.RUnlock()
	}
	closed := make(chan struct{})
	return &watcher{
		store:  s,
		prefix: string(prefix),
		outer:  ctx,
		close:  sync.OnceFunc(func() { close(closed) }),
		closed: closed,
		wake:   make(chan struct{}, 1),
		read:   after,
		told:   after,
	}, nil
}

// Close implements [storage.Watcher].
func (w *watcher) Close() { w.close() }

// Next implements [storage.Watcher].
func (w *watcher) Next(ctx context.Context) ([]storage.Event, error) {
	for w.err == nil {
		if err := w.ended(); err != nil {
			return nil, w.fail(err)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		changes, asked, err := w.store.next(w)
		if err != nil {
			return nil, w.fail(err)
		}
		// Otherwise w waits, and a compaction may move w.read.
		if len(changes) > 0 || asked > w.told {
			if events := w.take(changes, asked); len(events) > 0 {
				return events, nil
			}
		}
		if len(changes) > 0 {
			continue
		}
		if err := w.wait(ctx); err != nil {
			return nil, err
		}
	}
	return nil, w.err
}

// RequestProgress implements [storage.Progresser].
func (w *watcher) RequestProgress(ctx context.Context) error {
	err := w.ended()
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("progress of watch %s: %w", w.prefix, err)
	}
	s := w.store
	s.mu.Lock()
	defer s.mu.Unlock()
	w.asked = s.revision()
	if _, waiting := s.waiting[w]; waiting && w.asked > w.told {
		delete(s.waiting, w)
		w.wake <- struct{}{}
	}
	return nil
}

// next returns the changes to examine and the revision that RequestProgress asked for. If there are
// neither, it has added w to the waiting watchers.
func (s *Store) next(w *watcher) (changes []storage.Event, asked storage.Revision, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case w.read < s.compacted:
		return nil, 0, storage.ErrCompacted
	case w.read < s.revision():
		changes = s.log[w.read-s.compacted:]
		changes = changes[:min(len(changes), batch)]
	case w.asked <= w.told:
		s.waiting[w] = struct{}{}
	}
	return changes, w.asked, nil
}

// wait returns nil when the watcher should call next again.
func (w *watcher) wait(ctx context.Context) error {
	var err error
	select {
	case <-w.wake:
		return nil
	case <-w.closed:
	case <-w.outer.Done():
	case <-ctx.Done():
		err = ctx.Err()
	}
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	if _, waiting := w.store.waiting[w]; waiting {
		delete(w.store.waiting, w)
	} else {
		<-w.wake
	}
	return err
}

// take returns the events that concern the watch, and a progress event if one was requested or is
// due.
func (w *watcher) take(changes []storage.Event, asked storage.Revision) []storage.Event {
	var events []storage.Event
	for _, event := range changes {
		if strings.HasPrefix(string(event.Record.Key), w.prefix) {
			events = append(events, event)
			w.told = event.Revision
		}
	}
	if n := len(changes); n > 0 {
		w.read = changes[n-1].Revision
	}
	if w.read-w.told >= progressEvery || asked > w.told && w.read >= asked {
		events = append(events, storage.Event{Type: storage.Progress, Revision: w.read})
		w.told = w.read
	}
	return events
}

// ended returns why the watch was ended from outside, or nil.
func (w *watcher) ended() error {
	select {
	case <-w.closed:
		return storage.ErrClosed
	default:
		return w.outer.Err()
	}
}

func (w *watcher) fail(err error) error {
	w.err = fmt.Errorf("watch %s after %d: %w", w.prefix, w.read, err)
	return w.err
}
