package etcdstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
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
	for began := time.Now(); time.Since(began) < patience; {
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

// looks records the reads of compactKey by several servers: how often and when, and the last
// revision of the store; the revisions at which each compacted; and what each did out of turn.
type looks struct {
	mu        sync.Mutex
	when      map[int][]time.Time
	last      map[int]int64
	compacted map[int][]int64
	early     []string
}

// saw notes that server looked at a revision, and whether it was its turn: only if
// no other has compacted since it looked before.
func (l *looks) saw(server int, revision int64, turn bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if turn {
		for other, when := range l.compacted {
			if other != server && slices.ContainsFunc(when, func(at int64) bool { return l.last[server] < at && at < revision }) {
				l.early = append(l.early, fmt.Sprintf("%d at %d, %d since %d", server, revision, other, l.last[server]))
			}
		}
		l.compacted[server] = append(l.compacted[server], revision)
	}
	l.last[server] = revision
	l.when[server] = append(l.when[server], time.Now())
}

// A looking client tells looks of the transactions of a server.
type looking struct {
	clientv3.KV
	looks  *looks
	server int
}

func (l looking) Txn(ctx context.Context) clientv3.Txn { return lookingTxn{l.KV.Txn(ctx), l} }

type lookingTxn struct {
	clientv3.Txn
	by looking
}

func (l lookingTxn) If(c ...clientv3.Cmp) clientv3.Txn  { return lookingTxn{l.Txn.If(c...), l.by} }
func (l lookingTxn) Then(o ...clientv3.Op) clientv3.Txn { return lookingTxn{l.Txn.Then(o...), l.by} }
func (l lookingTxn) Else(o ...clientv3.Op) clientv3.Txn { return lookingTxn{l.Txn.Else(o...), l.by} }

func (l lookingTxn) Commit() (*clientv3.TxnResponse, error) {
	response, err := l.Txn.Commit()
	if err == nil {
		l.by.looks.saw(l.by.server, response.Header.Revision, response.Succeeded)
	}
	return response, err
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
	seen := &looks{when: map[int][]time.Time{}, last: map[int]int64{}, compacted: map[int][]int64{}}
	done := make(chan error)
	var stops []context.CancelFunc
	for server := range several {
		own := clientv3.NewCtxClient(t.Context())
		own.KV = looking{client.KV, seen, server}
		store, err := etcdstore.New(etcdstore.Config{Client: own})
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
	for i, stop := range stops {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if i < len(stops)-1 {
			await(version + 2)
		}
	}
	for server, when := range seen.when {
		// Two ticks may be waiting when one look has taken long.
		if took := when[len(when)-1].Sub(when[0]); took < time.Duration(len(when)-3)*interval {
			t.Errorf("server %d looked %d times in %v", server, len(when), took)
		}
	}
	if len(seen.early) > 0 {
		t.Errorf("out of turn: %q", seen.early)
	}
}

// Failures are reported and do not end it.
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
