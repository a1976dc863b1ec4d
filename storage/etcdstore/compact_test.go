package etcdstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/etcdstore"
)

// forgets writes until the store no longer remembers the first write.
func forgets(t *testing.T, store storage.Store) {
	t.Helper()
	first, err := store.Commit(t.Context(), storage.Change{Key: "/a"})
	if err != nil {
		t.Fatal(err)
	}
	last := first
	for began := time.Now(); time.Since(began) < 20*time.Second; {
		last, err = store.Commit(t.Context(), storage.Change{Op: storage.Update, Key: "/a", Previous: last.Revision})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Get(t.Context(), "/a", first.Revision); errors.Is(err, storage.ErrCompacted) {
			return
		}
	}
	t.Error("the store remembers everything")
}

func TestCompactEvery(t *testing.T) {
	client := serve(t)
	store, err := etcdstore.New(etcdstore.Config{Client: client})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.CompactEvery(t.Context(), 0, nil); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("every 0s: error %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	const several = 3 // as when several API servers share an etcd
	for range several {
		go func() {
			done <- store.CompactEvery(ctx, 20*time.Millisecond, func(err error) { t.Error(err) })
		}()
	}
	forgets(t, store)
	cancel()
	for range several {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// Failures are told, and are not the end.
func TestCompactEveryFails(t *testing.T) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{dead(t)}, MaxUnaryRetries: 1, Logger: zap.NewNop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	store, err := etcdstore.New(etcdstore.Config{Client: client})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	failures := 0
	err = store.CompactEvery(ctx, time.Millisecond, func(error) {
		if failures++; failures == 3 {
			cancel()
		}
	})
	if err != nil || failures != 3 {
		t.Errorf("%d failures, error %v", failures, err)
	}
}
