package volumes

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestShare: a directory in a private mount becomes a shared one, once, with the mounts below it, and what
// is in it stays.
func TestShare(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	for _, mounted := range []bool{false, true} {
		private := t.TempDir()
		mount := func(at string) {
			t.Helper()
			if err := syscall.Mount("tmpfs", at, "tmpfs", 0, "size=64k"); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := syscall.Unmount(at, syscall.MNT_DETACH); err != nil {
					t.Error(err)
				}
			})
		}
		mount(private)
		if err := syscall.Mount("", private, "", syscall.MS_PRIVATE, ""); err != nil {
			t.Fatal(err)
		}
		root := private
		if !mounted {
			root = filepath.Join(private, "a root")
		}
		below := filepath.Join(root, "below")
		if err := os.MkdirAll(below, 0o755); err != nil {
			t.Fatal(err)
		}
		mount(below)
		if err := os.WriteFile(filepath.Join(below, "f"), []byte("1"), 0o600); err != nil {
			t.Fatal(err)
		}
		if shared, err := IsShared(root); shared || err != nil {
			t.Fatalf("shared before: %v, %v", shared, err)
		}
		for range 2 {
			if err := Share(root); err != nil {
				t.Fatal(err)
			}
		}
		for _, path := range []string{root, below} {
			if shared, err := IsShared(path); !shared || err != nil {
				t.Errorf("%s is not shared: %v", path, err)
			}
		}
		all, err := mounts()
		if err != nil {
			t.Fatal(err)
		}
		at := 0
		for _, m := range all {
			if m.point == root {
				at++
			}
		}
		if at != 1 {
			t.Errorf("%d mounts at %s", at, root)
		}
		if text, err := os.ReadFile(filepath.Join(below, "f")); err != nil || string(text) != "1" {
			t.Errorf("the file below has %q: %v", text, err)
		}
	}
	if err := Share(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory that is not there: %v", err)
	}
}
