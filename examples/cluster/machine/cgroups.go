package machine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// killPoll is how often the processes of a cgroup are looked for while they end.
const killPoll = 10 * time.Millisecond

// RemoveCgroups kills what runs in a cgroup and below it, removes them in every
// hierarchy, and their parent where it is empty then. It succeeds on what is gone.
func RemoveCgroups(ctx context.Context, cgroup string) error {
	if cgroup == "" {
		return nil
	}
	for {
		pids := Processes(cgroup)
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		// A process that has been killed may keep its cgroup for a moment.
		failed := removeTrees(cgroup)
		if failed == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(failed, ctx.Err())
		case <-time.After(killPoll):
		}
	}
}

// trees returns the directories of a cgroup and those below it, parents first:
// one tree for each hierarchy of version 1, and the one of version 2.
func trees(cgroup string) [][]string {
	roots, _ := filepath.Glob("/sys/fs/cgroup/*" + cgroup) // the pattern is well formed
	var all [][]string
	for _, root := range append(roots, "/sys/fs/cgroup"+cgroup) {
		var dirs []string
		_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				dirs = append(dirs, path)
			}
			return nil // what cannot be read has just been removed
		})
		if len(dirs) > 0 {
			all = append(all, dirs)
		}
	}
	return all
}

// Processes returns what runs in a cgroup and below it.
func Processes(cgroup string) []int {
	found := map[int]bool{}
	for _, dirs := range trees(cgroup) {
		for _, dir := range dirs {
			data, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs")) // removed meanwhile: nothing runs in it
			for line := range strings.Lines(string(data)) {
				if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && pid > 0 {
					found[pid] = true
				}
			}
		}
	}
	var pids []int
	for pid := range found {
		pids = append(pids, pid)
	}
	return pids
}

func removeTrees(cgroup string) error {
	var failed error
	for _, dirs := range trees(cgroup) {
		for _, dir := range slices.Backward(dirs) {
			if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
				failed = errors.Join(failed, fmt.Errorf("remove cgroup: %w", err))
			}
		}
		// Other nodes of the cluster may still be in it.
		if parent := filepath.Dir(dirs[0]); strings.HasPrefix(filepath.Base(parent), "planekit-") {
			_ = os.Remove(parent)
		}
	}
	return failed
}
