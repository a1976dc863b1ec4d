package cache_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/cache"
	"github.com/planekit/planekit/storage/memstore"
)

func TestHistoryIsChecked(t *testing.T) {
	feed, _ := start(t, memstore.New(), 0)
	if _, err := cache.New(cache.Config[string]{Feed: feed, Prefix: root, Decode: decode, HistoryBytes: -1}); err == nil {
		t.Error("HistoryBytes may be negative")
	}
	if _, err := cache.NewFeed(cache.FeedConfig{Store: memstore.New(), HistoryAge: -1}); err == nil {
		t.Error("HistoryAge may be negative")
	}
}

// await returns a channel that gets nil when w has seen the change to object, and the error of w if
// it ends before.
func await(ctx context.Context, w *cache.Watch[string], object string) <-chan error {
	got := make(chan error, 1)
	go func() {
		for {
			events, err := w.Next(ctx)
			if err != nil || slices.ContainsFunc(events, func(e *cache.Event[string]) bool { return e.Item.Object == object }) {
				got <- err
				return
			}
		}
	}()
	return got
}

// TestHistoryAges makes changes and lets time pass: they are remembered for the age and then
// forgotten, while watches that wait all the time, also one that nothing concerns, go on.
func TestHistoryAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		feed, c := start(t, store, 0)
		ctx, cancel := context.WithCancel(t.Context())
		go feed.Run(ctx)
		first := put(t, store, root+"a", "first xx")
		if err := c.Wait(ctx, first); err != nil {
			t.Fatal(err)
		}
		quiet := watch(t, c, 0)
		narrow := watch(t, c, 0)
		narrow.Narrow("last", "n>")
		narrowed := await(ctx, narrow, "<n>")
		for i := range 100 {
			put(t, store, root+"a", fmt.Sprint(i, "xx"))
			if events, err := quiet.Next(ctx); err != nil || len(events) != 1 {
				t.Fatal(events, err)
			}
		}
		waiting := await(ctx, quiet, "<n>")
		at := func() error {
			_, err := c.At(first + 1)
			return err
		}
		time.Sleep(5*time.Minute - time.Second)
		if err := at(); err != nil {
			t.Errorf("before the age: %v", err)
		}
		time.Sleep(2 * time.Minute)
		if err := at(); !errors.Is(err, storage.ErrCompacted) {
			t.Errorf("after the age: %v", err)
		}
		time.Sleep(time.Hour)
		last := put(t, store, root+"a", "n")
		synctest.Wait()
		for name, got := range map[string]<-chan error{"quiet": waiting, "narrowed": narrowed} {
			select {
			case err := <-got:
				if err != nil {
					t.Errorf("the %s watch after an hour: %v", name, err)
				}
			default:
				t.Errorf("the %s watch is not woken", name)
			}
		}
		if s, err := c.At(last - 1); err != nil || s.Len() != 1 {
			t.Errorf("the state before the last change: %v", err)
		}
		cancel()
		synctest.Wait()
	})
}

