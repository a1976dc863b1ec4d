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

// groupMode and groupDirectoryMode are the permissions that the group gets, beside those that files
// have; the group of a directory is also that of new files in it.
const (
	groupMode          fs.FileMode = 0o660
	groupDirectoryMode             = groupMode | 0o110 | fs.ModeSetgid
)

// setGroup gives everything below a directory to a group. The directory itself comes last: if its
// group is right, so is all below it. Links are not followed, and nothing outside is changed, though
// a container may be writing to the directory.
func setGroup(directory string, group int64, onRootMismatch bool) error {
	root, err := os.OpenRoot(directory)
	if err != nil {
		return err
	}
	defer root.Close()
	top, err := root.Lstat(".")
	if err != nil {
		return err
	}
	if onRootMismatch && hasGroup(top, group) {
		return nil
	}
	err = fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == "." {
			return gone(err)
		}
		info, err := entry.Info()
		if err == nil {
			err = give(root, path, info, group)
		}
		return gone(err)
	})
	if err != nil {
		return err
	}
	return give(root, ".", top, group)
}

// gone returns err unless it says that a file has been removed meanwhile.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func give(root *os.Root, path string, info fs.FileInfo, group int64) error {
	if err := root.Lchown(path, -1, int(group)); err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return nil
	}
	add := groupMode
	if info.IsDir() {
		add = groupDirectoryMode
	}
	const bits = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
	return root.Chmod(path, info.Mode()&bits|add)
}

// hasGroup reports whether a directory already belongs to a group as setGroup would leave it.
func hasGroup(info fs.FileInfo, group int64) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int64(stat.Gid) == group && info.Mode()&groupDirectoryMode == groupDirectoryMode
}
