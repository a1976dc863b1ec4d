package diskusage_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/planekit/planekit/kubelet/internal/diskusage"
)

func write(t *testing.T, path string, size int) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestOf(t *testing.T) {
	outside := t.TempDir()
	write(t, filepath.Join(outside, "large"), 4<<20)
	directory := t.TempDir()
	write(t, filepath.Join(directory, "a", "one"), 64<<10)
	write(t, filepath.Join(directory, "a", "b", "two"), 128<<10)
	for name, target := range map[string]string{"link": outside, "a/up": "..", "a/large": filepath.Join(outside, "large"), "none": "nowhere"} {
		if err := os.Symlink(target, filepath.Join(directory, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(directory, "a", "one"), filepath.Join(directory, "again")); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(directory, "a", "b", "two"), 1<<30); err != nil { // mostly holes
		t.Fatal(err)
	}
	u, err := diskusage.Of(t.Context(), directory)
	// The directory, a and b; one and two; four links.
	if err != nil || u.Inodes != 9 || u.Bytes < 192<<10 || u.Bytes > 256<<10 {
		t.Errorf("Of the directory = %+v, %v, want 9 inodes and %d to %d bytes", u, err, 192<<10, 256<<10)
	}
	if u, err := diskusage.Of(t.Context(), filepath.Join(directory, "again")); err != nil || u.Inodes != 1 || u.Bytes != 64<<10 {
		t.Errorf("of a file: %+v %v", u, err)
	}
	if u, err := diskusage.Of(t.Context(), filepath.Join(directory, "nothing")); err != nil || u != (diskusage.Usage{}) {
		t.Errorf("of nothing: %+v %v", u, err)
	}
	if u, err := diskusage.Of(t.Context(), filepath.Join(directory, "link")); err != nil || u.Bytes > 1<<20 {
		t.Errorf("of a link: %+v %v", u, err)
	}
}

func TestEndsWithItsContext(t *testing.T) {
	directory := t.TempDir()
	for i := range 1000 {
		write(t, filepath.Join(directory, fmt.Sprint(i)), 1)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := diskusage.Of(ctx, directory); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestStaysInside measures while a directory is replaced by a link to the outside, and back.
func TestStaysInside(t *testing.T) {
	outside := t.TempDir()
	write(t, filepath.Join(outside, "large"), 4<<20)
	directory := t.TempDir()
	write(t, filepath.Join(directory, "a", "one"), 4<<10)
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		a, b := filepath.Join(directory, "a"), filepath.Join(directory, "b")
		for ctx.Err() == nil {
			os.Rename(a, b)
			os.Symlink(outside, a)
			os.Remove(a)
			os.Rename(b, a)
		}
	})
	for range 2000 {
		if u, err := diskusage.Of(t.Context(), directory); err != nil || u.Bytes > 1<<20 {
			t.Errorf("Of while a directory and a link to the outside swap = %+v, %v, want at most %d bytes", u, err, 1<<20)
			break
		}
	}
	stop()
	group.Wait()
}
