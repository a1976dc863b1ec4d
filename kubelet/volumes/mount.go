package volumes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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

// modeOf returns the mode of a volume's directory, in memory or on the disk, as in Kubernetes.
func modeOf(memory bool) fs.FileMode {
	if memory {
		return 0o777 | fs.ModeSticky
	}
	return 0o777
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
	return errors.Join(err, unmountAll(points))
}

// unmountAll unmounts mount points, which are in the order of mounting.
func unmountAll(points []string) error {
	var errs []error
	for i := len(points) - 1; i >= 0; i-- {
		if err := unmount(points[i]); err != nil && !errors.Is(err, syscall.EINVAL) {
			errs = append(errs, fmt.Errorf("unmount %s: %w", points[i], err))
		}
	}
	return errors.Join(errs...)
}

// mountsBelow returns the mount points below directory in the order of mounting. The kernel knows
// paths without links: one in directory must not hide a mount whose contents would be removed.
func mountsBelow(directory string) ([]string, error) {
	directory, err := filepath.EvalSymlinks(directory)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all, err := mounts()
	return pointsBelow(all, directory), err
}

func pointsBelow(all []mount, directory string) []string {
	var points []string
	for _, m := range all {
		if strings.HasPrefix(m.point, directory+"/") {
			points = append(points, m.point)
		}
	}
	return points
}

// mountsOf returns the number of mount points below a directory that show what is at path.
func mountsOf(path, below string) (n int, err error) {
	path, err1 := filepath.EvalSymlinks(path)
	below, err2 := filepath.EvalSymlinks(below)
	all, err3 := mounts()
	if err := errors.Join(err1, err2, err3); err != nil || len(all) == 0 {
		return 0, err
	}
	through := seenThrough(all, path)
	root := filepath.Join(through.root, strings.TrimPrefix(path, through.point))
	for _, m := range all {
		if m.device == through.device && m.root == root && strings.HasPrefix(m.point, below+"/") {
			n++
		}
	}
	return n, nil
}

// seenThrough returns the mount that path is seen through: the last of the longest mount points that
// contain it.
func seenThrough(all []mount, path string) (through mount) {
	for _, m := range all {
		if m.point == "/" || path == m.point || strings.HasPrefix(path, m.point+"/") {
			if len(m.point) >= len(through.point) {
				through = m
			}
		}
	}
	return through
}

// mount is a line of mountinfo (proc(5)).
type mount struct {
	device string // its numbers
	root   string // the part of the file system that is mounted
	point  string
	shared bool // other mounts of it get the mounts below
}

// mounts returns the mounts that this process sees, in the order of mounting; nil if it is not on
// Linux, where nothing was mounted (see mountMemory).
func mounts() ([]mount, error) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parseMounts(string(table)), nil
}

// parseMounts parses mountinfo (proc(5)): the third to fifth fields are the device, the root and the
// mount point, with octal escapes for spaces. Optional fields begin with the seventh and end with a dash.
func parseMounts(table string) []mount {
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var all []mount
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) >= 5 {
			m := mount{device: fields[2], root: unescape.Replace(fields[3]), point: unescape.Replace(fields[4])}
			for _, field := range fields[min(6, len(fields)):] {
				if field == "-" {
					break
				}
				m.shared = m.shared || strings.HasPrefix(field, "shared:")
			}
			all = append(all, m)
		}
	}
	return all
}

// isMountedAt reports whether something is mounted at path. Unlike isMountPoint, it also sees a mount
// of the same device.
func isMountedAt(path string) (bool, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false, err
	}
	all, err := mounts()
	return slices.ContainsFunc(all, func(m mount) bool { return m.point == path }), err
}
