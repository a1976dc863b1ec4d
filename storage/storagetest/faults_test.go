package storagetest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/memstore"
)

func create(t *testing.T, s storage.Store, key storage.Key) storage.Record {
	t.Helper()
	r, err := s.Commit(t.Context(), storage.Change{Key: key, Value: []byte("value")})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := memstore.New()
		s := Lag(inner, time.Second)
		took := func(want time.Duration, call func()) {
			t.Helper()
			began := time.Now()
			call()
			if took := time.Since(began); took != want {
				t.Errorf("took %v, want %v", took, want)
			}
		}
		var w storage.Watcher
		took(time.Second, func() {
			var err error
			if w, err = s.Watch(t.Context(), "", 0); err != nil {
				t.Fatal(err)
			}
		})
		took(time.Second, func() { create(t, s, "/a") })
		brief, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		took(time.Millisecond, func() {
			if _, err := w.Next(brief); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("next: %v", err)
			}
		})
		// What was on its way when the context ended is not lost.
		took(time.Second, func() {
			if events, err := w.Next(t.Context()); err != nil || len(events) != 1 {
				t.Errorf("next: %v, error %v", events, err)
			}
		})
		took(time.Second, func() {
			if _, err := s.Get(t.Context(), "/none", 0); !errors.Is(err, storage.ErrNotFound) {
				t.Errorf("get: %v", err)
			}
		})
	})
}

// A slow store keeps every promise but that of answering soon.
func TestLagIsAStore(t *testing.T) {
	if found := complaints(t, func() storage.Store { return Lag(memstore.New(), time.Microsecond) }); len(found) > 0 {
		t.Error(found)
	}
}

func TestFailAfter(t *testing.T) {
	failure := errors.New("the disk is on fire")
	inner := memstore.New()
	s := FailAfter(inner, 3, failure)
	w, err := s.Watch(t.Context(), "", 0)
	if err != nil {
		t.Fatal(err)
	}
	create(t, s, "/a")
	if _, err := w.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(t.Context(), storage.Change{Key: "/b"}); !errors.Is(err, failure) {
		t.Errorf("commit: error %v, want %v", err, failure)
	}
	if _, err := inner.Get(t.Context(), "/b", 0); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("the call that failed was made: %v", err)
	}
	create(t, inner, "/c")
	if _, err := w.Next(t.Context()); !errors.Is(err, failure) {
		t.Errorf("next: error %v, want %v", err, failure)
	}
	if _, err := s.List(t.Context(), "", storage.ListOptions{}); !errors.Is(err, failure) {
		t.Errorf("list: error %v, want %v", err, failure)
	}
}

func TestLoseReply(t *testing.T) {
	s := LoseReply(memstore.New(), func(c storage.Change) bool { return c.Op == storage.Create })
	if _, err := s.Commit(t.Context(), storage.Change{Key: "/a", Value: []byte("value")}); !errors.Is(err, ErrLost) {
		t.Fatalf("create: error %v, want %v", err, ErrLost)
	}
	r, err := s.Get(t.Context(), "/a", 0)
	if err != nil {
		t.Fatalf("the change whose answer was lost was not made: %v", err)
	}
	if _, err := s.Commit(t.Context(), storage.Change{Op: storage.Delete, Key: "/a", Previous: r.Revision}); err != nil {
		t.Errorf("delete: %v", err)
	}
}
