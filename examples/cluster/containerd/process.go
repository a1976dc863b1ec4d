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

// has reports whether flag is among arguments with want behind it.
func has(arguments []string, flag, want string) bool {
	return slices.Contains(arguments, flag) && value(arguments, flag) == want
}

// value returns the argument behind flag; empty if there is none.
func value(arguments []string, flag string) string {
	if at := slices.Index(arguments, flag); at >= 0 && at+1 < len(arguments) {
		return arguments[at+1]
	}
	return ""
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

// kill kills a process and waits until it has ended.
func kill(ctx context.Context, pid int) error {
	for {
		if err := syscall.Kill(pid, syscall.SIGKILL); errors.Is(err, syscall.ESRCH) || zombie(pid) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("process %d does not end", pid)
		case <-time.After(pollEvery):
		}
	}
}

// zombie reports whether a process has ended and only waits for its parent,
// which may be any process.
func zombie(pid int) bool {
	state, _, ok := status(pid)
	return !ok || state == "Z"
}

// status returns the state and the parent of a process.
func status(pid int) (state string, parent int, ok bool) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0, false
	}
	// They follow the name, which is in parentheses and may hold anything.
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	if len(fields) < 2 {
		return "", 0, false
	}
	parent, err = strconv.Atoi(fields[1])
	return fields[0], parent, err == nil
}

// descendants returns the children of a process, and theirs.
func descendants(pid int) []int {
	children := map[int][]int{}
	directories, _ := filepath.Glob("/proc/[0-9]*") // the pattern is well formed
	for _, directory := range directories {
		child, err := strconv.Atoi(filepath.Base(directory))
		if _, parent, ok := status(child); err == nil && ok {
			children[parent] = append(children[parent], child)
		}
	}
	var all []int
	for next := children[pid]; len(next) > 0; {
		all = append(all, next...)
		var below []int
		for _, child := range next {
			below = append(below, children[child]...)
		}
		next = below
	}
	return all
}

// inode tells network namespaces apart.
func inode(file string) (uint64, bool) {
	info, err := os.Stat(file)
	if err != nil {
		return 0, false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return stat.Ino, true
}
