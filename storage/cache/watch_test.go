package cache_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/cache"
	"github.com/planekit/planekit/storage/memstore"
)

func put(t testing.TB, store storage.Store, key storage.Key, value string) storage.Revision {
	t.Helper()
	have, err := store.Get(t.Context(), key, 0)
	change := storage.Change{Op: storage.Update, Key: key, Value: []byte(value), Previous: have.Revision}
	if errors.Is(err, storage.ErrNotFound) {
		change.Op = storage.Create
	}
	written, err := store.Commit(t.Context(), change)
	if err != nil {
		t.Fatal(err)
	}
	return written.Revision
}

func watch(t testing.TB, c *cache.Cache[string], after storage.Revision) *cache.Watch[string] {
	t.Helper()
	w, err := c.Watch(t.Context(), after)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

// TestGapless lets many follow many writers, from revisions of all ages, with
// the feed running and without. Each must see every change once, in order.
func TestGapless(t *testing.T) {
	for _, running := range []bool{true, false} {
		for _, followers := range []int{20, 120} { // without rounds and with
			t.Run(fmt.Sprint("running=", running, " followers=", followers), func(t *testing.T) { testGapless(t, running, followers) })
		}
	}
}

func testGapless(t *testing.T, running bool, followers int) {
	const writers, writes = 4, 200
	store := memstore.New()
	feed, c := start(t, store, writers*writes)
	if running {
		run(t, feed)
	}
	first := put(t, store, root+"first", "1")
	last := first + writers*writes
	var group sync.WaitGroup
	for range followers {
		group.Go(func() {
			w := watch(t, c, first)
			for next := first + 1; next <= last; {
				events, err := w.Next(t.Context())
				if err != nil {
					t.Errorf("after %d: %v", next-1, err)
					return
				}
				for _, e := range events {
					if e.Revision != next || e.Item == nil || e.Item.Revision != next {
						t.Errorf("got %d, want %d", e.Revision, next)
						return
					}
					next++
				}
			}
		})
	}
	for w := range writers {
		group.Go(func() {
			for i := range writes {
				put(t, store, root+storage.Key(fmt.Sprint(w)), fmt.Sprint(i))
			}
		})
	}
	group.Wait()
}

// TestSlowWatchIsCut lets one watch stand still until the log has passed it. It
// ends with ErrCompacted; the other has seen everything.
func TestSlowWatchIsCut(t *testing.T) {
	store := memstore.New()
	_, c := start(t, store, 10)
	slow, good := watch(t, c, 0), watch(t, c, 0)
	for i := range 100 {
		revision := put(t, store, root+"a", fmt.Sprint(i))
		events, err := good.Next(t.Context())
		if err != nil || len(events) != 1 || events[0].Revision != revision || good.Seen() != revision {
			t.Fatalf("change %d: %v %v", i, events, err)
		}
	}
	if _, err := slow.Next(t.Context()); !errors.Is(err, storage.ErrCompacted) {
		t.Errorf("the slow one: %v", err)
	}
}

// TestWatchFromBeforeTheLog begins before the cache has read anything: the
// store's history leads into the log.
func TestWatchFromBeforeTheLog(t *testing.T) {
	store := memstore.NewHistory(50)
	first := put(t, store, root+"a", "0")
	for i := range 20 {
		put(t, store, root+"a", fmt.Sprint(i))
	}
	feed, c := start(t, store, 0)
	run(t, feed)
	w := watch(t, c, first)
	for range 20 {
		put(t, store, root+"a", "x")
	}
	for next := first + 1; next <= first+40; {
		events, err := w.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if e.Revision != next || e.Previous == nil || e.Previous.Revision != next-1 {
				t.Fatalf("got %d, want %d", e.Revision, next)
			}
			next++
		}
	}
	for range 100 {
		put(t, store, root+"b", "x")
	}
	if _, err := watch(t, c, 2).Next(t.Context()); !errors.Is(err, storage.ErrCompacted) {
		t.Errorf("from a revision that is gone: %v", err)
	}
}

// TestFutureWatch begins after what the store has.
func TestFutureWatch(t *testing.T) {
	store := memstore.New()
	_, c := start(t, store, 0)
	now := put(t, store, root+"a", "0")
	w := watch(t, c, now+2)
	for range 3 {
		put(t, store, root+"a", "x")
	}
	for {
		events, err := w.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(events) > 0 {
			if events[0].Revision != now+3 {
				t.Errorf("got %d, want %d", events[0].Revision, now+3)
			}
			return
		}
	}
}

