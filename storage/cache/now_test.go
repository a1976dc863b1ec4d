package cache_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/cache"
	"github.com/planekit/planekit/storage/memstore"
)

// counting is a store that says, after a while, which revision it had when it was
// asked, and counts how often it was.
type counting struct {
	storage.Store
	asked atomic.Int64
	takes time.Duration
	fails atomic.Bool
}

var errCount = errors.New("cannot count")

func (c *counting) Revision(ctx context.Context) (storage.Revision, error) {
	c.asked.Add(1)
	revision, err := storage.Now(ctx, c.Store)
	select {
	case <-time.After(c.takes):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if c.fails.Load() {
		return 0, errCount
	}
	return revision, err
}

func feedOf(t *testing.T, store storage.Store) *cache.Feed {
	t.Helper()
	feed, err := cache.NewFeed(cache.FeedConfig{Store: store, Prefix: root})
	if err != nil {
		t.Fatal(err)
	}
	return feed
}

// TestNowIsShared has a hundred ask while one is being answered.
func TestNowIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &counting{Store: memstore.New(), takes: time.Second}
		feed := feedOf(t, store)
		go feed.Now(t.Context())
		synctest.Wait()
		written := put(t, store, root+"a", "after the first has asked")
		for _, fails := range []bool{false, true} {
			store.fails.Store(fails)
			var group sync.WaitGroup
			for range 100 {
				group.Go(func() {
					now, err := feed.Now(t.Context())
					if fails != errors.Is(err, errCount) || !fails && now < written {
						t.Errorf("%d, %v; the change before was %d", now, err, written)
					}
				})
			}
			group.Wait()
		}
		// One for the first caller, one for a hundred, and two for the callers that fail: the first
		// of them finds no read in progress.
		if asked := store.asked.Load(); asked != 4 {
			t.Errorf("asked %d times", asked)
		}
	})
}

// TestNowOutlivesWhoAsked has callers that do the shared read give up: at once, and while they wait
// for their turn.
func TestNowOutlivesWhoAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &counting{Store: memstore.New(), takes: time.Second}
		feed := feedOf(t, store)
		impatient := func(patience time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if _, err := feed.Now(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("patience %v: %v", patience, err)
			}
		}
		var group sync.WaitGroup
		for _, patience := range []time.Duration{900, 100, 800} { // in ms; the second waits for its turn
			group.Go(func() { impatient(patience * time.Millisecond) })
			synctest.Wait()
			group.Go(func() {
				if _, err := feed.Now(t.Context()); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		group.Wait()
	})
}

// TestNowIsNeverOld calls Now from many goroutines while others write: a result is never older than
// a write before the call.
func TestNowIsNeverOld(t *testing.T) {
	store := memstore.New()
	feed := feedOf(t, store)
	var newest atomic.Int64
	var group sync.WaitGroup
	done := make(chan struct{})
	group.Go(func() {
		defer close(done)
		for range 2000 {
			newest.Store(int64(put(t, store, root+"a", "x")))
		}
	})
	for range 16 {
		group.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				ctx, cancel := context.WithTimeout(t.Context(), rand.N(100*time.Microsecond))
				before := newest.Load()
				now, err := feed.Now(ctx)
				if err == nil && int64(now) < before {
					t.Errorf("told %d after %d was written", now, before)
				}
				cancel()
			}
		})
	}
	group.Wait()
}

// TestFirstReadSaysNow: the first read of a cache is one list of the store, which has all changes acknowledged before.
// Only the feed's first cache, and later reads, ask for the revision.
func TestFirstReadSaysNow(t *testing.T) {
	store := &counting{Store: memstore.New()}
	feed := feedOf(t, store)
	a, b := add(t, feed, root+"a/", 0), add(t, feed, root+"b/", 0)
	for i, step := range []struct {
		cache *cache.Cache[string]
		key   storage.Key
		asked int64
	}{{a, root + "a/x", 1}, {b, root + "b/x", 1}, {b, root + "b/x", 2}} {
		put(t, store, step.key, "x")
		item, err := step.cache.Get(t.Context(), step.key)
		if err != nil || store.asked.Load() != step.asked {
			t.Errorf("step %d: %v, %v, asked %d times", i, item, err, store.asked.Load())
		}
	}
}
