package cache

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/planekit/planekit/storage"
)

// batch is the maximum number of changes that one call of Next returns.
const batch = 256

// An Event is one change. All watches share it; it must not be copied.
type Event[T any] struct {
	// Type is Created, Updated or Deleted.
	Type     storage.EventType
	Revision storage.Revision
	// Item is the item after the change; nil for Deleted. Previous is the item before the change;
	// nil for Created.
	Item, Previous *Item[T]

	key    storage.Key
	mu     sync.Mutex // guards the fields below
	frames []frame
	// old is true when frames are no longer kept.
	old bool
}

type frame struct {
	form int
	data []byte
	err  error
}

// Key returns the key of the changed record.
func (e *Event[T]) Key() storage.Key { return e.key }

// Frame returns the result of encode for the event. While the event is among the latest 1024,
// encode is called once for each form and the result is shared; later it is called each time. The
// bytes must not be changed.
func (e *Event[T]) Frame(form int, encode func() ([]byte, error)) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, f := range e.frames {
		if f.form == form {
			return f.data, f.err
		}
	}
	data, err := encode()
	if !e.old {
		e.frames = append(e.frames, frame{form, data, err})
	}
	return data, err
}

// dropFrames drops the frames and stops keeping new ones. An encoding in progress is not affected.
func (e *Event[T]) dropFrames() {
	if !e.mu.TryLock() {
		return
	}
	defer e.mu.Unlock()
	e.frames, e.old = nil, true
}

// A Watch delivers changes in the order of their revisions, each once. It must be used by one
// goroutine. It does not block other watches.
type Watch[T any] struct {
	cache *Cache[T]
	// seen is the revision up to which changes were delivered.
	seen storage.Revision
	// next is the number of the next change in the log of this epoch. Changes up to revision after
	// are skipped.
	next  int64
	epoch int
	after storage.Revision
	// field and value, if set, narrow the watch.
	field, value string
	// history is the store's own watch, used while seen is older than the log.
	history storage.Watcher
	closed  bool
}

// Watch follows the changes after revision, which may be in the future. Zero follows all changes
// that are not acknowledged yet. The caller must call Close.
func (c *Cache[T]) Watch(ctx context.Context, after storage.Revision) (*Watch[T], error) {
	if after < 0 {
		return nil, fmt.Errorf("watch %s after %d: %w", c.config.Prefix, after, storage.ErrInvalid)
	}
	if after == 0 {
		if err := c.catchUp(ctx); err != nil {
			return nil, err
		}
		after, _ = c.reached()
	} else if _, err := c.ensure(ctx); err != nil {
		return nil, err
	}
	w := &Watch[T]{cache: c, after: after, seen: after}
	if !w.join() {
		// Close ends the history, not ctx: every call of Next has a context of its own.
		history, err := c.config.Feed.config.Store.Watch(context.WithoutCancel(ctx), c.config.Prefix, after)
		if err != nil {
			return nil, err
		}
		w.history = history
	}
	w.follow(1)
	return w, nil
}

// follow adds by to the number of watches that are not narrowed, if w is one of them.
func (w *Watch[T]) follow(by int) {
	w.cache.mu.Lock()
	defer w.cache.mu.Unlock()
	w.cache.rounds.followers += by
}

// Close ends the watch.
func (w *Watch[T]) Close() {
	if w.closed {
		return
	}
	w.closed = true
	if w.history != nil {
		w.history.Close()
	}
	if w.field == "" {
		w.follow(-1)
	}
}

// Seen returns the revision up to which changes were delivered.
func (w *Watch[T]) Seen() storage.Revision { return w.seen }

// Narrow limits wake-ups to changes of items whose field, one of Config.Fields, has or had the
// value. Other changes may still be delivered. It must be called before Next.
func (w *Watch[T]) Narrow(field, value string) {
	if w.field == "" {
		w.follow(-1)
	}
	w.field, w.value = field, value
}

// join makes the watch a cursor in the log if the log reaches back far enough.
func (w *Watch[T]) join() bool {
	c := w.cache
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.state != current || w.seen < c.base {
		return false
	}
	w.next, w.epoch = c.first+int64(c.after(w.seen)), c.epoch
	w.after = w.seen // the log may not have reached it yet
	return true
}

// Next waits for at least one change. The events and the slice are shared. It fails with
// storage.ErrCompacted when the next changes are no longer available. When ctx is done, it fails
// with the context's error and may be called again.
func (w *Watch[T]) Next(ctx context.Context) ([]*Event[T], error) {
	if w.history != nil {
		return w.recall(ctx)
	}
	for {
		if events, err := w.take(); err != nil || len(events) > 0 {
			return events, err
		}
		if err := w.cache.config.Feed.readUntil(ctx, w.ready); err != nil {
			// Deliver what has arrived, and record the progress, before failing.
			if events, lost := w.take(); lost != nil || len(events) > 0 {
				return events, lost
			}
			return nil, err
		}
	}
}

// take returns the changes that are in the log.
func (w *Watch[T]) take() ([]*Event[T], error) {
	c := w.cache
	handed := c.config.Feed.delivered()
	c.mu.RLock()
	defer c.mu.RUnlock()
	if w.epoch != c.epoch || w.next < c.first {
		return nil, fmt.Errorf("watch %s after %d: %w", c.config.Prefix, w.seen, storage.ErrCompacted)
	}
	events := c.log[w.next-c.first : max(w.visible(), w.next)-c.first]
	events = events[:min(len(events), batch):min(len(events), batch)]
	w.next += int64(len(events))
	for len(events) > 0 && events[0].Revision <= w.after {
		events = events[1:]
	}
	if len(events) > 0 {
		w.seen = events[len(events)-1].Revision
	} else if w.next == c.end() {
		w.seen = max(w.seen, handed, c.revision)
	}
	return events, nil
}

// ready reports whether take has changes or an error to return; if not, it returns a channel that
// is closed when that may have changed.
func (w *Watch[T]) ready() (<-chan struct{}, bool) {
	c := w.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.epoch != c.epoch || w.next < w.visible() {
		return nil, true
	}
	return c.waiters.channel(w.field, w.value), false
}

// recall delivers the store's own history until the watch has reached the log.
func (w *Watch[T]) recall(ctx context.Context) ([]*Event[T], error) {
	c := w.cache
	for {
		changes, err := w.history.Next(ctx)
		if err != nil {
			return nil, err
		}
		var events []*Event[T]
		for _, change := range changes {
			w.seen = change.Revision
			if change.Type == storage.Progress || !strings.HasPrefix(string(change.Record.Key), string(c.config.Prefix)) {
				continue
			}
			event := &Event[T]{Type: change.Type, Revision: change.Revision, key: change.Record.Key}
			if change.Type != storage.Deleted {
				event.Item = c.item(change.Record)
			}
			if change.Type != storage.Created {
				event.Previous = c.item(change.Previous)
			}
			events = append(events, event)
		}
		if w.join() {
			w.history.Close()
			w.history = nil
		}
		if len(events) > 0 {
			return events, nil
		}
		if w.history == nil {
			return w.Next(ctx)
		}
	}
}
