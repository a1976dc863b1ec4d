package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/memstore"
	"github.com/planekit/planekit/storage/storagetest"
)

func Example() {
	store := memstore.New()
	ctx := context.Background()
	first, err := store.Commit(ctx, storage.Change{Key: "/greeting", Value: []byte("hello")})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = store.Commit(ctx, storage.Change{
		Op: storage.Update, Key: "/greeting", Value: []byte("good day"), Previous: first.Revision,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, at := range []storage.Revision{0, first.Revision} {
		record, err := store.Get(ctx, "/greeting", at)
		fmt.Println(string(record.Value), err)
	}
	// Output:
	// good day <nil>
	// hello <nil>
}

// count writes n more revisions of key, which must exist if r is not zero.
func count(t testing.TB, s storage.Store, key storage.Key, r storage.Record, n int) storage.Record {
	t.Helper()
	for range n {
		c := storage.Change{Key: key, Value: []byte(strconv.Itoa(n))}
		if r.Revision > 0 {
			c.Op, c.Previous = storage.Update, r.Revision
		}
		var err error
		if r, err = s.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// The history is as long as was asked for, and bounded.
func TestHistory(t *testing.T) {
	const history = 100
	s := memstore.NewHistory(history)
	last := count(t, s, "/a", storage.Record{}, 10*history)
	if _, err := s.Get(t.Context(), "/a", last.Revision-history+1); err != nil {
		t.Errorf("get within the history: %v", err)
	}
	if _, err := s.Get(t.Context(), "/a", last.Revision-2*history); !errors.Is(err, storage.ErrCompacted) {
		t.Errorf("get before the history: error %v, want %v", err, storage.ErrCompacted)
	}
}

// An unread watch does not block writers, and fails with ErrCompacted once it has missed a change.
func TestSlowWatch(t *testing.T) {
	s := memstore.NewHistory(100)
	w, err := s.Watch(t.Context(), "/", 0)
	if err != nil {
		t.Fatal(err)
	}
	count(t, s, "/a", storage.Record{}, 1000)
	for range 2 {
		if events, err := w.Next(t.Context()); !errors.Is(err, storage.ErrCompacted) {
			t.Errorf("next: %v, error %v, want %v", events, err, storage.ErrCompacted)
		}
	}
}

// A watch of keys to which nothing happens hears how far the store has come, so
// that the history does not run away from it.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.NewHistory(2000)
		w, err := s.Watch(t.Context(), "/quiet/", 0)
		if err != nil {
			t.Fatal(err)
		}
		var told storage.Revision
		go func() {
			for {
				events, err := w.Next(t.Context())
				if err != nil {
					return
				}
				for _, e := range events {
					if e.Type != storage.Progress || e.Revision <= told {
						t.Errorf("event %+v after progress to %d", e, told)
					}
					told = e.Revision
				}
			}
		}()
		var r storage.Record
		for range 10 {
			r = count(t, s, "/busy", r, 1000)
			synctest.Wait()
			if behind := r.Revision - told; behind > 1000 {
				t.Fatalf("told of %d, %d behind", told, behind)
			}
		}
		w.Close()
		synctest.Wait()
	})
}

// Compaction does not end a watch that has nothing to catch up with.
func TestCompactionPassesWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.NewHistory(100)
		w, err := s.Watch(t.Context(), "/quiet/", 0)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() {
			events, err := w.Next(t.Context())
			if err == nil && events[0].Record.Key != "/quiet/a" {
				t.Errorf("Next() = %+v, want the event of /quiet/a first", events)
			}
			done <- err
		}()
		synctest.Wait()
		count(t, s, "/busy", storage.Record{}, 500)
		count(t, s, "/quiet/a", storage.Record{}, 1)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A listing is of one revision, whatever is written meanwhile, and writers do not
// wait for it.
func TestListWhileWriting(t *testing.T) {
	s := memstore.New()
	a, b := count(t, s, "/a", storage.Record{}, 1), count(t, s, "/b", storage.Record{}, 1)
	var group sync.WaitGroup
	group.Go(func() {
		for range 500 {
			// b follows a, so b is never ahead.
			a = count(t, s, "/a", a, 1)
			b = count(t, s, "/b", b, 1)
		}
	})
	for range 500 {
		page, err := s.List(t.Context(), "/", storage.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		first, second := page.Records[0].Revision, page.Records[1].Revision
		if newer := max(first, second); newer != page.Revision || newer-min(first, second) != 1 {
			t.Fatalf("a listing as of %d holds revisions %d and %d", page.Revision, first, second)
		}
	}
	group.Wait()
}

// A failing seed of the model belongs here.
func TestModelSeeds(t *testing.T) {
	for seed := range uint64(20) {
		storagetest.Model(t, memstore.New(), seed)
	}
}

func BenchmarkListAt(b *testing.B) {
	for _, behind := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("behind=%d", behind), func(b *testing.B) {
			s := memstore.New()
			for i := range 1000 {
				count(b, s, storage.Key(fmt.Sprintf("/b/%d", i)), storage.Record{}, 1)
			}
			at := count(b, s, "/b/busy", storage.Record{}, 1)
			count(b, s, at.Key, at, behind)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.List(b.Context(), "/b/", storage.ListOptions{At: at.Revision}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestWaitingDuringCompaction: a watch that begins to wait while the history is cut is moved on. The race detector
// must find nothing.
func TestWaitingDuringCompaction(t *testing.T) {
	s := memstore.NewHistory(100)
	ctx, stop := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	for i := range 4 {
		watcher, err := s.Watch(ctx, storage.Key(fmt.Sprintf("/quiet%d/", i)), 1)
		if err != nil {
			t.Fatal(err)
		}
		watching.Go(func() {
			defer watcher.Close()
			for {
				if _, err := watcher.Next(ctx); err != nil {
					if ctx.Err() == nil && !errors.Is(err, storage.ErrCompacted) {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	for i := range 3000 {
		key := storage.Key(fmt.Sprintf("/loud/%d", i))
		if i%50 == 0 { // wakes a watch, which soon waits again
			key = storage.Key(fmt.Sprintf("/quiet%d/%d", i/50%4, i))
		}
		if _, err := s.Commit(ctx, storage.Change{Key: key}); err != nil {
			t.Fatal(err)
		}
	}
}
