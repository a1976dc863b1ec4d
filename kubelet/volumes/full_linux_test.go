package volumes

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/planekit/planekit/kubelet/internal/fulldisk"
)

// entries returns the names in a volume, with those of versions shortened.
func entries(t *testing.T, volume string) []string {
	t.Helper()
	list, err := os.ReadDir(volume)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		name := e.Name()
		if strings.HasPrefix(name, versionPrefix) {
			name = versionPrefix
		}
		names = append(names, name)
	}
	return names
}

// TestWriteOnAFullDisk: whenever the disk gets full, the volume stays as it was, and is written when there
// is space again.
func TestWriteOnAFullDisk(t *testing.T) {
	old := map[string]File{"a": {Data: []byte("1"), Mode: 0o644}, "d/b": {Data: []byte("2"), Mode: 0o600}}
	large := strings.Repeat("x", 3*4096)
	next := map[string]File{"a": {Data: []byte(large), Mode: 0o644}, "c": {Data: []byte(large), Mode: 0o644}, "e/f": {Data: []byte("5"), Mode: 0o644}}
	oldList, nextList := []string{"a=1", "d/b=2"}, []string{"a=" + large, "c=" + large, "e/f=5"}
	for what, resource := range map[string]bool{"files": fulldisk.Files, "pages": fulldisk.Pages} {
		t.Run(what, func(t *testing.T) {
			disk := fulldisk.New(t)
			volume := filepath.Join(disk.Path, "volume")
			failures := 0
			for n := 0; ; n++ {
				if err := os.RemoveAll(volume); err != nil {
					t.Fatal(err)
				}
				if err := os.Mkdir(volume, 0o755); err != nil {
					t.Fatal(err)
				}
				if err := WriteAtomically(volume, old, nil); err != nil {
					t.Fatal(err)
				}
				before := entries(t, volume)
				disk.Leave(resource, n)
				err := WriteAtomically(volume, next, nil)
				if err == nil {
					break
				}
				failures++
				if !errors.Is(err, syscall.ENOSPC) {
					t.Fatalf("%d left: %v", n, err)
				}
				if got := list(t, volume); !slices.Equal(got, oldList) {
					t.Fatalf("%d left: the volume has %.99q", n, got)
				}
				if got := entries(t, volume); !slices.Equal(got, before) {
					t.Fatalf("%d left: %q became %q", n, before, got)
				}
				disk.Free()
				if err := WriteAtomically(volume, next, nil); err != nil {
					t.Fatalf("%d left before: %v", n, err)
				}
				if got := list(t, volume); !slices.Equal(got, nextList) {
					t.Fatalf("%d left before: the volume has %.99q", n, got)
				}
			}
			if got := list(t, volume); !slices.Equal(got, nextList) {
				t.Errorf("the volume has %.99q", got)
			}
			if failures < 5 {
				t.Errorf("the disk was full %d times only", failures)
			}
		})
	}
}

// TestNamesAreRestored: a writer that was killed before or after the switch is finished by the next one.
func TestNamesAreRestored(t *testing.T) {
	volume := t.TempDir()
	files := map[string]File{"a": {Data: []byte("1"), Mode: 0o644}, "b": {Data: []byte("2"), Mode: 0o644}}
	if err := WriteAtomically(volume, files, nil); err != nil {
		t.Fatal(err)
	}
	want := entries(t, volume)
	err := errors.Join(
		os.Remove(filepath.Join(volume, "a")),
		os.Symlink(filepath.Join(dataLink, "old"), filepath.Join(volume, "old")),
		os.Mkdir(filepath.Join(volume, versionPrefix+"1"), 0o700),
	)
	if err != nil {
		t.Fatal(err)
	}
	if err := WriteAtomically(volume, files, nil); err != nil {
		t.Fatal(err)
	}
	if got := entries(t, volume); !slices.Equal(got, want) {
		t.Errorf("the volume has %q, want %q", got, want)
	}
	// A torn file is written again.
	if err := os.WriteFile(filepath.Join(volume, "b"), nil, 0); err != nil {
		t.Fatal(err)
	}
	if err := WriteAtomically(volume, files, nil); err != nil {
		t.Fatal(err)
	}
	if got := list(t, volume); !slices.Equal(got, []string{"a=1", "b=2"}) {
		t.Errorf("the volume has %q", got)
	}
}
