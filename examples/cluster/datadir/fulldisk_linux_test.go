package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// An identity is written whole or not at all: on a full disk the first start says so,
// and the next one, on a disk with room, begins afresh.
func TestIdentityOnFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if opened, err := Open(dir); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("%+v, error %v", opened, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "id")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an identity on a full disk: %v", err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for range 2 {
		opened, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, opened.id)
		if err := opened.Close(); err != nil {
			t.Error(err)
		}
	}
	if ids[0] != ids[1] || !clusterID.MatchString(ids[0]) {
		t.Errorf("identities %q", ids)
	}
}

// TestTokenOnAFullDisk: a full disk leaves no empty file of tokens, with which the administrator could
// never enter.
func TestTokenOnAFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4k"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	}()
	d := &Dir{path: dir}
	large, file := filepath.Join(dir, "large"), filepath.Join(dir, "tokens.csv")
	if err := os.WriteFile(large, make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Tokens(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("the error is %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the directory has %v: %v", entries, err)
	}
	if err := os.Remove(large); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := d.Tokens(); err != nil {
			t.Fatal(err)
		}
		if data, err := os.ReadFile(file); err != nil || len(data) == 0 {
			t.Errorf("the file has %d bytes: %v", len(data), err)
		}
	}
}
