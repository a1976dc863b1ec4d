package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// ErrLocked says that another etcd is using the data directory.
var ErrLocked = errors.New("data directory is in use by another etcd")

// lockName is the file in the data directory that a Server locks while it runs.
const lockName = "planekit.lock"

// lock makes dir this server's own until unlock. etcd itself waits for a
// database that is in use, for ever; so its file is probed too, in case a stock
// etcd has it. The kernel drops the lock when the process dies.
func lock(dir string) (unlock func(), err error) {
	file, err := flock(filepath.Join(dir, lockName), os.O_CREATE)
	if err != nil {
		return nil, fmt.Errorf("embedded: lock %s: %w", dir, err)
	}
	database, err := flock(filepath.Join(dir, "member", "snap", "db"), 0)
	if err == nil {
		err = database.Close()
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		_ = file.Close()
		return nil, fmt.Errorf("embedded: lock %s: %w", dir, err)
	}
	return func() { _ = file.Close() }, nil
}

// flock opens path and locks it, without waiting. Closing the file unlocks it.
func flock(path string, flag int) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|flag, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return file, nil
	}
	_ = file.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, ErrLocked
	}
	return nil, fmt.Errorf("%s: %w", path, err)
}
