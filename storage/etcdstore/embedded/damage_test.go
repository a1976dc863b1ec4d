package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/etcdstore/embedded"
)

// used returns a data directory that was used, and stopped.
func used(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	server := start(t, embedded.Config{Dir: dir, InsecureNoSync: true})
	store := server.store(t)
	for i := range 300 {
		key := storage.Key(fmt.Sprintf("/used/%d", i))
		if _, err := store.Commit(t.Context(), storage.Change{Key: key, Value: make([]byte, 500)}); err != nil {
			t.Fatal(err)
		}
	}
	server.stop(t)
	return dir
}

// begin runs a server on a copy of dir, and returns how that failed, or that it is
// ready.
func begin(t testing.TB, dir string) error {
	t.Helper()
	server, err := embedded.New(embedded.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	select {
	case err := <-done:
		return err
	case <-server.Ready():
		cancel()
		return <-done
	}
}

// change calls change with the content of a file, and writes what it returns.
func change(t testing.TB, path string, change func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, change(data), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Damage to a data directory is reported quickly, in a sentence that names the file and the remedy.
func TestDamage(t *testing.T) {
	origin := used(t)
	zero := func(data []byte) []byte { return make([]byte, len(data)) }
	half := func(data []byte) []byte { return data[:len(data)/2] }
	none := func([]byte) []byte { return nil }
	text := func([]byte) []byte { return []byte(strings.Repeat("this is no database. ", 10_000)) }
	shorter := func(data []byte) []byte { return data[:20_000] }
	middle := func(data []byte) []byte { data[50_000] ^= 0xff; return data }
	for _, c := range []struct {
		name, file string
		damage     func([]byte) []byte // nil removes
	}{
		{"log removed", "wal", nil},
		{"segment removed", "wal/*.wal", nil},
		{"segment empty", "wal/*.wal", none},
		{"segment zero", "wal/*.wal", zero},
		{"segment text", "wal/*.wal", text},
		{"segment shorter", "wal/*.wal", shorter},
		{"segment flipped", "wal/*.wal", middle},
		{"database removed", "snap/db", nil},
		{"database directory removed", "snap", nil},
		{"database empty", "snap/db", none},
		{"database zero", "snap/db", zero},
		{"database text", "snap/db", text},
		{"database half", "snap/db", half},
		{"database a page", "snap/db", func(data []byte) []byte { return data[:4096] }},
		{"database without meta pages", "snap/db", func(data []byte) []byte { return append(make([]byte, 8192), data[8192:]...) }},
		{"database without its pages", "snap/db", func(data []byte) []byte { return append(data[:8192:8192], make([]byte, len(data)-8192)...) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(origin)); err != nil {
				t.Fatal(err)
			}
			paths, err := filepath.Glob(filepath.Join(dir, "member", c.file))
			if err != nil || len(paths) != 1 {
				t.Fatalf("%v, error %v", paths, err)
			}
			if c.damage != nil {
				change(t, paths[0], c.damage)
			} else if err := os.RemoveAll(paths[0]); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			err = begin(t, dir)
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("took %v", took)
			}
			if !errors.Is(err, embedded.ErrDamaged) || strings.Contains(err.Error(), "\n") ||
				!strings.Contains(err.Error(), filepath.Join(dir, "member", strings.Split(c.file, "/")[0])) {
				t.Errorf("run: %v", err)
			}
			t.Log(err)
		})
	}
}

// What a start leaves that was killed in the middle of the first time is no damage.
func TestFirstStartCutShort(t *testing.T) {
	for _, left := range []string{"member", "member/snap", "member/snap/db", "member/wal.tmp/0.tmp"} {
		dir := t.TempDir()
		path := filepath.Join(dir, left)
		err := os.MkdirAll(path, 0o700)
		if filepath.Ext(left) == ".tmp" || filepath.Base(left) == "db" {
			err = errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := begin(t, dir); err != nil {
			t.Errorf("after a start that left %s: %v", left, err)
		}
	}
}

// Random damage to the database never ends the process: etcd runs, or the server says
// why it does not.
func TestRandomDamage(t *testing.T) {
	origin, seed := used(t), rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 10 {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(origin)); err != nil {
			t.Fatal(err)
		}
		change(t, filepath.Join(dir, "member/snap/db"), func(data []byte) []byte {
			for range 1 + random.IntN(20) {
				page := random.IntN(min(len(data), 200<<10) / 4096)
				data[page*4096+random.IntN(64)] ^= byte(1 + random.IntN(255))
			}
			return data
		})
		if err := begin(t, dir); err != nil && !errors.Is(err, embedded.ErrDamaged) {
			t.Errorf("run: %v", err)
		}
	}
}
