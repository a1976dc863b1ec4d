//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package embedded

import (
	"errors"
	"os"
	"syscall"
	"testing"
)

// A stock etcd does not know of our lock, but holds its database.
func TestRunBesideStockEtcd(t *testing.T) {
	dir := t.TempDir()
	database, err := os.Open(makeDatabase(t, dir, ""))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = database.Close() }()
	if err := syscall.Flock(int(database.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if err := run(t, dir); !errors.Is(err, ErrLocked) {
		t.Errorf("a directory that etcd uses: %v", err)
	}
}
