package logs

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// stampLayout is the form of the time at the end of the name of a rotated file.
	stampLayout = "20060102-150405"
	// compressed ends the name of a compressed file, and unfinished that of one being written.
	compressed = ".gz"
	unfinished = ".tmp"
)

// rotation is the rotation of one log.
type rotation struct {
	// path leads to the file that the runtime writes to.
	path string
	// files is the maximum number of files, path included.
	files int
	// most is the maximum size of the older files in bytes.
	most int64
	// reopen makes the runtime open path again.
	reopen func(context.Context) error
	now    time.Time
	// before, if not nil, is called before each change on the disk.
	before func(change string)
}

func (r *rotation) change(what string) {
	if r.before != nil {
		r.before(what)
	}
}

// rotate renames the log, so that the runtime begins a new file, and compresses or removes the
// older files. It may end anywhere: what it leaves is continued by the next rotation. A failure to
// compress does not keep the log from being rotated.
func (r *rotation) rotate(ctx context.Context) error {
	older, err := r.older()
	if err != nil {
		return err
	}
	// After the rotation there are two more: the log, and the file that it is now.
	excess := max(0, len(older)-(r.files-2))
	excess = max(excess, r.tooLarge(older))
	for _, path := range older[:excess] {
		r.change("remove " + path)
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove rotated log: %w", err)
		}
	}
	var failed error
	for _, path := range older[excess:] {
		if !strings.HasSuffix(path, compressed) {
			failed = errors.Join(failed, r.compress(ctx, path))
		}
	}
	return errors.Join(failed, r.rename(ctx))
}

// tooLarge returns how many of the older files, oldest first, do not fit.
func (r *rotation) tooLarge(older []string) int {
	left := r.most
	for i := len(older) - 1; i >= 0; i-- {
		if info, err := os.Lstat(older[i]); err == nil {
			left -= info.Size()
		}
		if left < 0 {
			return i + 1
		}
	}
	return 0
}

// older returns the rotated files of the log, oldest first. It removes what an interrupted
// compression has left.
func (r *rotation) older() ([]string, error) {
	entries, err := os.ReadDir(filepath.Dir(r.path))
	if err != nil {
		return nil, err
	}
	var found []string
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), filepath.Base(r.path)+".")
		if !ok || !e.Type().IsRegular() {
			continue
		}
		path := filepath.Join(filepath.Dir(r.path), e.Name())
		if strings.HasSuffix(rest, unfinished) {
			r.change("remove " + path)
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
			continue
		}
		if _, err := time.Parse(stampLayout, strings.TrimSuffix(rest, compressed)); err == nil {
			found = append(found, path)
		}
	}
	slices.Sort(found) // by time; a file comes just before its compressed form
	var list []string
	for i, path := range found {
		if i+1 < len(found) && found[i+1] == path+compressed {
			// It was compressed, and not removed.
			r.change("remove " + path)
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
			continue
		}
		list = append(list, path)
	}
	return list, nil
}

// compress replaces a file by its compressed form.
func (r *rotation) compress(ctx context.Context, path string) (err error) {
	in, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("compress log: %w", err)
	}
	defer in.Close()
	half := path + compressed + unfinished
	r.change("create " + half)
	out, err := os.OpenFile(half, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o640)
	if err != nil {
		return fmt.Errorf("compress log: %w", err)
	}
	w := gzip.NewWriter(out)
	_, err = io.Copy(w, &stopping{ctx, in})
	// Without Sync, a power failure could leave an empty file in place of the log.
	err = errors.Join(err, w.Close(), out.Sync(), out.Close())
	if err == nil {
		r.change("rename " + half)
		err = os.Rename(half, path+compressed)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("compress log: %w", err), os.Remove(half))
	}
	r.change("remove " + path)
	return os.Remove(path)
}

// stopping is a reader that fails when ctx is done.
type stopping struct {
	ctx context.Context
	io.Reader
}

func (s *stopping) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.Reader.Read(p)
}

// rename gives the log its rotated name and makes the runtime begin a new one. If the runtime
// refuses, the log keeps its name.
func (r *rotation) rename(ctx context.Context) error {
	rotated := r.path + "." + r.now.UTC().Format(stampLayout)
	for _, taken := range []string{rotated, rotated + compressed} {
		if _, err := os.Lstat(taken); err == nil {
			return nil // rotated in the same second; the next look rotates it again
		}
	}
	r.change("rename " + r.path)
	if err := os.Rename(r.path, rotated); err != nil {
		return fmt.Errorf("rotate log: %w", err)
	}
	r.change("reopen " + r.path)
	err := r.reopen(ctx)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("reopen log: %w", err)
	if _, lost := os.Lstat(r.path); errors.Is(lost, fs.ErrNotExist) {
		// The runtime still writes to the file that it has open.
		err = errors.Join(err, os.Rename(rotated, r.path))
	}
	return err
}

// Remove removes the log at path with all its rotated files.
func Remove(path string) error {
	entries, err := os.ReadDir(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if e.Name() == filepath.Base(path) || strings.HasPrefix(e.Name(), filepath.Base(path)+".") {
			err := os.Remove(filepath.Join(filepath.Dir(path), e.Name()))
			if !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}
