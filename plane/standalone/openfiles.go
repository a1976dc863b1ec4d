//go:build linux || darwin

package standalone

import "syscall"

// limitFiles sets how many files this process may have open.
func limitFiles(most int64) error {
	n := uint64(most)
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: n, Max: n})
}
