// Package fulldisk is for tests of what happens when the disk is full.
package fulldisk

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Resources of a disk that can be used up.
const (
	Files = true
	Pages = false
)

// pageSize is the size of a file with one byte on the disk.
const pageSize = 4096

// A Disk is a small file system of its own, in memory.
type Disk struct {
	Path string
	t    *testing.T
	fill string
}

// New mounts a disk of 512 KiB and 256 files, which is there until the test ends. It skips the test
// without root.
func New(t *testing.T) *Disk {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	path, err := os.MkdirTemp("", "fulldisk")
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", path, "tmpfs", 0, "size=512k,nr_inodes=256"); err != nil {
		t.Fatal(errors.Join(err, os.Remove(path)))
	}
	t.Cleanup(func() {
		if err := errors.Join(syscall.Unmount(path, 0), os.Remove(path)); err != nil {
			t.Error(err)
		}
	})
	return &Disk{Path: path, t: t, fill: filepath.Join(path, "fill")}
}

// Leave fills the disk but for n files or pages.
func (d *Disk) Leave(files bool, n int) {
	d.t.Helper()
	if err := os.Mkdir(d.fill, 0o700); err != nil {
		d.t.Fatal(err)
	}
	var data []byte
	if !files {
		data = make([]byte, pageSize)
	}
	var made []string
	for {
		path := filepath.Join(d.fill, fmt.Sprint(len(made)))
		err := os.WriteFile(path, data, 0o600)
		if errors.Is(err, syscall.ENOSPC) {
			os.Remove(path) // a file without its page
			break
		}
		if err != nil {
			d.t.Fatal(err)
		}
		made = append(made, path)
	}
	if len(made) < n {
		d.t.Fatalf("the disk has room for %d, not %d", len(made), n)
	}
	for _, path := range made[len(made)-n:] {
		if err := os.Remove(path); err != nil {
			d.t.Fatal(err)
		}
	}
}

// Free undoes Leave.
func (d *Disk) Free() {
	d.t.Helper()
	if err := os.RemoveAll(d.fill); err != nil {
		d.t.Fatal(err)
	}
}

// CheckReplace fails the test unless a file that write replaces stays whole when the disk is full, says so
// by its error, and leaves nothing else in its directory. The path does not exist yet.
func (d *Disk) CheckReplace(path string, write func(text string) error) {
	d.t.Helper()
	if err := errors.Join(os.Mkdir(filepath.Dir(path), 0o755), write("1")); err != nil {
		d.t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		d.t.Fatal(err)
	}
	for _, resource := range []bool{Files, Pages} {
		d.Leave(resource, 0)
		if err := write("2"); !errors.Is(err, syscall.ENOSPC) {
			d.t.Errorf("no error says that the disk is full: %v", err)
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, before) {
			d.t.Errorf("the file has %q, want %q: %v", after, before, err)
		}
		if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
			d.t.Errorf("the directory has %v: %v", entries, err)
		}
		d.Free()
	}
	if err := write("2"); err != nil {
		d.t.Error(err)
	}
}
