package tree

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// entriesSize is the size in bytes of the buffer for the entries of a directory: some hundred. What
	// was read behind a subdirectory is read again after it.
	entriesSize = 4 << 10
	// checkEvery is the number of files after which the context is checked.
	checkEvery = 256
	// keptOpen is the number of levels whose directories stay open. Deeper ones than programs have any use
	// for are closed on the way down.
	keptOpen = 32
)

// level is a directory above the current one, or that one.
type level struct {
	fd            int // -1 unless the directory is open
	device, inode uint64
	next          int64 // the position of the entry to read next
	removed       int64 // see remover
}

// cursor is a position in a tree. Directories that are not kept open are opened again through "..", and
// must be the same ones.
type cursor struct {
	levels  []level
	entries [entriesSize]byte
	rest    []byte // of entries
	start   int64  // the position of the entry that was read last
}

// openDirectory opens a directory relative to another, and never a link.
func openDirectory(at int, name string) (int, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK
	for {
		fd, err := unix.Openat(at, name, flags, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// open makes path the top of the tree.
func (c *cursor) open(path string) error {
	fd, err := openDirectory(unix.AT_FDCWD, path)
	if err != nil {
		return err
	}
	return c.push(fd)
}

// push makes an open directory the current one.
func (c *cursor) push(fd int) error {
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	c.levels = append(c.levels, level{fd: fd, device: uint64(s.Dev), inode: s.Ino})
	c.rest = nil
	return nil
}

func (c *cursor) current() *level { return &c.levels[len(c.levels)-1] }

// down makes a subdirectory the current one. After an error, the current one stays.
func (c *cursor) down(name string) error {
	fd, err := openDirectory(c.current().fd, name)
	if err != nil {
		return err
	}
	above := len(c.levels) - 1
	if err := c.push(fd); err != nil {
		return err
	}
	if above >= keptOpen {
		c.levels[above].close()
	}
	return nil
}

// up makes the parent of the current directory the current one. If the directory was moved or removed, it
// goes on to the next level that is open. It must not be called at the top.
func (c *cursor) up() error {
	above := &c.levels[len(c.levels)-2]
	if above.fd < 0 {
		if fd, err := openDirectory(c.current().fd, ".."); err == nil {
			var s unix.Stat_t
			if err := unix.Fstat(fd, &s); err == nil && uint64(s.Dev) == above.device && s.Ino == above.inode {
				above.fd = fd
			} else {
				_ = unix.Close(fd)
			}
		}
	}
	c.current().close()
	c.levels = c.levels[:len(c.levels)-1]
	for c.current().fd < 0 {
		c.levels = c.levels[:len(c.levels)-1]
	}
	c.rest = nil
	_, err := unix.Seek(c.current().fd, c.current().next, unix.SEEK_SET)
	return err
}

func (l *level) close() {
	if l.fd >= 0 {
		_ = unix.Close(l.fd)
		l.fd = -1
	}
}

func (c *cursor) close() {
	for i := range c.levels {
		c.levels[i].close()
	}
}

// entry returns the name of the next entry of the current directory; empty at its end.
func (c *cursor) entry() (string, error) {
	for {
		for len(c.rest) == 0 {
			n, err := unix.Getdents(c.current().fd, c.entries[:])
			if err == unix.EINTR {
				continue
			}
			if err == unix.ENOENT { // the directory was removed
				return "", nil
			}
			if n <= 0 || err != nil {
				return "", err
			}
			c.rest = c.entries[:n]
		}
		// struct linux_dirent64, getdents(2): inode, position of the next entry, length, type, name.
		const nameAt = 19
		length := int(binary.NativeEndian.Uint16(c.rest[16:]))
		c.start, c.current().next = c.current().next, int64(binary.NativeEndian.Uint64(c.rest[8:]))
		name := unix.ByteSliceToString(c.rest[nameAt:length])
		c.rest = c.rest[length:]
		if name != "." && name != ".." {
			return name, nil
		}
	}
}

// Walk calls visit for each file below a directory, in no order. Files that disappear in the meantime may
// be left out. A missing directory is empty.
func Walk(ctx context.Context, directory string, visit Visit) error {
	c := &cursor{}
	defer c.close()
	err := c.open(directory)
	for files := 1; err == nil; files++ {
		if files%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		var name string
		name, err = c.entry()
		switch {
		case err != nil:
		case name != "":
			if err := c.visit(name, visit); err != nil {
				return err
			}
		case len(c.levels) == 1:
			return nil
		default:
			err = c.up()
		}
	}
	if err == unix.ENOENT {
		return nil
	}
	return &os.PathError{Op: "walk", Path: directory, Err: err}
}

// visit calls visit for a file, and enters it if it is a directory.
func (c *cursor) visit(name string, visit Visit) error {
	f, err := c.stat(name)
	if err != nil {
		return nil // it has gone
	}
	enter, err := visit(opened(c.current().fd), f)
	if err == nil && enter && f.Mode.IsDir() {
		_ = c.down(name) // or it has gone, or has become something else
	}
	return err
}

func (c *cursor) stat(name string) (*File, error) {
	var s unix.Stat_t
	if err := unix.Fstatat(c.current().fd, name, &s, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, err
	}
	f := &File{Name: name, Mode: modeOf(s.Mode), Device: uint64(s.Dev), Inode: s.Ino, Links: uint64(s.Nlink), Bytes: s.Blocks * blockSize}
	return f, nil
}

// modeOf returns the mode of the kernel as far as Give needs it.
func modeOf(mode uint32) fs.FileMode {
	m := fs.FileMode(mode).Perm()
	if mode&unix.S_ISUID != 0 {
		m |= fs.ModeSetuid
	}
	if mode&unix.S_ISGID != 0 {
		m |= fs.ModeSetgid
	}
	if mode&unix.S_ISVTX != 0 {
		m |= fs.ModeSticky
	}
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR:
		m |= fs.ModeDir
	case unix.S_IFLNK:
		m |= fs.ModeSymlink
	case unix.S_IFREG:
	default:
		m |= fs.ModeIrregular
	}
	return m
}

// opened is the file descriptor of a directory.
type opened int

// Give implements Directory. The file is opened first, without its content, so that all changes are made
// to one file.
func (d opened) Give(f *File, group int, add fs.FileMode) error {
	fd, err := unix.Openat(int(d), f.Name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: f.Name, Err: err}
	}
	defer unix.Close(fd)
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return &os.PathError{Op: "stat", Path: f.Name, Err: err}
	}
	if err := unix.Fchownat(fd, "", -1, group, unix.AT_EMPTY_PATH); err != nil {
		return &os.PathError{Op: "chown", Path: f.Name, Err: err}
	}
	mode := modeOf(s.Mode)
	if mode&fs.ModeSymlink != 0 {
		return nil
	}
	const bits = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
	if mode.IsDir() != f.Mode.IsDir() {
		return nil // another file has taken its place
	}
	return os.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), mode&bits|add)
}
