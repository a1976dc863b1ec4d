package volumes

import (
	"errors"
	"fmt"
	"syscall"
)

// mountMemory mounts a tmpfs on directory, with options as in tmpfs(5).
func mountMemory(directory, options string) error {
	return syscall.Mount("tmpfs", directory, "tmpfs", 0, options)
}

func unmount(directory string) error { return syscall.Unmount(directory, 0) }

// mountFlags are the options of mount(8) that a bind mount can have.
var mountFlags = map[string]uintptr{
	"defaults": 0, "rw": 0, "ro": syscall.MS_RDONLY, "noexec": syscall.MS_NOEXEC, "nosuid": syscall.MS_NOSUID, "nodev": syscall.MS_NODEV,
	"noatime": syscall.MS_NOATIME, "nodiratime": syscall.MS_NODIRATIME, "relatime": syscall.MS_RELATIME, "strictatime": syscall.MS_STRICTATIME,
}

// mountDirectory mounts a directory at another. The kernel sets the options of a bind mount in a
// second step.
func mountDirectory(directory, at string, options []string, readOnly bool) error {
	if readOnly {
		options = append([]string{"ro"}, options...)
	}
	var flags uintptr
	for _, o := range options {
		flag, ok := mountFlags[o]
		if !ok {
			return fmt.Errorf("mount option %q is not supported by this kubelet", o)
		}
		flags |= flag
	}
	if err := syscall.Mount(directory, at, "", syscall.MS_BIND, ""); err != nil {
		return err
	}
	if flags == 0 {
		return nil
	}
	if err := syscall.Mount("", at, "", syscall.MS_BIND|syscall.MS_REMOUNT|flags, ""); err != nil {
		return errors.Join(err, unmount(at))
	}
	return nil
}

// bindRecursively mounts a directory at itself, with all that is mounted below.
func bindRecursively(directory string) error {
	return syscall.Mount(directory, directory, "", syscall.MS_BIND|syscall.MS_REC, "")
}

// makeShared makes the mount at a directory and all mounts below it shared.
func makeShared(directory string) error {
	return syscall.Mount("", directory, "", syscall.MS_SHARED|syscall.MS_REC, "")
}
