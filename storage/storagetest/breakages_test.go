package storagetest

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/planekit/planekit/storage"
)

// A breakage and the checks that must notice it.
type breakage struct {
	checks string
	breaks func(*broken)
}

func brokenStores() map[string]breakage {
	all := map[string]breakage{}
	for _, some := range []map[string]breakage{brokenCommits(), brokenAnswers(), brokenReads(), brokenRevisions(), brokenTTLs(), brokenWatches()} {
		for name, b := range some {
			all[name] = b
		}
	}
	return all
}

func brokenCommits() map[string]breakage {
	return map[string]breakage{
		"create overwrites": {"create, create once, model, history", func(b *broken) {
			b.commit = func(ctx context.Context, c storage.Change) (storage.Record, error) {
				r, err := b.Store.Commit(ctx, c)
				if errors.Is(err, storage.ErrExists) {
					c.Op, c.Previous = storage.Update, r.Revision
					return b.Store.Commit(ctx, c)
				}
				return r, err
			}
		}},
		"create hides what exists": {"create", func(b *broken) {
			b.commit = func(ctx context.Context, c storage.Change) (storage.Record, error) {
				r, err := b.Store.Commit(ctx, c)
				if errors.Is(err, storage.ErrExists) {
					r = storage.Record{}
				}
				return r, err
			}
		}},
		"guards are ignored": {"update, delete, counter, linearizable, model, history", func(b *broken) {
			b.commit = func(ctx context.Context, c storage.Change) (storage.Record, error) {
				return b.unguarded(ctx, c)
			}
		}},
		// Correct without concurrency: compares, and then sets.
		"guards are not atomic": {"counter", func(b *broken) {
			b.commit = func(ctx context.Context, c storage.Change) (storage.Record, error) {
				current, err := b.Store.Get(ctx, c.Key, 0)
				if c.Op != storage.Update || err != nil || current.Revision != c.Previous {
					return b.Store.Commit(ctx, c)
				}
				for range 10 {
					runtime.Gosched()
				}
				return b.unguarded(ctx, c)
			}
		}},
	}
}

func brokenAnswers() map[string]breakage {
	return map[string]breakage{
		"conflicts without the record": {"update, delete, model", func(b *broken) {
			b.commit = func(ctx context.Context, c storage.Change) (storage.Record, error) {
				r, err := b.Store.Commit(ctx, c)
				if errors.Is(err, storage.ErrConflict) {
					err = &storage.ConflictError{Key: c.Key, Want: c.Previous}
				}
				return r, err
			}
		}},
		"refuses for no reason": {"update, delete, counter, model, history", func(b *broken) {
			b.commit = func(ctx context.Context, c storage.Change) (storage.Record, error) {
				if current, err := b.Store.Get(ctx, c.Key, 0); err == nil && c.Op != storage.Create && c.Previous == current.Revision {
					return storage.Record{}, &storage.ConflictError{Key: c.Key, Current: current, Want: c.Previous}
				}
				return b.Store.Commit(ctx, c)
			}
		}},
		"deletes nothing": {"delete, model, history", func(b *broken) {
			b.commit = func(ctx context.Context, c storage.Change) (storage.Record, error) {
				current, err := b.Store.Get(ctx, c.Key, 0)
				if c.Op != storage.Delete || err != nil || c.Previous != current.Revision {
					return b.Store.Commit(ctx, c)
				}
				r, err := b.Store.Commit(ctx, storage.Change{Op: storage.Update, Key: c.Key, Value: current.Value, Previous: current.Revision})
				return r, err
			}
		}},
		"makes lost changes twice": {"history", func(b *broken) {
			b.commit = func(ctx context.Context, c storage.Change) (storage.Record, error) {
				r, err := b.Store.Commit(ctx, c)
				if err == nil && c.Op == storage.Update {
					// The answer is of the first time.
					again := c
					again.Previous = r.Revision
					_, _ = b.Store.Commit(ctx, again)
				}
				return r, err
			}
		}},
		// The caller that gives up is one whose answer is lost.
		"returns the refusal of a repetition": {"interrupted", func(b *broken) {
			b.commit = func(ctx context.Context, c storage.Change) (storage.Record, error) {
				r, err := b.Store.Commit(ctx, c)
				if by, _ := ctx.Deadline(); err == nil && time.Until(by) < time.Second {
					return b.Store.Commit(ctx, c)
				}
				return r, err
			}
		}},
		"conflicts without data": {"update", func(b *broken) {
			b.commit = func(ctx context.Context, c storage.Change) (storage.Record, error) {
				r, err := b.Store.Commit(ctx, c)
				if errors.Is(err, storage.ErrConflict) {
					err = storage.ErrConflict
				}
				return r, err
			}
		}},
		"created is forgotten": {"update, model", func(b *broken) {
			b.commit = func(ctx context.Context, c storage.Change) (storage.Record, error) {
				r, err := b.Store.Commit(ctx, c)
				r.Created = r.Revision
				return r, err
			}
		}},
		"accepts anything": {"invalid", func(b *broken) {
			b.commit = func(ctx context.Context, c storage.Change) (storage.Record, error) {
				r, err := b.Store.Commit(ctx, c)
				if errors.Is(err, storage.ErrInvalid) {
					err = nil
				}
				return r, err
			}
		}},
		"keeps the caller's bytes": {"ownership", func(b *broken) {
			b.commit = func(ctx context.Context, c storage.Change) (storage.Record, error) {
				r, err := b.Store.Commit(ctx, c)
				r.Value = c.Value
				return r, err
			}
		}},
		"loses replies": {"create", func(b *broken) {
			b.commit = LoseReply(b.Store, nil).Commit
		}},
		"compacts nothing": {"compaction", func(b *broken) {
			b.get = func(ctx context.Context, key storage.Key, at storage.Revision) (storage.Record, error) {
				r, err := b.Store.Get(ctx, key, at)
				if errors.Is(err, storage.ErrCompacted) {
					return b.Store.Get(ctx, key, 0)
				}
				return r, err
			}
		}},
	}
}

