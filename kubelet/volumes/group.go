package volumes

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/planekit/planekit/kubelet/internal/tree"
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
// a container may be writing to the directory. It ends early, with an error, when ctx is done.
func setGroup(ctx context.Context, directory string, group int64, onRootMismatch bool, access groupAccess) error {
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
	err = tree.Walk(ctx, directory, func(d tree.Directory, f *tree.File) (bool, error) {
		add := fs.FileMode(access)
		if f.Mode.IsDir() {
			add = access.directory()
		}
		return true, gone(d.Give(f, int(group), add))
	})
	if err != nil {
		return err
	}
	return giveTop(root, top, group, access)
}

// gone returns err unless it says that a file has been removed meanwhile.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// giveTop gives a directory itself to a group.
func giveTop(root *os.Root, info fs.FileInfo, group int64, access groupAccess) error {
	if err := root.Lchown(".", -1, int(group)); err != nil {
		return err
	}
	const bits = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
	return root.Chmod(".", info.Mode()&bits|access.directory())
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
	return giveTop(root, info, group, groupWrite)
}
