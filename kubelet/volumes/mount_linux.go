package volumes

import "syscall"

// mountMemory mounts a tmpfs on directory, with options as in tmpfs(5).
func mountMemory(directory, options string) error {
	return syscall.Mount("tmpfs", directory, "tmpfs", 0, options)
}

func unmount(directory string) error { return syscall.Unmount(directory, 0) }
