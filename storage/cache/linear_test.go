package cache_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/cache"
	"github.com/planekit/planekit/storage/etcdstore"
	"github.com/planekit/planekit/storage/etcdstore/embedded"
	"github.com/planekit/planekit/storage/memstore"
)

// etcd returns a store in an embedded etcd.
func etcd(t *testing.T) storage.Store {
	t.Helper()
	server, err := embedded.New(embedded.Config{Dir: t.TempDir(), InsecureNoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	select {
	case <-server.Ready():
	case err := <-done:
		done <- nil
		t.Fatal(err)
	}
	store, err := etcdstore.New(etcdstore.Config{Client: server.Client(), SoleMember: true})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// TestReadsSeeWrites has many goroutines write and read concurrently. After a write is
// acknowledged, the next read and list of the writer show it, and nothing goes backwards.
func TestReadsSeeWrites(t *testing.T) {
	for name, store := range map[string]func(*testing.T) storage.Store{
		"memory": func(*testing.T) storage.Store { return memstore.New() },
		"etcd":   etcd,
	} {
		for _, running := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/running=%v", name, running), func(t *testing.T) { testReadsSeeWrites(t, store(t), running) })
		}
	}
}

func testReadsSeeWrites(t *testing.T, store storage.Store, running bool) {
	const writers, writes = 8, 60
	feed, c := start(t, store, 0)
	if running {
		run(t, feed)
	}
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			if err := writeAndRead(t, store, c, root+storage.Key(fmt.Sprint("w", w)), writes); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

func writeAndRead(t *testing.T, store storage.Store, c *cache.Cache[string], key storage.Key, writes int) error {
	var last storage.Revision
	for i := range writes {
		change := storage.Change{Op: storage.Update, Key: key, Value: fmt.Append(nil, i), Previous: last}
		switch {
		case last == 0:
			change.Op = storage.Create
		case i%10 == 9:
			change.Op, change.Value = storage.Delete, nil
		}
		written, err := store.Commit(t.Context(), change)
		if err != nil {
			return err
		}
		last = written.Revision
		item, err := c.Get(t.Context(), key)
		if gone := errors.Is(err, storage.ErrNotFound); gone != (change.Op == storage.Delete) {
			return fmt.Errorf("%s after %s: %v", key, change.Op, err)
		} else if gone {
			last = 0
		} else if item.Revision != last {
			return fmt.Errorf("%s is at %d, want %d", key, item.Revision, last)
		}
		s, err := c.Current(t.Context())
		if err != nil || s.Revision < written.Revision {
			return fmt.Errorf("list at %d after %d: %w", s.Revision, written.Revision, err)
		}
		found := false
		for item := range s.All(key, "") {
			found = found || item.Revision == last
		}
		if found != (last != 0) {
			return fmt.Errorf("%s at %d: in the list %v", key, last, found)
		}
	}
	return nil
}
