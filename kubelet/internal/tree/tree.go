// Package tree walks and removes directories that untrusted programs have filled.
//
// A program can nest directories deeper than a path can name, put millions of files into one, and move
// them while they are read. Walk and Remove take the same memory and the same few file descriptors
// whatever they find, follow no link, leave the directory in no other way, and end with their context.
// Without Linux they use the standard library.
package tree

import "io/fs"

// File is a file in a directory of a tree.
type File struct {
	Name          string
	Mode          fs.FileMode
	Device, Inode uint64
	Links         uint64
	// Bytes is the space on the disk.
	Bytes int64
}

// A Directory is the directory that a walk is in. It must not be used after the call that it was passed
// to.
type Directory interface {
	// Give sets the group of a file in the directory and, unless it is a link, adds permissions to its
	// mode. It never follows a link, also not one that has taken the place of the file.
	Give(f *File, group int, add fs.FileMode) error
}

// Visit is called for each file. A directory is entered afterwards, unless enter is false. An error ends
// the walk.
type Visit func(d Directory, f *File) (enter bool, err error)

// blockSize is the unit of st_blocks in bytes, whatever the file system's is.
const blockSize = 512
