package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/etcdstore/embedded"
)

// disk mounts a file system of its own with so many bytes.
func disk(t testing.TB, bytes int) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounting a file system takes root")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill takes all that is free on the disk of dir, as fast as it can, and goes on to do
// so until pause. stop gives it back.
func fill(t testing.TB, dir string) (pause, stop func()) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		chunk := make([]byte, 4<<20)
		for {
			select {
			case <-ended:
				return
			default:
			}
			if _, err := f.Write(chunk); err == nil {
				continue
			}
			if len(chunk) > 4<<10 {
				chunk = chunk[:len(chunk)/2]
				continue
			}
			chunk = chunk[:cap(chunk)]
			time.Sleep(100 * time.Microsecond)
		}
	}()
	pause = sync.OnceFunc(func() { close(ended); <-done })
	return pause, func() {
		pause()
		_ = f.Close()
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
}

// until waits for what must come.
func until(t testing.TB, what string, come func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !come() {
		if ctx.Err() != nil {
			t.Fatal("waited in vain: " + what)
		}
		time.Sleep(time.Millisecond)
	}
}

// Another program fills the disk while writes are under load, again and again. Writes
// fail, reads and watches go on, and all is well when there is room again; nothing that
// was acknowledged is lost, also where the server is started on a disk that is full.
func TestDiskFull(t *testing.T) {
	mount := disk(t, 700<<20)
	dir := filepath.Join(mount, "etcd")
	server := start(t, embedded.Config{Dir: dir})
	defer func() { server.stop(t) }()
	store := server.store(t)
	ctx := t.Context()
	for round := range 4 {
		load := startWriters(t, store, 16, 20_000*(round%2)+100)
		until(t, "writes", func() bool { return len(load.acknowledged()) == 16 })
		time.Sleep(time.Duration(round) * 150 * time.Millisecond) // not always at the same point
		pause, stop := fill(t, mount)
		until(t, "refusal", func() bool { return server.CheckSpace(ctx) != nil })
		if err := server.CheckSpace(ctx); !strings.Contains(err.Error(), dir) {
			t.Error(err)
		}
		failed := load.failed.Load()
		until(t, "writes that fail", func() bool { return load.failed.Load() > failed+100 })
		if _, err := store.Commit(ctx, storage.Change{Key: "/full"}); !errors.Is(err, storage.ErrFull) {
			t.Errorf("a write: %v", err)
		}
		if _, err := store.Commit(ctx, storage.Change{Key: "/full", TTL: time.Hour}); !errors.Is(err, storage.ErrFull) {
			t.Errorf("a write with a TTL: %v", err)
		}
		acknowledged := load.end()
		holdsAll(t, store, acknowledged)
		if _, err := store.Commit(ctx, storage.Change{Key: "/load/0"}); !errors.Is(err, storage.ErrExists) {
			t.Errorf("a create of what exists: %v", err)
		}
		deletes(t, store, acknowledged)
		if err := server.Snapshot(ctx, io.Discard); err != nil {
			t.Errorf("a snapshot: %v", err)
		}
		if round%2 == 1 {
			pause()
			server.stop(t)
			server = start(t, embedded.Config{Dir: dir})
			store = server.store(t)
			// What it frees while it starts can be enough for it to admit writes.
			holdsAll(t, store, acknowledged)
		}
		stop()
		until(t, "admission", func() bool { return server.CheckSpace(ctx) == nil })
		last, err := store.Commit(ctx, storage.Change{Key: "/room", Value: make([]byte, 1<<20)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Commit(ctx, storage.Change{Op: storage.Delete, Key: "/room", Previous: last.Revision}); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Compact(ctx, must(store.Revision(ctx))); err != nil {
		t.Error(err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// deletes checks that a record can be deleted on a full disk, and that a watch says so.
func deletes(t *testing.T, store storage.Store, records map[storage.Key]storage.Record) {
	t.Helper()
	w, err := store.Watch(t.Context(), "/load/", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for key := range records {
		now, err := store.Get(t.Context(), key, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Commit(t.Context(), storage.Change{Op: storage.Delete, Key: key, Previous: now.Revision}); err != nil {
			t.Fatalf("delete: %v", err)
		}
		delete(records, key)
		break
	}
	if events, err := w.Next(t.Context()); err != nil || events[0].Type != storage.Deleted {
		t.Errorf("watch: %v, error %v", events, err)
	}
}

// The log grows over several segments while the disk is at the edge: the next one is
// always there.
func TestDiskFullAcrossSegments(t *testing.T) {
	mount := disk(t, 900<<20)
	server := start(t, embedded.Config{Dir: filepath.Join(mount, "etcd"), InsecureNoSync: true})
	defer server.stop(t)
	store := server.store(t)
	var stop func()
	for i := range 150 { // some 150 MB of log, which is three segments
		if stop == nil && i%5 == 0 {
			_, stop = fill(t, mount)
			time.Sleep(time.Duration(i%7) * 10 * time.Millisecond)
		}
		r, err := store.Commit(t.Context(), storage.Change{Key: "/a", Value: make([]byte, 1<<20)})
		if err == nil {
			_, err = store.Commit(t.Context(), storage.Change{Op: storage.Delete, Key: "/a", Previous: r.Revision})
			_ = store.Compact(t.Context(), r.Revision)
		}
		if err != nil && !errors.Is(err, storage.ErrFull) && !errors.Is(err, storage.ErrExists) {
			t.Fatal(err)
		}
		if err != nil && stop != nil {
			stop()
			stop = nil
			until(t, "admission", func() bool { return server.CheckSpace(t.Context()) == nil })
			if r, err := store.Get(t.Context(), "/a", 0); err == nil {
				if _, err := store.Commit(t.Context(), storage.Change{Op: storage.Delete, Key: "/a", Previous: r.Revision}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if stop != nil {
		stop()
	}
}

// The write that makes etcd begin the log's next segment is written to the old one, past
// its size. Other programs may have taken all of the disk by then.
func TestSegmentsHaveRoomBehind(t *testing.T) {
	dir := filepath.Join(disk(t, 700<<20), "etcd")
	server := start(t, embedded.Config{Dir: dir, InsecureNoSync: true})
	defer server.stop(t)
	store := server.store(t)
	log := filepath.Join(dir, "member", "wal")
	for _, segments := range []int{1, 2} {
		until(t, "blocks behind the end of each segment", func() bool {
			paths, err := filepath.Glob(filepath.Join(log, "*.wal"))
			if err != nil || len(paths) != segments {
				t.Fatalf("segments: %v, %v", paths, err)
			}
			for _, path := range []string{paths[segments-1], filepath.Join(log, "0.tmp"), filepath.Join(log, "1.tmp")} {
				var info syscall.Stat_t
				if err := syscall.Stat(path, &info); err != nil || info.Blocks*512 < 64_000_000+8<<20 {
					return false
				}
			}
			return true
		})
		if segments == 2 {
			break
		}
		for range 64 {
			r, err := store.Commit(t.Context(), storage.Change{Key: "/a", Value: make([]byte, 1<<20)})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := store.Commit(t.Context(), storage.Change{Op: storage.Delete, Key: "/a", Previous: r.Revision}); err != nil {
				t.Fatal(err)
			}
			if err := store.Compact(t.Context(), r.Revision); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A disk that is too small for a new etcd is said, and nothing is left on it.
func TestDiskTooSmall(t *testing.T) {
	dir := filepath.Join(disk(t, 100<<20), "etcd")
	server, err := embedded.New(embedded.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Run(t.Context()); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "MiB are free") {
		t.Errorf("run: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "member")); err == nil {
		t.Error("a member was begun")
	}
}
