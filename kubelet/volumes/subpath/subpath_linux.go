package subpath

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// maxResolveAttempts bounds the attempts to resolve a path while directories are being renamed.
const maxResolveAttempts = 64

// Mount binds the file or directory at path in volume to target, and returns target. What is missing
// of path is created as directories with the mode of the volume. A mount of the same file that is at
// target already is kept; one of another file, which path may have had before, is replaced. The
// parent of target must exist, and must not be writable for pods.
func Mount(volume, path, target string) (string, error) {
	if err := Check(path); err != nil {
		return "", err
	}
	root, err := unix.Open(volume, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", &os.PathError{Op: "open", Path: volume, Err: err}
	}
	defer unix.Close(root)
	source, err := openOrCreate(root, filepath.Clean(path))
	if err != nil {
		return "", &os.PathError{Op: "open in volume", Path: path, Err: err}
	}
	defer unix.Close(source)
	var want unix.Stat_t
	if err := unix.Fstat(source, &want); err != nil {
		return "", &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if isMounted(target, &want) {
		return target, nil
	}
	if err := unmountAll(target); err != nil {
		return "", err
	}
	if err := makeTarget(target, want.Mode&unix.S_IFMT == unix.S_IFDIR); err != nil {
		return "", err
	}
	link := fmt.Sprintf("/proc/self/fd/%d", source)
	err = unix.Mount(link, target, "", unix.MS_BIND, "")
	if err == unix.EPERM && os.Geteuid() != 0 {
		return os.Readlink(link)
	}
	if err != nil {
		return "", &os.PathError{Op: "bind", Path: target, Err: err}
	}
	return target, nil
}

// openOrCreate opens path, which is clean, below the directory root, and creates the directories
// that are missing.
func openOrCreate(root int, path string) (int, error) {
	found, err := resolve(root, path)
	if err != unix.ENOENT {
		return found, err
	}
	var volume unix.Stat_t
	if err := unix.Fstat(root, &volume); err != nil {
		return -1, err
	}
	parent := root
	names := strings.Split(path, "/")
	for i, name := range names {
		next, err := resolve(root, strings.Join(names[:i+1], "/"))
		if err == unix.ENOENT {
			next, err = makeDirectory(parent, name, volume.Mode&0o777)
		}
		if parent != root {
			unix.Close(parent)
		}
		if err != nil {
			return -1, err
		}
		parent = next
	}
	return parent, nil
}

// resolve opens path below the directory root for nothing but its use as a location. The kernel
// refuses to leave root, also when directories are moved in the meantime.
func resolve(root int, path string) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	for range maxResolveAttempts {
		found, err := unix.Openat2(root, path, &how)
		switch {
		case err == unix.EXDEV || err == unix.ELOOP:
			return -1, fmt.Errorf("%w: %w", ErrEscapes, err)
		case err == unix.EAGAIN || err == unix.EINTR:
			// A directory was renamed while the kernel resolved the path.
			continue
		}
		return found, err
	}
	return -1, unix.EAGAIN
}

// makeDirectory creates a directory in the directory parent and opens it. It does not follow a link
// that has taken its place.
func makeDirectory(parent int, name string, mode uint32) (int, error) {
	if err := unix.Mkdirat(parent, name, mode); err != nil && err != unix.EEXIST {
		return -1, err
	} else if err == unix.EEXIST {
		// Another process has created it, or it is a link to nothing.
		return unix.Openat(parent, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	}
	made, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	var is unix.Stat_t
	err = unix.Fstat(made, &is)
	if err == nil {
		// The umask applied above; a set-group-ID bit was inherited.
		err = unix.Fchmod(made, mode|is.Mode&unix.S_ISGID)
	}
	if err != nil {
		unix.Close(made)
		return -1, err
	}
	return made, nil
}

// isMounted reports whether the file at target is want. Nothing but a mount can have this effect.
func isMounted(target string, want *unix.Stat_t) bool {
	var is unix.Stat_t
	return unix.Lstat(target, &is) == nil && is.Dev == want.Dev && is.Ino == want.Ino
}

// unmountAll removes all mounts at target, of which there may be several after a failure.
func unmountAll(target string) error {
	for {
		err := unix.Unmount(target, unix.UMOUNT_NOFOLLOW)
		switch {
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
			return nil
		case err == unix.EPERM && os.Geteuid() != 0:
			return nil
		case err == unix.EBUSY:
			// A container still uses it. The mount is removed when it has ended.
			err = unix.Unmount(target, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
			fallthrough
		default:
			if err != nil {
				return &os.PathError{Op: "unmount", Path: target, Err: err}
			}
		}
	}
}

// makeTarget creates what a file or directory can be mounted on. It replaces one of the other type.
func makeTarget(target string, directory bool) error {
	info, err := os.Lstat(target)
	if err == nil && info.IsDir() != directory {
		if err := os.Remove(target); err != nil {
			return err
		}
	}
	if directory {
		return os.MkdirAll(target, 0o750)
	}
	file, err := os.OpenFile(target, os.O_CREATE|os.O_RDONLY, 0o640)
	if err != nil {
		return err
	}
	return file.Close()
}
