package cache

import (
	"context"
	"fmt"
	"sort"

	"github.com/planekit/planekit/storage"
)

// ensure reads the records if there is no copy of them. It reports whether it has read them itself: the copy has
// every change then that was acknowledged before the call.
func (c *Cache[T]) ensure(ctx context.Context) (read bool, err error) {
	if _, ok := c.reached(); ok {
		return false, nil
	}
	select {
	case c.loading <- struct{}{}:
		defer func() { <-c.loading }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	for {
		if _, ok := c.reached(); ok {
			return read, nil
		}
		if err := c.read(ctx); err != nil {
			return false, err
		}
		read = true
	}
}

// read copies the records. If changes were missed meanwhile, the copy is not current and the caller
// must read again.
func (c *Cache[T]) read(ctx context.Context) error {
	c.mu.Lock()
	c.state, c.queue, c.missed = reading, nil, false
	c.mu.Unlock()
	page, err := c.list(ctx)
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.state, c.queue = unread, nil
		return fmt.Errorf("read %s: %w", c.config.Prefix, err)
	}
	items := make([]*Item[T], len(page.Records))
	for i, record := range page.Records {
		items[i] = c.item(record)
	}
	c.mu.Lock()
	c.reset(page.Revision)
	for _, item := range items {
		c.now.ReplaceOrInsert(item)
	}
	c.mu.Unlock()
	for c.drain(page.Revision) {
	}
	return nil
}

// drain applies the changes after revision that arrived during the read. It returns false when none
// are left; the copy is then current unless changes were missed.
func (c *Cache[T]) drain(revision storage.Revision) bool {
	c.mu.Lock()
	queue := c.queue
	c.queue = nil
	if c.missed || len(queue) == 0 {
		if !c.missed {
			c.state = current
		}
		c.waiters.wakeAll()
		c.mu.Unlock()
		return false
	}
	c.mu.Unlock()
	c.applyAll(behind(queue, revision))
	return true
}

// behind returns the changes after revision. A list may already contain the others.
func behind(changes []storage.Event, revision storage.Revision) []storage.Event {
	n := sort.Search(len(changes), func(i int) bool { return changes[i].Revision > revision })
	return changes[n:]
}

func (c *Cache[T]) list(ctx context.Context) (storage.Page, error) {
	if err := c.config.Feed.join(ctx, c); err != nil {
		return storage.Page{}, err
	}
	return c.config.Feed.config.Store.List(ctx, c.config.Prefix, storage.ListOptions{})
}

// reset empties the copy and starts a new log. mu is held.
func (c *Cache[T]) reset(revision storage.Revision) {
	c.now, c.snapshot = newTree[T](), nil
	c.first = c.end()
	c.rounds.shown = c.first
	c.log, c.base, c.revision = nil, revision, revision
	c.history.bytes, c.history.framed, c.history.framedBytes = 0, c.first, 0
	c.epoch++
	c.past = past[T]{}
	clear(c.written)
	clear(c.indexes)
}

// end returns the number of the next change. mu is held.
func (c *Cache[T]) end() int64 { return c.first + int64(len(c.log)) }

// item decodes a record, or returns the existing item of this revision.
func (c *Cache[T]) item(record storage.Record) *Item[T] {
	if have, ok := c.Peek(record.Key); ok && have.Revision == record.Revision {
		return have
	}
	var known T
	c.mu.RLock()
	if w := c.written[record.Key]; w.revision == record.Revision {
		known = w.object
	}
	c.mu.RUnlock()
	object, err := c.config.Decode(record, known)
	return &Item[T]{Record: record, Object: object, Err: err}
}

// invalidate implements member.
func (c *Cache[T]) invalidate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.missed, c.queue = true, nil
	if c.state == current {
		c.state = unread // the items stay, so that unchanged ones are not decoded again
		c.epoch++
	}
	c.waiters.wakeAll()
}

// receive implements member.
func (c *Cache[T]) receive(changes []storage.Event) {
	c.mu.Lock()
	if c.state == reading {
		c.queue = append(c.queue, changes...)
	}
	follow := c.state == current
	c.mu.Unlock()
	if !follow {
		return
	}
	c.mu.RLock()
	revision := c.revision
	c.mu.RUnlock()
	c.applyAll(behind(changes, revision))
}

// applyAll applies changes that the copy lacks. It is called by one goroutine at a time.
func (c *Cache[T]) applyAll(changes []storage.Event) {
	events := make([]*Event[T], len(changes))
	for i, change := range changes {
		events[i] = &Event[T]{Type: change.Type, Revision: change.Revision, key: change.Record.Key}
		if change.Type != storage.Deleted {
			events[i].Item = c.item(change.Record)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, event := range events {
		c.apply(event)
	}
	c.wake(events)
}

// apply applies a change to the copy and appends it to the log. mu is held.
func (c *Cache[T]) apply(event *Event[T]) {
	c.snapshot = nil
	if event.Type == storage.Deleted {
		event.Previous, _ = c.now.Delete(&Item[T]{Record: storage.Record{Key: event.key}})
	} else {
		event.Previous, _ = c.now.ReplaceOrInsert(event.Item)
	}
	for _, index := range c.indexes {
		index.remove(event.Previous)
		index.add(event.Item)
	}
	if c.written[event.key].revision <= event.Revision {
		delete(c.written, event.key)
	}
	c.revision = event.Revision
	c.remember(event)
}
