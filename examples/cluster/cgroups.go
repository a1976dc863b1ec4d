package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// cgroupRoot is the cgroup of one node's pods; the cluster's identity keeps two
// clusters on one machine apart.
func (c *cluster) cgroupRoot(node string) string {
	if c.runtime == "fake" {
		return ""
	}
	return "/planekit-" + c.dir.id + "/" + node
}

// removeCgroups removes a cgroup with all below it, in every hierarchy, and its
// parent where that is empty then. Processes in it are an error.
func removeCgroups(cgroup string) error {
	if cgroup == "" {
		return nil
	}
	roots, err := filepath.Glob("/sys/fs/cgroup/*" + cgroup) // v1: a hierarchy for each controller
	if err != nil {
		return err
	}
	var failed error
	for _, root := range append(roots, "/sys/fs/cgroup"+cgroup) {
		var dirs []string
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				dirs = append(dirs, path)
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, err)
		}
		for _, dir := range slices.Backward(dirs) {
			if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
				failed = errors.Join(failed, fmt.Errorf("remove cgroup: %w", err))
			}
		}
		_ = os.Remove(filepath.Dir(root)) // others' nodes may still be in it
	}
	return failed
}
