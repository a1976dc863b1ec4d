package cache_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/storage/cache"
	"github.com/planekit/planekit/storage/memstore"
)

// watchers is a cache with many watches. arrivals counts the changes that each has seen by a time,
// and calls the times that it was woken for them.
type watchers struct {
	arrivals map[time.Duration]int
	calls    int
}

// follow has n watches of c count what they are shown until ctx is done. All
// that happens meanwhile happens in a bubble, where goroutines do not really run
// at once; each sends what it has seen.
func (w *watchers) follow(ctx context.Context, t *testing.T, c *cache.Cache[string], n int) (stop func()) {
	begin := time.Now()
	shown := make(chan int)
	for range n {
		one := watch(t, c, 0)
		go func() {
			for {
				events, err := one.Next(ctx)
				if err != nil {
					return
				}
				shown <- len(events)
			}
		}()
	}
	done := make(chan struct{})
	go func() {
		for {
			select {
			case n := <-shown:
				w.arrivals[time.Since(begin)] += n
				w.calls++
			case <-done:
				return
			}
		}
	}()
	return func() { close(done) }
}

// TestChangesAreShownInRounds writes ten changes within one round to a hundred watches: the first
// is delivered at once, the others together, and one that comes later at once again.
func TestChangesAreShownInRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const watches = 100
		store := memstore.New()
		feed, c := start(t, store, 0)
		ctx, cancel := context.WithCancel(t.Context())
		go feed.Run(ctx)
		synctest.Wait()
		w := &watchers{arrivals: map[time.Duration]int{}}
		stop := w.follow(ctx, t, c, watches)
		narrow := watch(t, c, 0)
		narrow.Narrow("last", "9>")
		synctest.Wait()
		for i := range 10 {
			put(t, store, root+"a", fmt.Sprint(i))
			synctest.Wait()
		}
		// A caller that waits for this one change does not wait for a round.
		begin := time.Now()
		for last := ""; last != "<9>"; {
			events, err := narrow.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			last = events[len(events)-1].Item.Object
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("the narrow watch waited %v", took)
		}
		time.Sleep(10 * time.Millisecond)
		put(t, store, root+"a", "late")
		synctest.Wait()
		want := map[time.Duration]int{0: watches, 2 * time.Millisecond: 9 * watches, 10 * time.Millisecond: watches}
		if fmt.Sprint(w.arrivals) != fmt.Sprint(want) || w.calls != 3*watches {
			t.Errorf("woken %d times, shown %v, want %v", w.calls, w.arrivals, want)
		}
		cancel()
		synctest.Wait()
		stop()
		synctest.Wait()
	})
}

// TestNothingWaitsForARoundAfterRun ends Run in the middle of a round: pending changes are
// delivered although no goroutine reads the store any more.
func TestNothingWaitsForARoundAfterRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const watches = 100
		store := memstore.New()
		feed, c := start(t, store, 0)
		running, end := context.WithCancel(t.Context())
		go feed.Run(running)
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		w := &watchers{arrivals: map[time.Duration]int{}}
		stop := w.follow(ctx, t, c, watches)
		synctest.Wait()
		for i := range 2 {
			put(t, store, root+"a", fmt.Sprint(i))
			synctest.Wait()
		}
		end()
		synctest.Wait()
		if w.arrivals[0] != 2*watches {
			t.Errorf("shown %v, want all at once", w.arrivals)
		}
		cancel()
		synctest.Wait()
		stop()
		synctest.Wait()
		time.Sleep(time.Second) // for the round's timer, which finds nothing to do
	})
}
