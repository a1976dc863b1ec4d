package cache

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/planekit/planekit/storage"
)

// batch is the most changes that one call of Next returns.
const batch = 256

// An Event is one change. It is shared by all who follow; do not copy it.
type Event[T any] struct {
	// Type is Created, Updated or Deleted.
	Type     storage.EventType
	Revision storage.Revision
	// Item is the item after the change, nil for Deleted; Previous that before
	// it, nil for Created.
	Item, Previous *Item[T]

	key    storage.Key
	mu     sync.Mutex // guards what follows
	frames []frame
	// old says that frames are no longer kept.
	old bool
}

type frame struct {
	form int
	data []byte
	err  error
}

// Key is that of the record which changed.
func (e *Event[T]) Key() storage.Key { return e.key }

// Frame returns what encode makes of the event, which is called once for each
// form, however many ask, as long as the event is among the latest 1024, and for
// each who asks after that. The bytes are shared.
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

// dropFrames drops the frames and keeps none from now on. An event that is being encoded at this
// moment is left as it is.
func (e *Event[T]) dropFrames() {
	if !e.mu.TryLock() {
		return
	}
	defer e.mu.Unlock()
	e.frames, e.old = nil, true
}

// A Watch follows changes in the order of their revisions, each once. It is
// used by one goroutine and holds nothing that others would have to wait for.
type Watch[T any] struct {
	cache *Cache[T]
	// seen is the revision up to which changes were delivered.
	seen storage.Revision
	// next is the number of the next change in the log of this epoch; those up to
	// revision after are passed over.
	next  int64
	epoch int
	after storage.Revision
	// field and value, where they are set, are what changes must have to do with.
	field, value string
	// history is the store's own watch, while seen is older than the log.
	history storage.Watcher
	closed  bool
}

// Watch follows the changes after revision, which may be in the future; zero is
// after all that were acknowledged before the call. Close must be called.
func (c *Cache[T]) Watch(ctx context.Context, after storage.Revision) (*Watch[T], error) {
	if after < 0 {
		return nil, fmt.Errorf("watch %s after %d: %w", c.config.Prefix, after, storage.ErrInvalid)
	}
	if after == 0 {
		if err := c.catchUp(ctx); err != nil {
			return nil, err
		}
		after, _ = c.reached()
	} else if err := c.ensure(ctx); err != nil {
		return nil, err
	}
	w := &Watch[T]{cache: c, after: after, seen: after}
	if !w.join() {
		// It ends with Close; Next has contexts of its own.
		history, err := c.config.Feed.config.Store.Watch(context.WithoutCancel(ctx), c.config.Prefix, after)
		if err != nil {
			return nil, err
		}
		w.history = history
	}
	w.follow(1)
	return w, nil
}

// follow counts the watch among those that are not narrowed, or out.
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

// Seen is the revision up to which changes were delivered.
func (w *Watch[T]) Seen() storage.Revision { return w.seen }

// Narrow says that only changes of items matter whose field, one of
// Config.Fields, has or had the value. Others may be delivered, but nobody is
// woken for them. It must be called before Next.
func (w *Watch[T]) Narrow(field, value string) {
	if w.field == "" {
		w.follow(-1)
	}
	w.field, w.value = field, value
}

// join makes the watch a cursor in the log, if that reaches back far enough.
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

// Next waits for at least one change. The events are shared, the slice too. It
// fails with storage.ErrCompacted when the changes that come next are gone, and
// with the context's error when ctx is done, after which it may be called again.
func (w *Watch[T]) Next(ctx context.Context) ([]*Event[T], error) {
	if w.history != nil {
		return w.recall(ctx)
	}
	for {
		if events, err := w.take(); err != nil || len(events) > 0 {
			return events, err
		}
		if err := w.cache.config.Feed.until(ctx, w.ready); err != nil {
			// How far the watch has come is known even so.
			if events, lost := w.take(); lost != nil || len(events) > 0 {
				return events, lost
			}
			return nil, err
		}
	}
}

// take returns what the log has.
func (w *Watch[T]) take() ([]*Event[T], error) {
	c := w.cache
	handed := c.config.Feed.reached()
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

// ready reports whether take has something to say, and else what is closed when
// that changes.
func (w *Watch[T]) ready() (<-chan struct{}, bool) {
	c := w.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.epoch != c.epoch || w.next < w.visible() {
		return nil, true
	}
	return c.waiters.channel(w.field, w.value), false
}

// recall delivers the store's own history, until it has caught up with the log.
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
