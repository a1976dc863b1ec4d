package embedded_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/etcdstore/embedded"
)

// save writes a snapshot of server to a file.
func save(t testing.TB, server *running) string {
	t.Helper()
	var snapshot bytes.Buffer
	if err := server.Snapshot(t.Context(), &snapshot); err != nil {
		t.Fatal(err)
	}
	return write(t, snapshot.Bytes())
}

func write(t testing.TB, data []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "snapshot.db")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// writers write records of their own as fast as they can until they are stopped. latest is
// what was acknowledged.
type writers struct {
	stop   context.CancelFunc
	done   sync.WaitGroup
	mu     sync.Mutex
	latest map[storage.Key]storage.Record
	failed atomic.Int64
}

func startWriters(t testing.TB, store storage.Store, n, size int) *writers {
	ctx, cancel := context.WithCancel(t.Context())
	w := &writers{stop: cancel, latest: map[storage.Key]storage.Record{}}
	for i := range n {
		w.done.Go(func() {
			last := storage.Record{Key: storage.Key(fmt.Sprintf("/load/%d", i))}
			for n := 0; ctx.Err() == nil; n++ {
				value := append([]byte(fmt.Sprintf("%d ", n)), make([]byte, size)...)
				c := storage.Change{Key: last.Key, Value: value}
				if last.Revision != 0 {
					c.Op, c.Previous = storage.Update, last.Revision
				}
				r, err := store.Commit(context.WithoutCancel(ctx), c)
				var conflict *storage.ConflictError
				switch {
				case errors.As(err, &conflict): // a write that failed, and took place
					last = conflict.Current
				case errors.Is(err, storage.ErrExists):
					last = r
				case err != nil:
					w.failed.Add(1)
					time.Sleep(time.Millisecond)
					continue
				default:
					last = r
				}
				w.mu.Lock()
				w.latest[last.Key] = last
				w.mu.Unlock()
			}
		})
	}
	return w
}

// acknowledged returns a copy of what was acknowledged until now.
func (w *writers) acknowledged() map[storage.Key]storage.Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := map[storage.Key]storage.Record{}
	for k, r := range w.latest {
		all[k] = r
	}
	return all
}

func (w *writers) end() map[storage.Key]storage.Record {
	w.stop()
	w.done.Wait()
	return w.acknowledged()
}

// holdsAll checks that store has every record of want, or a later one of its key.
func holdsAll(t testing.TB, store storage.Store, want map[storage.Key]storage.Record) {
	t.Helper()
	for key, r := range want {
		got, err := store.Get(t.Context(), key, 0)
		if err != nil || got.Revision < r.Revision || got.Revision == r.Revision && !bytes.Equal(got.Value, r.Value) {
			t.Errorf("%s: revision %d, error %v; acknowledged at revision %d", key, got.Revision, err, r.Revision)
		}
	}
}

// A snapshot that is taken under load holds whatever was acknowledged before it
// began. In the restored store revisions go on, and what is older is compacted.
func TestRestoreUnderLoad(t *testing.T) {
	server := start(t, embedded.Config{Dir: t.TempDir()})
	defer server.stop(t)
	store := server.store(t)
	load := startWriters(t, store, 16, 1000)
	for len(load.acknowledged()) < 16 {
		time.Sleep(time.Millisecond)
	}
	before := load.acknowledged()
	file := save(t, server)
	after := load.end()
	now, err := store.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	dir := filepath.Join(t.TempDir(), "new", "etcd")
	status, err := embedded.Restore(file, dir)
	if err != nil {
		t.Fatal(err)
	}
	if status.Revision == 0 || status.Revision > int64(now) || status.TotalKeys < 16 || status.Hash == 0 {
		t.Errorf("status %+v at revision %d", status, now)
	}
	for range 3 { // also when it is started again
		restored := start(t, embedded.Config{Dir: dir})
		again := restored.store(t)
		holdsAll(t, again, before)
		for key := range after {
			if r, err := again.Get(t.Context(), key, 0); err != nil || int64(r.Revision) > status.Revision {
				t.Errorf("%s: %d, error %v, in a snapshot of revision %d", key, r.Revision, err, status.Revision)
			}
		}
		// A client that has watched the lost store must list again.
		for _, at := range []storage.Revision{storage.Revision(status.Revision), now, now + 1} {
			if _, err := again.List(t.Context(), "/", storage.ListOptions{At: at}); !errors.Is(err, storage.ErrCompacted) {
				t.Errorf("list at revision %d of the lost store: %v", at, err)
			}
			w, err := again.Watch(t.Context(), "/", at)
			if err == nil {
				_, err = w.Next(t.Context())
				w.Close()
			}
			if !errors.Is(err, storage.ErrCompacted) {
				t.Errorf("watch after revision %d of the lost store: %v", at, err)
			}
		}
		page, err := again.List(t.Context(), "/", storage.ListOptions{})
		if err != nil || len(page.Records) < 16 || int64(page.Revision) < status.Revision+embedded.RevisionGap {
			t.Fatalf("list: %d records at revision %d, error %v", len(page.Records), page.Revision, err)
		}
		key := storage.Key(fmt.Sprintf("/restored/%d", page.Revision))
		r, err := again.Commit(t.Context(), storage.Change{Key: key, Value: []byte("new")})
		if err != nil || r.Revision <= page.Revision {
			t.Fatalf("a write: revision %d after %d, error %v", r.Revision, page.Revision, err)
		}
		restored.stop(t)
	}
}

