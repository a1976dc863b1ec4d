// Package diskusage measures how much of a disk a directory of an untrusted program takes.
package diskusage

import (
	"context"
	"io/fs"
	"os"
	"syscall"
)

// Usage holds the space that files take on the disk.
type Usage struct{ Bytes, Inodes int64 }

// Add adds what u is and other is not part of.
func (u *Usage) Add(other Usage) { u.Bytes, u.Inodes = u.Bytes+other.Bytes, u.Inodes+other.Inodes }

// checkEvery is the number of files after which ctx is asked.
const checkEvery = 256

// inode identifies a file with several names.
type inode struct{ device, number uint64 }

// Of returns what the file or directory at path takes, with all that is below it. It follows no link
// and enters no other file system; a file with several names counts once. Files that disappear in the
// meantime do not count. It ends early, with an error, when ctx is done: a program can create files
// faster than they are counted.
func Of(ctx context.Context, path string) (Usage, error) {
	var u Usage
	info, err := os.Lstat(path)
	if err != nil {
		return u, ignoreMissing(err)
	}
	top, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() {
		u.count(info, map[inode]bool{})
		return u, nil
	}
	// A root keeps the walk in the directory, also when directories become links in the meantime.
	root, err := os.OpenRoot(path)
	if err != nil {
		return u, ignoreMissing(err)
	}
	defer root.Close()
	seen := map[inode]bool{}
	files := 0
	err = fs.WalkDir(root.FS(), ".", func(_ string, d fs.DirEntry, err error) error {
		if files++; files%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return nil // it has gone, or has become something else
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		if s, ok := info.Sys().(*syscall.Stat_t); ok && s.Dev != top.Dev {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		u.count(info, seen)
		return nil
	})
	return u, err
}

func ignoreMissing(err error) error {
	if os.IsNotExist(err) {
		return nil
	}
	return err
}

// count adds a file, unless it was seen under another name.
func (u *Usage) count(info fs.FileInfo, seen map[inode]bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		u.Add(Usage{Bytes: info.Size(), Inodes: 1})
		return
	}
	if !info.IsDir() && s.Nlink > 1 {
		key := inode{uint64(s.Dev), s.Ino}
		if seen[key] {
			return
		}
		seen[key] = true
	}
	const blockSize = 512 // of st_blocks, whatever the file system's is
	u.Add(Usage{Bytes: s.Blocks * blockSize, Inodes: 1})
}
