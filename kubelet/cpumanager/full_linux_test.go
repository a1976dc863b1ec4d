package cpumanager

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/planekit/planekit/kubelet/internal/fulldisk"
)

// TestWriteOnAFullDisk: the old file stays whole, and nothing is left of the new one.
func TestWriteOnAFullDisk(t *testing.T) {
	disk := fulldisk.New(t)
	path := filepath.Join(disk.Path, "pod", "state")
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(text string) error { return writeState(path, []byte(text)) }
	if err := write("1"); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, resource := range []bool{fulldisk.Files, fulldisk.Pages} {
		disk.Leave(resource, 0)
		if err := write("2"); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("no error says that the disk is full: %v", err)
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, before) {
			t.Errorf("the file has %q, want %q: %v", after, before, err)
		}
		if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
			t.Errorf("the directory has %v: %v", entries, err)
		}
		disk.Free()
	}
	if err := write("2"); err != nil {
		t.Error(err)
	}
}
