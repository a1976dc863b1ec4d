package volumes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// MakeDirectory creates a directory, in memory if requested, unless it exists, and sets its mode.
// size bounds a directory in memory, in bytes; zero means half of the memory, as in tmpfs(5).
func MakeDirectory(directory string, memory bool, size int64, mode fs.FileMode) error {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	if mounted, err := isMountPoint(directory); err != nil {
		return err
	} else if memory && !mounted {
		options := ""
		if size > 0 {
			options = fmt.Sprintf("size=%d", size)
		}
		err := mountMemory(directory, options)
		// Without root, mounting is not possible, and the containers of tests do not notice the
		// difference.
		if err != nil && os.Geteuid() == 0 {
			return fmt.Errorf("mount tmpfs: %w", err)
		}
	}
	return os.Chmod(directory, mode)
}

// isMountPoint reports whether path is a mount point: it is on another device than its parent.
func isMountPoint(path string) (bool, error) {
	var here, parent syscall.Stat_t
	if err := syscall.Lstat(path, &here); err != nil {
		return false, err
	}
	if err := syscall.Lstat(filepath.Dir(path), &parent); err != nil {
		return false, err
	}
	return here.Dev != parent.Dev, nil
}

// unmountBelow unmounts everything below a directory, innermost first. It uses the kernel's list of
// mounts.
func unmountBelow(directory string) error {
	points, err := mountsBelow(directory)
	if err != nil {
		return err
	}
	var errs []error
	for i := len(points) - 1; i >= 0; i-- {
		if err := unmount(points[i]); err != nil && !errors.Is(err, syscall.EINVAL) {
			errs = append(errs, fmt.Errorf("unmount %s: %w", points[i], err))
		}
	}
	return errors.Join(errs...)
}

// mountsBelow returns the mount points below directory in the order of mounting.
func mountsBelow(directory string) ([]string, error) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // not Linux, and nothing was mounted (see mountMemory)
	}
	if err != nil {
		return nil, err
	}
	return parseMounts(string(table), directory), nil
}

// parseMounts parses mountinfo (proc(5)): the fifth field is the mount point, with octal escapes
// for spaces.
func parseMounts(table, directory string) []string {
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var points []string
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		if point := unescape.Replace(fields[4]); strings.HasPrefix(point, directory+"/") {
			points = append(points, point)
		}
	}
	return points
}
