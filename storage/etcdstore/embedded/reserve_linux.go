package embedded

import (
	"errors"
	"fmt"
	"math"
	"os"
	"syscall"
)

// keepSize is FALLOC_FL_KEEP_SIZE: blocks behind the end of a file do not change its size.
const keepSize = 1

// allocate allocates disk space for n bytes of the file at path, from an offset on. It creates a
// missing file unless the space is to be behind its end. It does nothing on a file system without
// fallocate.
func allocate(path string, from, n int64, behind bool) error {
	flags, mode := os.O_WRONLY|os.O_CREATE, uint32(0)
	if behind {
		flags, mode = os.O_WRONLY, keepSize
	}
	f, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return err
	}
	for {
		err = syscall.Fallocate(int(f.Fd()), mode, from, n)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	closed := f.Close()
	if err == nil || errors.Is(err, syscall.ENOTSUP) {
		return closed
	}
	return fmt.Errorf("%s: %w", path, err)
}

// freeSpace returns the number of bytes of dir's disk that this process may use.
func freeSpace(dir string) (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, fmt.Errorf("%s: %w", dir, err)
	}
	return int64(min(s.Bavail*uint64(s.Bsize), math.MaxInt64)), nil
}
