package cni

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// lockPoll is how often a taken lock is tried again. The kernel has no way to
// wait for a file lock that a context could end.
const lockPoll = 5 * time.Millisecond

// FileLock takes the lock which the file at path stands for, and makes the file
// if needed. The lock holds between processes as well as between goroutines.
// It fails when ctx is done. The holder removes the file when it unlocks.
func FileLock(ctx context.Context, path string) (unlock func(), err error) {
	for {
		f, err := tryLock(path)
		if err != nil {
			return nil, err
		}
		if f != nil {
			return func() {
				os.Remove(path) // while still locked: whoever waits sees that it is gone
				f.Close()
			}, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("lock %s is held by another: %w", path, context.Cause(ctx))
		case <-time.After(lockPoll):
		}
	}
}

// tryLock returns nil, nil where another holds the lock.
func tryLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		f.Close()
		return nil, nil
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	// The holder before may have removed the file between open and lock; then
	// this is a lock on nothing.
	mine, err1 := f.Stat()
	now, err2 := os.Stat(path)
	if err1 == nil && err2 == nil && os.SameFile(mine, now) {
		return f, nil
	}
	f.Close()
	if err2 != nil && !errors.Is(err2, fs.ErrNotExist) {
		return nil, err2
	}
	return nil, nil
}
