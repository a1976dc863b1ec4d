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

// One of several servers compacts in each interval, and another when that is
// gone.
func TestCompactEveryTakesTurns(t *testing.T) {
	const interval, several, turns = 50 * time.Millisecond, 3, 10
	client := serve(t)
	// Each turn is a version of the key, each version one compaction.
	w := client.Watch(t.Context(), "compact_rev_key", clientv3.WithCreatedNotify())
	<-w
	version := int64(0)
	await := func(n int64) {
		t.Helper()
		for version < n {
			response := <-w
			if len(response.Events) == 0 {
				t.Fatalf("watch: %v", response.Err())
			}
			version = response.Events[len(response.Events)-1].Kv.Version
		}
	}
	done := make(chan error)
	var stops []context.CancelFunc
	began := time.Now()
	for range several {
		store, err := etcdstore.New(etcdstore.Config{Client: client})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		stops = append(stops, stop)
		go func() {
			done <- store.CompactEvery(ctx, interval, func(err error) { t.Error(err) })
		}()
	}
	await(turns)
	// One server takes at least this long for so many turns; three that do not
	// heed each other take a third.
	if took := time.Since(began); took < (turns-1)*interval*2/3 {
		t.Errorf("%d compactions in %v, one every %v wanted", turns, took, interval)
	}
	for i, stop := range stops {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if i < len(stops)-1 {
			await(version + 2)
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