// sized returns a cache that remembers so many bytes.
func sized(t testing.TB, store storage.Store, bytes int) *cache.Cache[string] {
	t.Helper()
	feed, err := cache.NewFeed(cache.FeedConfig{Store: store, Prefix: "/r/"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := cache.New(cache.Config[string]{Feed: feed, Prefix: root, Decode: decode, HistoryBytes: bytes, Fields: map[string]func(string) string{
		"last": func(object string) string { return object[len(object)-2:] },
	}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestHistoryIsBoundedInBytes makes changes of which few may be remembered: 64 at least, and no
// more than half as many again.
func TestHistoryIsBoundedInBytes(t *testing.T) {
	store := memstore.New()
	c := sized(t, store, 1000)
	if _, err := c.Current(t.Context()); err != nil {
		t.Fatal(err)
	}
	good := watch(t, c, 0)
	for i := range 500 {
		last := put(t, store, root+"a", strings.Repeat("x", 200))
		if events, err := good.Next(t.Context()); err != nil || len(events) != 1 {
			t.Fatalf("change %d: %v %v", i, events, err)
		}
		if i < 200 {
			continue
		}
		if _, err := c.At(last - 63); err != nil {
			t.Fatalf("change %d, 63 changes back: %v", i, err)
		}
		if _, err := c.At(last - 96); !errors.Is(err, storage.ErrCompacted) {
			t.Fatalf("change %d, 96 changes back: %v", i, err)
		}
	}
	// Small changes are remembered by number.
	for range 200 {
		put(t, store, root+"b", "x")
	}
	s, err := c.Current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.At(s.Revision - 199); err != nil {
		t.Errorf("199 small changes back: %v", err)
	}
}

// TestFramesOfOldChangesAreNotKept: what was encoded of a change is kept while it is among the latest,
// by number and by size, and for a minute or two.
func TestFramesOfOldChangesAreNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		feed, c := start(t, store, 0)
		ctx, cancel := context.WithCancel(t.Context())
		go feed.Run(ctx)
		if _, err := c.Current(ctx); err != nil {
			t.Fatal(err)
		}
		w := watch(t, c, 0)
		change := func(value string) *cache.Event[string] {
			put(t, store, root+"a", value)
			events, err := w.Next(ctx)
			if err != nil || len(events) != 1 {
				t.Fatal(events, err)
			}
			return events[0]
		}
		encoded := func(e *cache.Event[string]) (times int) {
			for range 3 {
				if data, err := e.Frame(0, func() ([]byte, error) { times++; return []byte("x"), nil }); err != nil || string(data) != "x" {
					t.Fatal(data, err)
				}
			}
			return times
		}
		for name, pass := range map[string]func(){
			"1024 changes": func() {
				for range 1024 {
					change("x")
				}
			},
			"2 MiB": func() {
				for range 64 {
					change(strings.Repeat("x", 40_000))
				}
			},
			"time": func() { time.Sleep(3 * time.Minute) },
		} {
			first := change("first")
			if n := encoded(first); n != 1 {
				t.Errorf("a new change is encoded %d times", n)
			}
			for range 63 {
				change("x")
			}
			if n := encoded(first); n != 0 {
				t.Errorf("after 63 changes it is encoded %d times more", n)
			}
			pass()
			if n := encoded(first); n != 3 {
				t.Errorf("after %s it is encoded %d times by three", name, n)
			}
		}
		cancel()
		synctest.Wait()
	})
}

// TestDeletedIsForgotten deletes 16 MiB of objects. After the age nothing of them is in memory.
func TestDeletedIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.NewHistory(10)
		feed, c := start(t, store, 0)
		ctx, cancel := context.WithCancel(t.Context())
		go feed.Run(ctx)
		put(t, store, root+"stays", "xx")
		if _, err := c.Current(ctx); err != nil {
			t.Fatal(err)
		}
		before := liveHeap()
		const objects, size = 1000, 16 << 10
		for i := range objects {
			if err := c.Wait(ctx, put(t, store, root+storage.Key(fmt.Sprint(i)), strings.Repeat("x", size))); err != nil {
				t.Fatal(err)
			}
		}
		full := liveHeap()
		for i := range objects {
			key := root + storage.Key(fmt.Sprint(i))
			have, err := store.Get(ctx, key, 0)
			if err != nil {
				t.Fatal(err)
			}
			gone, err := store.Commit(ctx, storage.Change{Op: storage.Delete, Key: key, Previous: have.Revision})
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Wait(ctx, gone.Revision); err != nil {
				t.Fatal(err)
			}
		}
		if s, err := c.Current(ctx); err != nil || s.Len() != 1 {
			t.Fatalf("%d records, %v", s.Len(), err)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if after := liveHeap(); full-before < objects*size || after-before > (full-before)/20 {
			t.Errorf("live heap: %d before, %d with the objects, %d after they have gone", before, full, after)
		}
		runtime.KeepAlive(c)
		cancel()
		synctest.Wait()
	})
}

func liveHeap() int64 {
	for range 2 { // what a pool held is free after the second
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
