package cache_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/cache"
	"github.com/planekit/planekit/storage/memstore"
	"github.com/planekit/planekit/storage/storagetest"
)

func TestNewChecks(t *testing.T) {
	feed, _ := start(t, memstore.New(), 0)
	for want, c := range map[string]cache.Config[string]{
		"Feed and Decode": {Prefix: root, Decode: decode},
		"must end with":   {Feed: feed, Prefix: "/r/a", Decode: decode},
		"under the feed":  {Feed: feed, Prefix: "/other/", Decode: decode},
		"negative":        {Feed: feed, Prefix: root, Decode: decode, History: -1},
	} {
		if _, err := cache.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New() of a wrong config: %v, want an error with %q", err, want)
		}
	}
	if _, err := cache.NewFeed(cache.FeedConfig{}); err == nil {
		t.Error("a feed without a store")
	}
}

// TestTwice has two caches of the same records, beside others.
func TestTwice(t *testing.T) {
	store := memstore.New()
	feed, other := start(t, store, 0)
	caches := []*cache.Cache[string]{add(t, feed, "/r/twice/", 0), add(t, feed, "/r/twice/", 0), add(t, feed, "/r/u/", 0)}
	for i, want := range []int{1, 2, 3} {
		put(t, store, storage.Key(fmt.Sprintf("/r/twice/%d", i)), "x")
		for j, c := range append(caches, other) {
			s, err := c.Current(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if j >= 2 {
				want = 0
			}
			if s.Len() != want {
				t.Errorf("cache %d has %d of %d records", j, s.Len(), want)
			}
		}
	}
}

// TestBrokenRecord has one record that cannot be decoded.
func TestBrokenRecord(t *testing.T) {
	store := memstore.New()
	_, c := start(t, store, 0)
	put(t, store, root+"bad", "bad")
	put(t, store, root+"good", "x")
	s, err := c.Current(t.Context())
	if err != nil || s.Len() != 2 {
		t.Fatalf("%d records, %v", s.Len(), err)
	}
	for key, want := range map[storage.Key]error{root + "bad": errBad, root + "good": nil} {
		item, err := c.Get(t.Context(), key)
		if err != nil || !errors.Is(item.Err, want) {
			t.Errorf("Get(%s) = %v, %v, want an item with the error %v", key, item, err, want)
		}
	}
	if _, err := c.Get(t.Context(), root+"none"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("none: %v", err)
	}
}

// TestWrote announces an object, which must be taken instead of decoding its
// record, and only for that one.
func TestWrote(t *testing.T) {
	store := memstore.New()
	feed, err := cache.NewFeed(cache.FeedConfig{Store: store, Prefix: "/r/"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := cache.New(cache.Config[string]{Feed: feed, Prefix: root, Decode: func(r storage.Record, known string) (string, error) {
		if known != "" {
			return known, nil
		}
		return decode(r, "")
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := func(text string) {
		t.Helper()
		item, err := c.Get(t.Context(), root+"a")
		if err != nil || item.Object != text {
			t.Errorf("%v %v, want %s", item, err, text)
		}
	}
	if _, err := c.Current(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := put(t, store, root+"a", "1")
	c.Wrote(root+"a", first, "known")
	want("known")
	second := put(t, store, root+"a", "2")
	c.Wrote(root+"a", first, "late")
	want("<2>")
	c.Wrote(root+"a", second, "late")
	put(t, store, root+"a", "3")
	want("<3>")
}

// TestForeignChanges counts changes outside the feed's prefix, as other users of
// an etcd make them: the store is asked how far it has come. Where it cannot
// tell, the cache says that it is behind, in bounded time; and waiting for a
// revision that does not come ends with the context.
func TestForeignChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		_, asking := start(t, store, 0)
		_, c := start(t, mute{store}, 0)
		if _, err := asking.Current(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Current(t.Context()); err != nil {
			t.Fatal(err)
		}
		now := put(t, store, "/elsewhere", "x")
		began := time.Now()
		if s, err := asking.Current(t.Context()); err != nil || s.Revision != now || time.Since(began) > 10*time.Millisecond {
			t.Errorf("after %v: at %d, want %d, %v", time.Since(began), s.Revision, now, err)
		}
		if _, err := c.Current(t.Context()); !errors.Is(err, cache.ErrBehind) || time.Since(began) > time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := c.Wait(ctx, now+1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("future: %v", err)
		}
		if _, err := c.At(now + 1); !errors.Is(err, storage.ErrFuture) {
			t.Errorf("future: %v", err)
		}
		put(t, store, root+"a", "x")
		if s, err := c.Current(t.Context()); err != nil || s.Len() != 1 {
			t.Errorf("%d records, %v", s.Len(), err)
		}
	})
}

// mute is a store that does not say how far its watches have come.
type mute struct{ storage.Store }

func (m mute) Watch(ctx context.Context, prefix storage.Key, after storage.Revision) (storage.Watcher, error) {
	w, err := m.Store.Watch(ctx, prefix, after)
	return struct{ storage.Watcher }{w}, err
}

// TestBrokenStore fails all calls for a while. Reads say so; afterwards they
// work, and Run has gone on by itself.
func TestBrokenStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		broken := errors.New("no leader")
		_, c := start(t, storagetest.FailAfter(store, 3, broken), 0)
		failed := 0
		for range 10 {
			if _, err := c.Current(t.Context()); errors.Is(err, broken) {
				failed++
			}
			put(t, store, root+"a", "x")
		}
		if failed != 9 {
			t.Errorf("%d of 10 reads failed", failed)
		}
		feed, again := start(t, &flaky{Store: store}, 0)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- feed.Run(ctx) }()
		synctest.Wait()
		w := watch(t, again, 0)
		for range 5 {
			last := put(t, store, root+"a", "y")
			if events, err := w.Next(t.Context()); err != nil || events[0].Revision != last {
				t.Fatalf("Next() = %v, %v, want the event of revision %d", events, err, last)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// flaky is a store each of whose watches ends after one call of Next.
type flaky struct{ storage.Store }

func (f *flaky) Watch(ctx context.Context, prefix storage.Key, after storage.Revision) (storage.Watcher, error) {
	w, err := f.Store.Watch(ctx, prefix, after)
	return &short{Watcher: w}, err
}

type short struct {
	storage.Watcher
	used bool
}

func (s *short) Next(ctx context.Context) ([]storage.Event, error) {
	if s.used {
		return nil, errors.New("connection reset")
	}
	s.used = true
	return s.Watcher.Next(ctx)
}