// unguarded updates and deletes whatever is there.
func (b *broken) unguarded(ctx context.Context, c storage.Change) (storage.Record, error) {
	for {
		r, err := b.Store.Commit(ctx, c)
		var conflict *storage.ConflictError
		if !errors.As(err, &conflict) {
			return r, err
		}
		c.Previous = conflict.Current.Revision
	}
}

func brokenReads() map[string]breakage {
	lists := func(change func(*storage.ListOptions, *storage.Page)) func(*broken) {
		return func(b *broken) {
			b.list = func(ctx context.Context, prefix storage.Key, o storage.ListOptions) (storage.Page, error) {
				change(&o, &storage.Page{})
				page, err := b.Store.List(ctx, prefix, o)
				if err == nil {
					change(&storage.ListOptions{}, &page)
				}
				return page, err
			}
		}
	}
	return map[string]breakage{
		"get ignores the revision": {"get at a revision, model, compaction", func(b *broken) {
			b.get = func(ctx context.Context, key storage.Key, _ storage.Revision) (storage.Record, error) {
				return b.Store.Get(ctx, key, 0)
			}
		}},
		"get is stale": {"update, counter, linearizable, history", func(b *broken) {
			var first sync.Map
			b.get = func(ctx context.Context, key storage.Key, at storage.Revision) (storage.Record, error) {
				r, err := b.Store.Get(ctx, key, at)
				if err == nil {
					old, _ := first.LoadOrStore(key, r)
					return old.(storage.Record), nil
				}
				return r, err
			}
		}},
		"get ignores its context": {"cancelled", func(b *broken) {
			b.get = func(_ context.Context, key storage.Key, at storage.Revision) (storage.Record, error) {
				return b.Store.Get(context.Background(), key, at)
			}
		}},
		"list ignores the revision": {"list at a revision, list pages, model", lists(func(o *storage.ListOptions, _ *storage.Page) { o.At = 0 })},
		"list ignores after":        {"list pages, model", lists(func(o *storage.ListOptions, _ *storage.Page) { o.After = "" })},
		"list ignores the limit":    {"list pages, model", lists(func(o *storage.ListOptions, _ *storage.Page) { o.Limit = 0 })},
		"list starts at after": {"list pages, model", lists(func(o *storage.ListOptions, _ *storage.Page) {
			if n := len(o.After); n > 0 {
				o.After = o.After[:n-1] + storage.Key(o.After[n-1]-1) + "\xff"
			}
		})},
		"list counts wrongly":     {"list pages", lists(func(_ *storage.ListOptions, p *storage.Page) { p.Remaining = min(p.Remaining, 1) })},
		"list is unordered":       {"list, list pages", lists(func(_ *storage.ListOptions, p *storage.Page) { slices.Reverse(p.Records) })},
		"list has no revision":    {"list", lists(func(_ *storage.ListOptions, p *storage.Page) { p.Revision = 0 })},
		"list claims the future":  {"watch gapless", lists(func(_ *storage.ListOptions, p *storage.Page) { p.Revision++ })},
		"list is behind watches":  {"read what was watched", lists(func(_ *storage.ListOptions, p *storage.Page) { p.Revision-- })},
		"list misses the last":    {"list, history", lists(func(_ *storage.ListOptions, p *storage.Page) { p.Records = p.Records[:len(p.Records)/2] })},
		"list mixes two readings": {"linearizable", tornList},
	}
}

