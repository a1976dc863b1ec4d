package containerd

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// processes yields the command line of every process that has one.
func processes() iter.Seq2[int, []string] {
	return func(yield func(int, []string) bool) {
		files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil || len(data) == 0 {
				continue // it ended meanwhile, or is a kernel thread
			}
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if err != nil {
				continue
			}
			if !yield(pid, strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00")) {
				return
			}
		}
	}
}

// has reports whether flag is among arguments with value behind it.
func has(arguments []string, flag, value string) bool {
	at := slices.Index(arguments, flag)
	return at >= 0 && at+1 < len(arguments) && arguments[at+1] == value
}

// end asks a process to end, and kills it where it has not when half of the
// time that ctx leaves is over.
func end(ctx context.Context, pid int) error {
	patience := stopTimeout / 2
	if deadline, ok := ctx.Deadline(); ok {
		patience = time.Until(deadline) / 2
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); errors.Is(err, syscall.ESRCH) {
		return nil
	}
	kill := time.NewTimer(patience)
	defer kill.Stop()
	for {
		if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) || zombie(pid) {
			return nil
		}
		select {
		case <-kill.C:
			_ = syscall.Kill(pid, syscall.SIGKILL)
		case <-ctx.Done():
			return fmt.Errorf("process %d does not end", pid)
		case <-time.After(pollEvery):
		}
	}
}

// zombie reports whether a process has ended and only waits for its parent,
// which may be anybody.
func zombie(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	// The state follows the name, which is in parentheses and may hold anything.
	_, state, _ := strings.Cut(string(data[strings.LastIndexByte(string(data), ')'):]), " ")
	return strings.HasPrefix(state, "Z")
}