// TestForgottenChanges makes the store forget changes before they were read. The
// cache reads everything again, keeps what has not changed, and ends the watch.
func TestForgottenChanges(t *testing.T) {
	store := memstore.NewHistory(5)
	_, c := start(t, store, 0)
	put(t, store, root+"same", "1")
	before, err := c.Current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w := watch(t, c, 0)
	var last storage.Revision
	for i := range 50 {
		last = put(t, store, root+"a", fmt.Sprint(i))
	}
	after, err := c.Current(t.Context())
	if err != nil || after.Revision != last || after.Len() != 2 {
		t.Fatalf("%d records at %d, want 2 at %d: %v", after.Len(), after.Revision, last, err)
	}
	if _, err := w.Next(t.Context()); !errors.Is(err, storage.ErrCompacted) {
		t.Errorf("the watch: %v", err)
	}
	for was := range before.All(root+"same", "") {
		for is := range after.All(root+"same", "") {
			if was != is {
				t.Error("what has not changed was decoded again")
			}
		}
	}
	put(t, store, root+"a", "again")
	if events, err := watch(t, c, last).Next(t.Context()); err != nil || len(events) != 1 {
		t.Errorf("a new watch: %v %v", events, err)
	}
}

// TestQuietWatchKnowsHowFarItIs changes other keys only.
func TestQuietWatchKnowsHowFarItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		feed, c := start(t, store, 0)
		ctx, cancel := context.WithCancel(t.Context())
		go feed.Run(ctx)
		w := watch(t, c, 0)
		last := put(t, store, "/r/other/a", "x")
		soon, stop := context.WithTimeout(ctx, time.Second)
		defer stop()
		if events, err := w.Next(soon); !errors.Is(err, context.DeadlineExceeded) || w.Seen() != last {
			t.Errorf("%v %v, seen %d, want %d", events, err, w.Seen(), last)
		}
		cancel()
		synctest.Wait()
	})
}

// TestNarrowWatch has many changes pass that do not concern a watch. It is hardly
// ever woken for them, sees all that do concern it, and is not cut off for
// having slept.
func TestNarrowWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const history, others = 100, 1000
		store := memstore.New()
		feed, c := start(t, store, history)
		ctx, cancel := context.WithCancel(t.Context())
		go feed.Run(ctx)
		w := watch(t, c, 0)
		w.Narrow("last", "7>")
		var seen []string
		woken := 0
		go func() {
			for {
				events, err := w.Next(ctx)
				if err != nil {
					if ctx.Err() == nil {
						t.Error(err)
					}
					return
				}
				woken++
				for _, e := range events {
					if e.Key() == root+"mine" {
						seen = append(seen, e.Type.String()+" "+e.Item.Object)
					}
				}
			}
		}()
		synctest.Wait()
		for i := range others {
			put(t, store, root+"other", fmt.Sprint(i*10))
			synctest.Wait()
		}
		for _, value := range []string{"17", "18", "19", "27"} { // enters, leaves, is away, enters
			put(t, store, root+"mine", value)
			synctest.Wait()
		}
		if want := "created <17>,updated <18>,updated <19>,updated <27>"; strings.Join(seen, ",") != want || woken > others/(history/4)+5 {
			t.Errorf("woken %d times for %v, want %s", woken, seen, want)
		}
		cancel()
		synctest.Wait()
	})
}

func TestFrameIsMadeOnce(t *testing.T) {
	store := memstore.New()
	_, c := start(t, store, 0)
	first, second := watch(t, c, 0), watch(t, c, 0)
	put(t, store, root+"a", "x")
	one, err := first.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	two, err := second.Next(t.Context())
	if err != nil || one[0] != two[0] {
		t.Fatalf("Next() of two watches = %v and %v, %v, want the same event", one, two, err)
	}
	var made atomic.Int32
	var group sync.WaitGroup
	for i := range 100 {
		group.Go(func() {
			form := i % 2
			data, err := one[0].Frame(form, func() ([]byte, error) {
				made.Add(1)
				return fmt.Append(nil, form), nil
			})
			if err != nil || string(data) != fmt.Sprint(form) {
				t.Errorf("Frame(%d) = %s, %v, want %d", form, data, err, form)
			}
		})
	}
	group.Wait()
	if made.Load() != 2 {
		t.Errorf("made %d times", made.Load())
	}
}
