package tree

import (
	"context"
	"os"

	"golang.org/x/sys/unix"
)

// Remove removes a file, or a directory with all below it, like os.RemoveAll. Nothing may be mounted
// below it. It ends early, with an error, when ctx is done.
func Remove(ctx context.Context, path string) error {
	err := unlink(unix.AT_FDCWD, path)
	if err != unix.ENOTEMPTY {
		return pathError(path, err)
	}
	r := &remover{}
	defer r.close()
	for err = r.open(path); err == nil; {
		before := r.removed
		if err = r.empty(ctx); err != nil {
			break
		}
		// Some file systems leave out entries while others are removed.
		if err = unlink(unix.AT_FDCWD, path); err != unix.ENOTEMPTY || r.removed == before {
			break
		}
		_, err = unix.Seek(r.current().fd, 0, unix.SEEK_SET)
	}
	return pathError(path, err)
}

func pathError(path string, err error) error {
	if err == nil || err == unix.ENOENT {
		return nil
	}
	return &os.PathError{Op: "remove", Path: path, Err: err}
}

// remover removes the files at its cursor.
type remover struct {
	cursor
	removed int64 // files so far; a level remembers it from when it became the current one
}

// empty removes everything below the top. It goes down to what is not empty, and reads its entry again on
// the way up, so that no names are kept.
func (r *remover) empty(ctx context.Context) error {
	for {
		below, err := r.files(ctx)
		if err != nil {
			return err
		}
		if below != "" {
			r.current().next = r.start
			if err := r.down(below); err == nil {
				r.current().removed = r.removed
			} else if err != unix.ENOENT {
				return err
			}
			continue
		}
		if len(r.levels) == 1 {
			return nil
		}
		// A directory that has not become less never ends.
		if r.current().removed == r.removed {
			return unix.ENOTEMPTY
		}
		if err := r.up(); err != nil {
			return err
		}
	}
}

// files removes the files and empty directories of the current directory. It ends at the first that is not
// empty, and returns its name.
func (r *remover) files(ctx context.Context) (below string, err error) {
	for n := 1; ; n++ {
		if n%checkEvery == 0 && ctx.Err() != nil {
			return "", ctx.Err()
		}
		name, err := r.entry()
		if name == "" || err != nil {
			return "", err
		}
		switch err := unlink(r.current().fd, name); err {
		case nil, unix.ENOENT:
			r.removed++
		case unix.ENOTEMPTY:
			return name, ctx.Err()
		default:
			return "", err
		}
	}
}

// unlink removes a file or an empty directory.
func unlink(at int, name string) error {
	err := unix.Unlinkat(at, name, 0)
	if err == unix.EISDIR || err == unix.EPERM {
		if removed := unix.Unlinkat(at, name, unix.AT_REMOVEDIR); removed != unix.ENOTDIR {
			err = removed
		}
	}
	if err == unix.EEXIST { // as some file systems say it
		err = unix.ENOTEMPTY
	}
	return err
}
