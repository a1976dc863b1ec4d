package diskusage_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/planekit/planekit/kubelet/internal/diskusage"
)

// TestTakesLittle: neither many files in one directory nor directories deeper than any path take memory.
func TestTakesLittle(t *testing.T) {
	const files, depth = 30_000, 1500
	directory := t.TempDir()
	fd, err := unix.Open(directory, unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(directory, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range files {
		if err := unix.Mknodat(fd, fmt.Sprint("file with a name of some length ", i), unix.S_IFREG|0o600, 0); err != nil {
			t.Fatal(err)
		}
	}
	name := strings.Repeat("x", 250)
	for range depth {
		if err := unix.Mkdirat(fd, name, 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(fd, name, unix.O_DIRECTORY, 0)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
		fd = next
	}
	unix.Close(fd)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	u, err := diskusage.Of(t.Context(), directory)
	runtime.ReadMemStats(&after)
	if want := int64(1 + 1 + files + depth); err != nil || u.Inodes != want {
		t.Errorf("Of() = %+v, %v; want %d inodes", u, err, want)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 32<<20 {
		t.Errorf("Of() allocated %d MiB, want at most 32", used>>20)
	}
}
