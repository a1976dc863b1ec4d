package embedded_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/etcdstore"
	"github.com/planekit/planekit/storage/etcdstore/embedded"
)

// patience is how long a test waits for what must come. No machine is so slow:
// what has not come by then never does.
const patience = 2 * time.Minute

// A running is a server that was started, with what its Run returned.
type running struct {
	*embedded.Server
	cancel context.CancelFunc
	done   chan error
	ended  bool
}

func start(t testing.TB, c embedded.Config) *running {
	t.Helper()
	server, err := embedded.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Server: server, cancel: cancel, done: make(chan error, 1)}
	go func() { r.done <- server.Run(ctx) }()
	select {
	case <-server.Ready():
	case err := <-r.done:
		cancel()
		t.Fatal(err)
	}
	return r
}

// stop ends the server, unless it was stopped before, and checks that it ended well.
func (r *running) stop(t testing.TB) {
	t.Helper()
	if r.ended {
		return
	}
	r.ended = true
	r.cancel()
	if err := <-r.done; err != nil {
		t.Fatal(err)
	}
}

func (r *running) store(t testing.TB) *etcdstore.Store {
	t.Helper()
	store, err := etcdstore.New(etcdstore.Config{Client: r.Client(), SoleMember: true})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func TestRestart(t *testing.T) {
	dir := t.TempDir()
	first := start(t, embedded.Config{Dir: dir})
	record, err := first.store(t).Commit(t.Context(), storage.Change{Key: "/a", Value: []byte("kept")})
	if err != nil {
		t.Fatal(err)
	}
	first.stop(t)
	second := start(t, embedded.Config{Dir: dir})
	defer second.stop(t)
	again, err := second.store(t).Get(t.Context(), "/a", 0)
	if err != nil {
		t.Fatal(err)
	}
	if string(again.Value) != "kept" || again.Revision != record.Revision {
		t.Fatalf("after a restart %+v, want %+v", again, record)
	}
}

func TestSecondServerIsRefused(t *testing.T) {
	dir := t.TempDir()
	first := start(t, embedded.Config{Dir: dir})
	defer first.stop(t)
	second, err := embedded.New(embedded.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err = second.Run(ctx)
	if !errors.Is(err, embedded.ErrLocked) || !strings.Contains(err.Error(), dir) {
		t.Fatalf("a second server on the same directory: %v", err)
	}
}

func TestStopLeavesNoGoroutines(t *testing.T) {
	before := goleak.IgnoreCurrent()
	server := start(t, embedded.Config{Dir: t.TempDir()})
	store := server.store(t)
	watcher, err := store.Watch(t.Context(), "/", 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Commit(t.Context(), storage.Change{Key: "/a"}); err != nil {
		t.Fatal(err)
	}
	if _, err := watcher.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.stop(t)
	if _, err := watcher.Next(t.Context()); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("a watch on a server that stopped: %v", err)
	}
	goleak.VerifyNone(t, before)
}

func BenchmarkReady(b *testing.B) {
	var cold, warm time.Duration
	n := 0
	for b.Loop() {
		dir := b.TempDir()
		began := time.Now()
		server := start(b, embedded.Config{Dir: dir})
		cold += time.Since(began)
		server.stop(b)
		began = time.Now()
		server = start(b, embedded.Config{Dir: dir})
		warm += time.Since(began)
		server.stop(b)
		n++
	}
	b.ReportMetric(float64(cold.Milliseconds())/float64(n), "cold-ms")
	b.ReportMetric(float64(warm.Milliseconds())/float64(n), "warm-ms")
}
