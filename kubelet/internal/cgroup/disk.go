package cgroup

import (
	"io/fs"
	"os"
	"syscall"
)

// Disk has the operations of a cgroup file system. Their errors are those of package os: fs.ErrNotExist
// for a cgroup that has been removed, EBUSY for one that is in use.
type Disk interface {
	Mkdir(path string) error
	// Rmdir removes a cgroup, with the files that the kernel keeps in it.
	Rmdir(path string) error
	ReadDir(path string) ([]fs.DirEntry, error)
	ReadFile(path string) ([]byte, error)
	WriteFile(path string, data []byte) error
}

// machine is the Disk of the machine.
type machine struct{}

func (machine) Mkdir(path string) error { return os.Mkdir(path, 0o755) }

func (machine) Rmdir(path string) error {
	if err := syscall.Rmdir(path); err != nil {
		return &fs.PathError{Op: "rmdir", Path: path, Err: err}
	}
	return nil
}

func (machine) ReadDir(path string) ([]fs.DirEntry, error) { return os.ReadDir(path) }

func (machine) ReadFile(path string) ([]byte, error) { return os.ReadFile(path) }

func (machine) WriteFile(path string, data []byte) error { return os.WriteFile(path, data, 0o644) }
