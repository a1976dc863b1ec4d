package cache

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sort"
	"strings"

	"github.com/planekit/planekit/storage"
)

// remembered is the number of snapshots that are kept. Snapshots share the parts that did not
// change.
const remembered = 64

// Snapshot is the state of a cache at one revision. It is immutable.
type Snapshot[T any] struct {
	// Revision is the revision of the state. A Watch after it misses no change.
	Revision storage.Revision

	tree *tree[T]
}

// All returns the items whose keys begin with prefix, in key order. If after is not empty, only
// items with greater keys are returned.
func (s Snapshot[T]) All(prefix, after storage.Key) iter.Seq[*Item[T]] {
	from := prefix
	if after != "" {
		from = max(from, after+"\x00")
	}
	return func(yield func(*Item[T]) bool) {
		s.tree.AscendGreaterOrEqual(&Item[T]{Record: storage.Record{Key: from}}, func(item *Item[T]) bool {
			return strings.HasPrefix(string(item.Key), string(prefix)) && yield(item)
		})
	}
}

// Get returns the item of key.
func (s Snapshot[T]) Get(key storage.Key) (*Item[T], bool) {
	return s.tree.Get(&Item[T]{Record: storage.Record{Key: key}})
}

// Len returns the number of items.
func (s Snapshot[T]) Len() int { return s.tree.Len() }

// Current returns a snapshot that contains every change acknowledged before the call.
func (c *Cache[T]) Current(ctx context.Context) (Snapshot[T], error) {
	if err := c.catchUp(ctx); err != nil {
		return Snapshot[T]{}, err
	}
	return c.Latest(), nil
}

// Latest returns the newest snapshot of the copy. After Wait, it is at least as new as the revision
// waited for.
func (c *Cache[T]) Latest() Snapshot[T] {
	handed := c.config.Feed.delivered()
	c.mu.Lock()
	defer c.mu.Unlock()
	return Snapshot[T]{max(handed, c.revision), c.newest()}
}

// newest returns the state at c.revision. mu is held.
func (c *Cache[T]) newest() *tree[T] {
	if c.snapshot == nil {
		c.snapshot = c.now.Clone()
		c.past.keep(c.revision, c.snapshot)
	}
	return c.snapshot
}

// At returns the snapshot at revision, which the copy must have reached. It fails with
// storage.ErrCompacted if the state is no longer kept.
func (c *Cache[T]) At(revision storage.Revision) (Snapshot[T], error) {
	have, ok := c.reached()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !ok || c.state != current || revision < c.base:
		return Snapshot[T]{}, fmt.Errorf("%s at %d: %w", c.config.Prefix, revision, storage.ErrCompacted)
	case revision > max(have, c.revision):
		return Snapshot[T]{}, fmt.Errorf("%s at %d: %w", c.config.Prefix, revision, storage.ErrFuture)
	case revision >= c.revision:
		return Snapshot[T]{revision, c.newest()}, nil
	}
	n := c.after(revision)
	last := c.base
	if n > 0 {
		last = c.log[n-1].Revision
	}
	if t, ok := c.past.trees[last]; ok {
		return Snapshot[T]{revision, t}, nil
	}
	t := c.newest().Clone()
	for _, event := range slices.Backward(c.log[n:]) {
		if event.Previous != nil {
			t.ReplaceOrInsert(event.Previous)
		} else {
			t.Delete(event.Item)
		}
	}
	c.past.keep(last, t)
	return Snapshot[T]{revision, t}, nil
}

// after returns the index in the log of the first change after revision. mu is held.
func (c *Cache[T]) after(revision storage.Revision) int {
	return sort.Search(len(c.log), func(i int) bool { return c.log[i].Revision > revision })
}

// past keeps snapshots and drops the oldest first.
type past[T any] struct {
	trees map[storage.Revision]*tree[T]
	order []storage.Revision
}

func (p *past[T]) keep(revision storage.Revision, t *tree[T]) {
	if p.trees == nil {
		p.trees = map[storage.Revision]*tree[T]{}
	}
	if _, ok := p.trees[revision]; !ok {
		p.order = append(p.order, revision)
	}
	p.trees[revision] = t
	if len(p.order) > remembered {
		delete(p.trees, p.order[0])
		p.order = p.order[1:]
	}
}

// forget drops the snapshots before revision.
func (p *past[T]) forget(revision storage.Revision) {
	p.order = slices.DeleteFunc(p.order, func(r storage.Revision) bool {
		if r < revision {
			delete(p.trees, r)
		}
		return r < revision
	})
}
