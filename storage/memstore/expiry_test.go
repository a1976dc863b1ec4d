package memstore_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/memstore"
)

// Records go to the moment, in the order of their ends and not of their
// beginnings.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		began := time.Now()
		w, err := s.Watch(t.Context(), "/t/", 0)
		if err != nil {
			t.Fatal(err)
		}
		const first, n = 5, 20
		for i := range n {
			ttl := time.Duration((i*7+3)%n+first) * time.Second // every number of seconds once
			_, err := s.Commit(t.Context(), storage.Change{Key: storage.Key(fmt.Sprintf("/t/%v", ttl)), TTL: ttl})
			if err != nil {
				t.Fatal(err)
			}
		}
		if events, err := w.Next(t.Context()); err != nil || len(events) != n {
			t.Fatalf("%v, error %v", events, err)
		}
		for i := range n {
			events, err := w.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want := time.Duration(first+i) * time.Second
			key := storage.Key(fmt.Sprintf("/t/%v", want))
			if len(events) != 1 || events[0].Type != storage.Deleted || events[0].Record.Key != key || time.Since(began) != want {
				t.Fatalf("after %v: %v, want the deletion of %s", time.Since(began), events, key)
			}
			if _, err := s.Get(t.Context(), key, 0); !errors.Is(err, storage.ErrNotFound) {
				t.Errorf("%s after its deletion: error %v", key, err)
			}
		}
	})
}

// A record that was written again goes by its last write alone.
func TestExpiryOfAnotherWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		key := storage.Key("/a")
		r, err := s.Commit(t.Context(), storage.Change{Key: key, TTL: time.Second})
		for range 10 {
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second / 2)
			r, err = s.Commit(t.Context(), storage.Change{Op: storage.Update, Key: key, Previous: r.Revision, TTL: time.Second})
		}
		time.Sleep(time.Second - time.Nanosecond)
		synctest.Wait()
		if _, err := s.Get(t.Context(), key, 0); err != nil {
			t.Errorf("a moment before the end: %v", err)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if _, err := s.Get(t.Context(), key, 0); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("at the end: error %v", err)
		}
	})
}
