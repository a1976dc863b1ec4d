package wholefile_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/planekit/planekit/internal/wholefile"
)

// TestWrite replaces a file, with the mode, and leaves nothing else in the folder.
func TestWrite(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "a", "b")
	if err := wholefile.Folder(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "f")
	for _, contents := range []string{"one", strings.Repeat("two", 1000), ""} {
		if err := wholefile.Write(file, []byte(contents), 0o640); err != nil {
			t.Fatal(err)
		}
		have, err := os.ReadFile(file)
		if err != nil || string(have) != contents {
			t.Errorf("the file has %q, %v, want %q", have, err, contents)
		}
		if info, err := os.Stat(file); err != nil || info.Mode() != 0o640 {
			t.Errorf("mode %v, %v, want 0640", info.Mode(), err)
		}
	}
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder has %v, %v, want f alone", entries, err)
	}
}

// TestWriteFails keeps the old contents, and removes what it began.
func TestWriteFails(t *testing.T) {
	folder := t.TempDir()
	taken := filepath.Join(folder, "taken")
	if err := os.MkdirAll(filepath.Join(taken, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{taken, filepath.Join(folder, "no", "folder")} {
		if err := wholefile.Write(file, []byte("x"), 0o600); err == nil {
			t.Errorf("Write(%s) = nil, want an error", file)
		}
	}
	if entries, err := os.ReadDir(folder); err != nil || len(entries) != 1 {
		t.Errorf("the folder has %v, %v, want taken alone", entries, err)
	}
}
