package volumes

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	corev1 "k8s.io/api/core/v1"
)

// onRootMismatch reports whether the pod wants the group of a volume to be set only if the top
// directory has another.
func (v *Volume) onRootMismatch() bool {
	s := v.Pod.Spec.SecurityContext
	return s != nil && s.FSGroupChangePolicy != nil && *s.FSGroupChangePolicy == corev1.FSGroupChangeOnRootMismatch
}

// groupAccess holds the permissions that files of a volume get for its group, beside those in their modes.
type groupAccess fs.FileMode

const (
	groupWrite groupAccess = 0o660
	// groupRead is for volumes that containers only read.
	groupRead groupAccess = 0o440
)

// directory returns the mode that directories get; the group of one is also that of new files in it.
func (a groupAccess) directory() fs.FileMode { return fs.FileMode(a) | 0o110 | fs.ModeSetgid }

// setGroup gives everything below a directory to a group. The directory itself comes last: if its
// group is right, so is all below it. Links are not followed, and nothing outside is changed, though
// a container may be writing to the directory.
func setGroup(directory string, group int64, onRootMismatch bool, access groupAccess) error {
	root, err := os.OpenRoot(directory)
	if err != nil {
		return err
	}
	defer root.Close()
	top, err := root.Lstat(".")
	if err != nil {
		return err
	}
	if onRootMismatch && hasGroup(top, group, access) {
		return nil
	}
	err = fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == "." {
			return gone(err)
		}
		info, err := entry.Info()
		if err == nil {
			err = give(root, path, info, group, access)
		}
		return gone(err)
	})
	if err != nil {
		return err
	}
	return give(root, ".", top, group, access)
}

// gone returns err unless it says that a file has been removed meanwhile.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func give(root *os.Root, path string, info fs.FileInfo, group int64, access groupAccess) error {
	if err := root.Lchown(path, -1, int(group)); err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return nil
	}
	add := fs.FileMode(access)
	if info.IsDir() {
		add = access.directory()
	}
	const bits = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
	return root.Chmod(path, info.Mode()&bits|add)
}

// hasGroup reports whether a directory already belongs to a group as setGroup would leave it.
func hasGroup(info fs.FileInfo, group int64, access groupAccess) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int64(stat.Gid) == group && info.Mode()&access.directory() == access.directory()
}

// shareTop gives the directory of a volume whose files the kubelet writes to a group, but nothing in it.
func shareTop(directory string, group int64) error {
	root, err := os.OpenRoot(directory)
	if err != nil {
		return err
	}
	defer root.Close()
	info, err := root.Lstat(".")
	if err != nil || hasGroup(info, group, groupWrite) {
		return err
	}
	return give(root, ".", info, group, groupWrite)
}
