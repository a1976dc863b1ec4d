package embedded_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/etcdstore/embedded"
)

// Over the quota writes fail and reads go on.
func TestQuota(t *testing.T) {
	server := start(t, embedded.Config{Dir: t.TempDir(), QuotaBytes: 8 << 20})
	defer server.stop(t)
	store := server.store(t)
	if err := store.Healthy(t.Context()); err != nil {
		t.Errorf("health of an empty store: %v", err)
	}
	first, err := store.Commit(t.Context(), storage.Change{Key: "/a", Value: make([]byte, 1<<20)})
	if err != nil {
		t.Fatal(err)
	}
	last := first
	var full error
	for i := 0; i < 200 && full == nil; i++ {
		r, err := store.Commit(t.Context(), storage.Change{
			Op: storage.Update, Key: "/a", Value: make([]byte, 1<<20), Previous: last.Revision,
		})
		if full = err; err == nil {
			last = r
		}
	}
	if !errors.Is(full, storage.ErrFull) {
		t.Errorf("up to 200 MiB into a quota of 8: error %v, want %v", full, storage.ErrFull)
	}
	if err := store.Healthy(t.Context()); err == nil || !strings.Contains(err.Error(), "NOSPACE") {
		t.Errorf("health over the quota: %v", err)
	}
	// etcd may have made the change that it has first refused.
	if r, err := store.Get(t.Context(), "/a", 0); err != nil || r.Revision < last.Revision || len(r.Value) != 1<<20 {
		t.Errorf("get over the quota: revision %d, error %v", r.Revision, err)
	}
}

// The server gives up old history by itself.
func TestCompaction(t *testing.T) {
	server := start(t, embedded.Config{Dir: t.TempDir(), Compaction: 200 * time.Millisecond, InsecureNoSync: true})
	defer server.stop(t)
	store := server.store(t)
	first, err := store.Commit(t.Context(), storage.Change{Key: "/a"})
	if err != nil {
		t.Fatal(err)
	}
	last := first
	for began := time.Now(); time.Since(began) < patience; {
		last, err = store.Commit(t.Context(), storage.Change{Op: storage.Update, Key: "/a", Previous: last.Revision})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Get(t.Context(), "/a", first.Revision); errors.Is(err, storage.ErrCompacted) {
			return
		}
	}
	t.Error("the server remembers everything")
}
