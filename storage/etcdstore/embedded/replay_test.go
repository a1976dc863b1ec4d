package embedded_test

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/etcdstore/embedded"
)

// TestReplayIsKept: what a server that is killed now would replay from its log is less than what etcd
// keeps in memory. etcd panics at a start if it drops entries before it has elected itself.
func TestReplayIsKept(t *testing.T) {
	dir := t.TempDir()
	server := start(t, embedded.Config{Dir: dir, InsecureNoSync: true})
	defer server.stop(t)
	store := server.store(t)
	const writers, writes = 32, 80
	var busy sync.WaitGroup
	for w := range writers {
		busy.Go(func() {
			for i := range writes {
				if _, err := store.Commit(t.Context(), storage.Change{Key: storage.Key(fmt.Sprintf("/%d/%d", w, i))}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	busy.Wait()
	files, err := filepath.Glob(filepath.Join(dir, "member", "snap", "*.snap"))
	if err != nil || len(files) == 0 {
		t.Fatalf("snapshots %v, error %v", files, err)
	}
	var last uint64
	for _, file := range files { // TERM-INDEX.snap, in hexadecimal
		_, index, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".snap"), "-")
		n, err := strconv.ParseUint(index, 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		last = max(last, n)
	}
	// Each write is an entry; the server makes a few of its own.
	if replay := writers*writes - min(last, writers*writes); replay >= embedded.CatchUpEntries-100 {
		t.Errorf("%d entries would be replayed, and %d are kept", replay, embedded.CatchUpEntries)
	}
}
