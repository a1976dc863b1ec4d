package volumes

import (
	"fmt"
	"path/filepath"
)

// IsShared reports whether the mount that a directory is in is shared. Mounts below it can then propagate
// to and from containers; see mount_namespaces(7). Where there are no mounts, it returns true.
func IsShared(directory string) (bool, error) {
	directory, err := filepath.EvalSymlinks(directory)
	if err != nil {
		return false, err
	}
	all, err := mounts()
	if err != nil || len(all) == 0 {
		return err == nil, err
	}
	return seenThrough(all, directory).shared, nil
}

// Share makes a directory a shared mount, with all mounts below it, unless it is in one. If nothing is
// mounted at the directory, it is mounted at itself, and stays so.
func Share(directory string) error {
	if shared, err := IsShared(directory); shared || err != nil {
		return err
	}
	mounted, err := isMountedAt(directory)
	if err != nil {
		return err
	}
	if !mounted {
		if err := bindRecursively(directory); err != nil {
			return fmt.Errorf("mount %s at itself: %w", directory, err)
		}
	}
	if err := makeShared(directory); err != nil {
		return fmt.Errorf("make the mount at %s shared: %w", directory, err)
	}
	return nil
}