// The client's own calls work too.
func TestClientMaintenance(t *testing.T) {
	server := start(t, embedded.Config{Dir: t.TempDir()})
	defer server.stop(t)
	if _, err := server.store(t).Commit(t.Context(), storage.Change{Key: "/a", Value: make([]byte, 1<<20)}); err != nil {
		t.Fatal(err)
	}
	response, err := server.Client().SnapshotWithVersion(t.Context())
	if err != nil || response.Header.Revision != 2 {
		t.Fatalf("%+v, error %v", response, err)
	}
	data, err := io.ReadAll(response.Snapshot)
	if err := errors.Join(err, response.Snapshot.Close()); err != nil {
		t.Fatal(err)
	}
	if status, err := embedded.Status(write(t, data)); err != nil || status.TotalKeys == 0 {
		t.Errorf("%+v, error %v", status, err)
	}
	// An unread snapshot ends with its context, or when it is closed.
	ctx, cancel := context.WithCancel(t.Context())
	unread, err := server.Client().Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.ReadAll(unread); !errors.Is(err, context.Canceled) {
		t.Errorf("a snapshot whose context ended: %v", err)
	}
	if unread, err = server.Client().Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	_ = unread.Close()
	if _, err := server.Client().Defragment(t.Context(), ""); err != nil {
		t.Errorf("defragment: %v", err)
	}
	if _, err := server.store(t).Commit(t.Context(), storage.Change{Key: "/b"}); err != nil {
		t.Errorf("after defragment: %v", err)
	}
	// One that is open does not keep the server from stopping.
	if _, err := server.Client().Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestSnapshotFails(t *testing.T) {
	server, err := embedded.New(embedded.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Snapshot(t.Context(), io.Discard); err == nil {
		t.Error("a snapshot of a server that does not run")
	}
	running := start(t, embedded.Config{Dir: t.TempDir()})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := running.Snapshot(ctx, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("a snapshot whose context is done: %v", err)
	}
	broken, w := io.Pipe()
	_ = broken.CloseWithError(errors.New("the disk is gone"))
	if err := running.Snapshot(t.Context(), w); err == nil || !strings.Contains(err.Error(), "the disk is gone") {
		t.Errorf("a snapshot to a writer that fails: %v", err)
	}
	running.stop(t)
	if err := running.Snapshot(t.Context(), io.Discard); err == nil {
		t.Error("a snapshot of a server that stopped")
	}
}

// What is not a whole snapshot is not restored, and leaves nothing behind.
func TestRestoreRefuses(t *testing.T) {
	server := start(t, embedded.Config{Dir: t.TempDir()})
	if _, err := server.store(t).Commit(t.Context(), storage.Change{Key: "/a", Value: make([]byte, 100<<10)}); err != nil {
		t.Fatal(err)
	}
	file := save(t, server)
	server.stop(t)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(data)
	flipped[len(data)/2] ^= 1
	for name, bad := range map[string][]byte{
		"empty": nil, "short": data[:20], "truncated": data[:len(data)/2], "without its sum": data[:len(data)-32],
		"flipped": flipped, "longer": append(bytes.Clone(data), 0), "zero": make([]byte, len(data)),
		"text": bytes.Repeat([]byte("this is no database. "), 10_000),
	} {
		parent := t.TempDir()
		for _, err := range []error{func() error { _, err := embedded.Status(write(t, bad)); return err }(),
			func() error { _, err := embedded.Restore(write(t, bad), filepath.Join(parent, "etcd")); return err }(),
		} {
			if !errors.Is(err, embedded.ErrIntegrity) || !strings.Contains(err.Error(), "snapshot.db") {
				t.Errorf("a snapshot that is %s: %v", name, err)
			}
		}
		if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
			t.Errorf("a snapshot that is %s left %v, error %v", name, left, err)
		}
	}
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "precious"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := embedded.Restore(file, full); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("a directory that is not empty: %v", err)
	}
	if _, err := embedded.Restore(file, t.TempDir()); err != nil {
		t.Errorf("a directory that is empty: %v", err)
	}
	if _, err := embedded.Restore(filepath.Join(full, "none"), t.TempDir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no snapshot: %v", err)
	}
}
