// Package diskusage measures how much of a disk a directory of an untrusted program takes.
package diskusage

import (
	"context"
	"io/fs"
	"os"
	"syscall"

	"github.com/planekit/planekit/kubelet/internal/tree"
)

// Usage holds the space that files take on the disk.
type Usage struct{ Bytes, Inodes int64 }

// Add adds what u is and other is not part of.
func (u *Usage) Add(other Usage) { u.Bytes, u.Inodes = u.Bytes+other.Bytes, u.Inodes+other.Inodes }

// inode identifies a file with several names.
type inode struct{ device, number uint64 }

// Of returns what the file or directory at path takes, with all that is below it. It follows no link
// and enters no other file system; a file with several names counts once. Files that disappear in the
// meantime do not count. It ends early, with an error, when ctx is done: a program can create files
// faster than they are counted. What it has counted until then is part of the truth.
func Of(ctx context.Context, path string) (Usage, error) {
	info, err := os.Lstat(path)
	if err != nil {
		if os.IsNotExist(err) {
			err = nil
		}
		return Usage{}, err
	}
	const blockSize = 512 // of st_blocks, whatever the file system's is
	u := Usage{Bytes: info.Size(), Inodes: 1}
	top, ok := info.Sys().(*syscall.Stat_t)
	if ok {
		u.Bytes = top.Blocks * blockSize
	}
	if !ok || !info.IsDir() {
		return u, nil
	}
	seen := map[inode]bool{}
	err = tree.Walk(ctx, path, func(_ tree.Directory, f *tree.File) (bool, error) {
		if f.Device != uint64(top.Dev) {
			return false, nil
		}
		if key := (inode{f.Device, f.Inode}); f.Mode&fs.ModeDir == 0 && f.Links > 1 {
			if seen[key] {
				return false, nil
			}
			seen[key] = true
		}
		u.Add(Usage{Bytes: f.Bytes, Inodes: 1})
		return true, nil
	})
	return u, err
}
