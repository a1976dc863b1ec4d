//go:build !linux

package tree

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Walk calls visit for each file below a directory. A missing directory is empty.
func Walk(ctx context.Context, directory string, visit Visit) error {
	root, err := os.OpenRoot(directory)
	if err != nil {
		return ignoreMissing(err)
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil || path == "." {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return nil // it has gone
		}
		f := &File{Name: path, Mode: info.Mode(), Links: 1, Bytes: info.Size()}
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			f.Device, f.Inode, f.Links, f.Bytes = uint64(s.Dev), s.Ino, uint64(s.Nlink), s.Blocks*blockSize
		}
		enter, err := visit(inRoot{root}, f)
		if err == nil && !enter && d.IsDir() {
			return fs.SkipDir
		}
		return err
	})
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

type inRoot struct{ root *os.Root }

// Give implements Directory.
func (d inRoot) Give(f *File, group int, add fs.FileMode) error {
	path := filepath.FromSlash(f.Name)
	if err := d.root.Lchown(path, -1, group); err != nil || f.Mode&fs.ModeSymlink != 0 {
		return err
	}
	const bits = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
	return d.root.Chmod(path, f.Mode&bits|add)
}

// Remove removes a file, or a directory with all below it, like os.RemoveAll.
func Remove(ctx context.Context, path string) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return os.RemoveAll(path)
}