// tornList reads its first half earlier than its second.
func tornList(b *broken) {
	b.list = func(ctx context.Context, prefix storage.Key, o storage.ListOptions) (storage.Page, error) {
		first, err := b.Store.List(ctx, prefix, o)
		if err != nil || len(first.Records) < 2 || o.At != 0 {
			return first, err
		}
		for range 10 {
			runtime.Gosched()
		}
		second, err := b.Store.List(ctx, prefix, o)
		if err == nil && len(first.Records) == len(second.Records) {
			copy(second.Records, first.Records[:1])
		}
		return second, err
	}
}

func brokenRevisions() map[string]breakage {
	adds := func(n storage.Revision) func(*broken) {
		return func(b *broken) {
			b.now = func(ctx context.Context) (storage.Revision, error) {
				r, err := b.Store.Revision(ctx)
				return r + n, err
			}
		}
	}
	return map[string]breakage{
		"revision is behind":      {"revision", adds(-1)},
		"revision is not reached": {"revision", adds(1)},
		"revision ignores its context": {"revision", func(b *broken) {
			b.now = func(context.Context) (storage.Revision, error) { return b.Store.Revision(context.Background()) }
		}},
		"revision is of the caller's last look": {"revision", func(b *broken) {
			var before storage.Revision
			b.now = func(ctx context.Context) (storage.Revision, error) {
				now, err := b.Store.Revision(ctx)
				was := before
				before = now
				if was == 0 {
					was = now
				}
				return was, err
			}
		}},
	}
}

func brokenTTLs() map[string]breakage {
	commits := func(change func(*storage.Change)) func(*broken) {
		return func(b *broken) {
			b.commit = func(ctx context.Context, c storage.Change) (storage.Record, error) {
				change(&c)
				return b.Store.Commit(ctx, c)
			}
		}
	}
	return map[string]breakage{
		"ttl is ignored": {"ttl", commits(func(c *storage.Change) { c.TTL = 0 })},
		"ttl is ignored by updates": {"ttl", commits(func(c *storage.Change) {
			if c.Op == storage.Update {
				c.TTL = 0
			}
		})},
		"ttl is kept by updates": {"ttl", func(b *broken) {
			first := map[storage.Key]time.Duration{}
			commits(func(c *storage.Change) {
				if c.Op == storage.Create && c.TTL > 0 {
					first[c.Key] = c.TTL
				} else if c.Op == storage.Update && c.TTL == 0 {
					c.TTL = first[c.Key]
				}
			})(b)
		}},
		"ttl comes late": {"ttl", commits(func(c *storage.Change) { c.TTL *= 60 })},
		"ttl comes early": {"ttl", func(b *broken) {
			commits(func(c *storage.Change) {
				if c.TTL == time.Second {
					c.TTL = 0
					time.AfterFunc(time.Second/2, func() { b.drop(c.Key) })
				}
			})(b)
		}},
		"ttl goes by without an event": {"ttl", func(b *broken) {
			b.events = func(events []storage.Event) []storage.Event {
				return slices.DeleteFunc(events, func(e storage.Event) bool {
					return e.Type == storage.Deleted && strings.HasPrefix(string(e.Record.Key), "/t/")
				})
			}
		}},
		"ttl is a number of nanoseconds": {"invalid", commits(func(c *storage.Change) { c.TTL = c.TTL.Truncate(time.Second) })},
	}
}

// drop deletes key, if it is there.
func (b *broken) drop(key storage.Key) {
	if r, err := b.Store.Get(context.Background(), key, 0); err == nil {
		_, _ = b.unguarded(context.Background(), storage.Change{Op: storage.Delete, Key: key, Previous: r.Revision})
	}
}

