package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
	if opened, err := openDataDir(dir); !errors.Is(err, syscall.ENOSPC) {
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
		opened, err := openDataDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, opened.id)
		if err := opened.close(); err != nil {
			t.Error(err)
		}
	}
	if ids[0] != ids[1] || !clusterID.MatchString(ids[0]) {
		t.Errorf("identities %q", ids)
	}
}

func TestBrokenIdentity(t *testing.T) {
	for content, repaired := range map[string]bool{"": true, "\n": false, "x": false, "0123456": false, "0123456789": false, "\x00\x00\x00\x00\x00\x00\x00\x00": false} {
		dir := t.TempDir()
		path := filepath.Join(dir, "id")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		opened, err := openDataDir(dir)
		if repaired != (err == nil) || err != nil && !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v", content, err)
		}
		if err == nil {
			fmt.Fprintln(t.Output(), opened.id)
			opened.lock.Close()
		}
	}
}
