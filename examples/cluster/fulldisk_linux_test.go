package main

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

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
	large, file := filepath.Join(dir, "large"), filepath.Join(dir, "tokens.csv")
	if err := os.WriteFile(large, make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := adminToken(file); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("the error is %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the directory has %v: %v", entries, err)
	}
	if err := os.Remove(large); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := adminToken(file); err != nil {
			t.Fatal(err)
		}
		if data, err := os.ReadFile(file); err != nil || len(data) == 0 {
			t.Errorf("the file has %d bytes: %v", len(data), err)
		}
	}
}
