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

// remembered is how many states that were asked for are kept. A state shares
// all but what has changed with its neighbours.
const remembered = 64

// Snapshot is the state at one revision. It is immutable.
type Snapshot[T any] struct {
	// Revision is what the state is as of. A Watch after it misses nothing.
	Revision storage.Revision

	tree *tree[T]
}

// All returns the items whose keys begin with prefix, in order; those behind
// after where it is not empty.
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

// Len is the number of items.
func (s Snapshot[T]) Len() int { return s.tree.Len() }

// Current returns a state with every change that was acknowledged before the
// call.
func (c *Cache[T]) Current(ctx context.Context) (Snapshot[T], error) {
	if err := c.catchUp(ctx); err != nil {
		return Snapshot[T]{}, err
	}
	return c.Latest(), nil
}

// Latest returns the newest state that the copy has; after Wait, one at least as
// new as was waited for.
func (c *Cache[T]) Latest() Snapshot[T] {
	handed := c.config.Feed.reached()
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

// At returns the state at revision, which the copy must have reached.
// storage.ErrCompacted says that the copy does not remember it.
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

// after returns the index of the first change in the log after revision. mu is
// held.
func (c *Cache[T]) after(revision storage.Revision) int {
	return sort.Search(len(c.log), func(i int) bool { return c.log[i].Revision > revision })
}

// past remembers states, the oldest of which goes first.
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

// forget drops the states before revision.
func (p *past[T]) forget(revision storage.Revision) {
	p.order = slices.DeleteFunc(p.order, func(r storage.Revision) bool {
		if r < revision {
			delete(p.trees, r)
		}
		return r < revision
	})
}
