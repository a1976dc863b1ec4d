package cni

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"syscall"
	"time"
)

// The interval between attempts to take a lock grows with the time waited, so that a hundred waiting
// processes leave the processor to the owner. The kernel cannot wait for a file lock until a context
// ends.
const (
	minLockPoll = time.Millisecond
	maxLockPoll = 40 * time.Millisecond
)

// lockPoll returns the time to the next attempt, a quarter of the time waited on average.
func lockPoll(waited time.Duration) time.Duration {
	poll := min(max(waited/4, minLockPoll), maxLockPoll)
	return poll/2 + rand.N(poll)
}

// FileLock locks the file at path, creating it if necessary. The lock excludes other processes and
// other goroutines. FileLock fails when ctx is done. unlock removes the file.
func FileLock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := lock(ctx, path)
	if err != nil {
		return nil, err
	}
	return func() {
		os.Remove(path) // while still locked, so that waiting processes notice it
		f.Close()
	}, nil
}

// PersistentFileLock is [FileLock] without the removal. It is for a lock that is shared with programs
// that do not notice when the file they have locked is removed: they would run beside the next owner.
func PersistentFileLock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := lock(ctx, path)
	if err != nil {
		return nil, err
	}
	return func() { f.Close() }, nil
}

func lock(ctx context.Context, path string) (*os.File, error) {
	for start := time.Now(); ; {
		f, err := tryLock(path)
		if f != nil || err != nil {
			return f, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("lock %s is held by another: %w", path, context.Cause(ctx))
		case <-time.After(lockPoll(time.Since(start))):
		}
	}
}

// tryLock returns nil, nil if another owner holds the lock.
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
	// The previous owner may have removed the file between open and lock. Then this locks a deleted
	// file.
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