func brokenWatches() map[string]breakage {
	events := func(change func([]storage.Event) []storage.Event) func(*broken) {
		return func(b *broken) { b.events = change }
	}
	each := func(change func(*storage.Event)) func(*broken) {
		return events(func(events []storage.Event) []storage.Event {
			for i := range events {
				change(&events[i])
			}
			return events
		})
	}
	return map[string]breakage{
		"watch drops": {"watch gapless, watch slowly, model", func(b *broken) {
			var n atomic.Int64
			b.events = func(events []storage.Event) []storage.Event {
				return slices.DeleteFunc(events, func(storage.Event) bool { return n.Add(1)%20 == 0 })
			}
		}},
		"watch repeats": {"watch, watch gapless, model", events(func(events []storage.Event) []storage.Event {
			if len(events) == 0 {
				return nil
			}
			return append(events, events[len(events)-1])
		})},
		"watch reorders": {"watch, watch gapless, model", events(func(events []storage.Event) []storage.Event {
			slices.Reverse(events)
			return events
		})},
		"watch has no previous": {"watch, model", each(func(e *storage.Event) { e.Previous = storage.Record{} })},
		"watch calls all updated": {"watch, watch prefix, model", each(func(e *storage.Event) {
			if e.Type == storage.Created {
				e.Type = storage.Updated
			}
		})},
		"watch is silent": {"watch, watch from now, watch from the future", events(func([]storage.Event) []storage.Event { return nil })},
		"watch has no progress": {"progress", events(func(events []storage.Event) []storage.Event {
			return slices.DeleteFunc(slices.Clone(events), func(e storage.Event) bool { return e.Type == storage.Progress })
		})},
		"progress is ahead of itself": {"progress", each(func(e *storage.Event) {
			if e.Type == storage.Progress {
				e.Revision++
			}
		})},
		"progress overtakes": {"progress", events(func(events []storage.Event) []storage.Event {
			return slices.DeleteFunc(slices.Clone(events), func(e storage.Event) bool { return len(events) > 1 && e.Type != storage.Progress })
		})},
		"watch shows the deleted value": {"watch", each(func(e *storage.Event) {
			if e.Type == storage.Deleted {
				e.Record.Value = e.Previous.Value
			}
		})},
		"watch ignores the prefix": {"watch prefix", watches(func(b *broken, ctx context.Context, _ storage.Key, after storage.Revision) (storage.Watcher, error) {
			return b.Store.Watch(ctx, "", after)
		})},
		"watch starts at its revision": {"watch", watches(func(b *broken, ctx context.Context, prefix storage.Key, after storage.Revision) (storage.Watcher, error) {
			return b.Store.Watch(ctx, prefix, max(after-1, 1))
		})},
		"watch from zero is from the start": {"watch from now", watches(func(b *broken, ctx context.Context, prefix storage.Key, after storage.Revision) (storage.Watcher, error) {
			return b.Store.Watch(ctx, prefix, max(after, 1))
		})},
		"watch from the future is from now": {"watch from the future", watches(func(b *broken, ctx context.Context, prefix storage.Key, after storage.Revision) (storage.Watcher, error) {
			page, err := b.Store.List(ctx, "", storage.ListOptions{Limit: 1})
			if err != nil {
				return nil, err
			}
			return b.Store.Watch(ctx, prefix, min(after, page.Revision))
		})},
		"watch from now begins with next": {"watch from now", func(b *broken) {
			b.watch = func(ctx context.Context, prefix storage.Key, after storage.Revision) (storage.Watcher, error) {
				return &lateWatcher{start: func() (storage.Watcher, error) { return b.Store.Watch(ctx, prefix, after) }}, nil
			}
		}},
		"watch cannot be closed": {"watch close", func(b *broken) {
			b.watch = func(ctx context.Context, prefix storage.Key, after storage.Revision) (storage.Watcher, error) {
				w, err := b.Store.Watch(ctx, prefix, after)
				return endlessWatcher{w}, err
			}
		}},
		"watch outlives its context": {"watch contexts", watches(func(b *broken, ctx context.Context, prefix storage.Key, after storage.Revision) (storage.Watcher, error) {
			return b.Store.Watch(context.WithoutCancel(ctx), prefix, after)
		})},
		"watch ends with the context of next": {"watch contexts", func(b *broken) {
			b.watch = FailAfter(b.Store, 2, context.DeadlineExceeded).Watch
		}},
	}
}

func watches(watch func(*broken, context.Context, storage.Key, storage.Revision) (storage.Watcher, error)) func(*broken) {
	return func(b *broken) {
		b.watch = func(ctx context.Context, prefix storage.Key, after storage.Revision) (storage.Watcher, error) {
			return watch(b, ctx, prefix, after)
		}
	}
}

// A lateWatcher begins when it is first asked.
type lateWatcher struct {
	start   func() (storage.Watcher, error)
	watcher storage.Watcher
}

func (w *lateWatcher) Next(ctx context.Context) ([]storage.Event, error) {
	if w.watcher == nil {
		var err error
		if w.watcher, err = w.start(); err != nil {
			return nil, err
		}
	}
	return w.watcher.Next(ctx)
}

func (w *lateWatcher) Close() {}

// An endlessWatcher does not end when it is closed.
type endlessWatcher struct{ storage.Watcher }

func (endlessWatcher) Close() {}
