package podconfig

import (
	"os"
	"path/filepath"
	"testing"
)

// TestOverwrite: a file that containers have mounted keeps its identity, and is not touched if it is up
// to date.
func TestOverwrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := overwrite(path, []byte("a long line")); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"a long line", "short", "", "longer again"} {
		if err := overwrite(path, []byte(content)); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil || string(data) != content {
			t.Errorf("it has %q, want %q: %v", data, content, err)
		}
	}
	after, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if !os.SameFile(before, after) {
		t.Error("it was replaced")
	}
	// A container may make it large.
	if err := os.Truncate(path, 1<<40); err != nil {
		t.Fatal(err)
	}
	if err := overwrite(path, []byte("short")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != 5 {
		t.Errorf("it has %v: %v", info, err)
	}
}
