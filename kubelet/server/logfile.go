package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

const (
	// maxLogLine bounds a line of a log file. Runtimes write pieces of 16 KiB; longer lines are not
	// from a runtime and are skipped.
	maxLogLine = 256 << 10
	// followEvery is the interval at which a followed file is read. After runningEvery intervals
	// the container is checked.
	followEvery  = 100 * time.Millisecond
	runningEvery = 10
)

// logReader copies a log file and what is appended to it.
type logReader struct {
	root    *os.Root
	path    string // in root
	options logOptions
	out     *logOutput
	// running reports whether the container may still write.
	running func() bool

	file    *os.File
	offset  int64  // of the data read so far
	pending []byte // read data that is not a complete line yet
	skip    bool   // pending began within a line that is too long
}

// openRegular opens a regular file. It fails on other files that a container may have put in its
// place, and does not block on a FIFO.
func (l *logReader) openRegular() (*os.File, error) {
	file, err := l.root.OpenFile(l.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// open opens the file and seeks to the first line to return.
func (l *logReader) open() error {
	file, err := l.openRegular()
	if err != nil {
		return err
	}
	if l.options.tail >= 0 {
		var info fs.FileInfo
		if info, err = file.Stat(); err == nil {
			l.offset, err = tailOffset(file, info.Size(), l.options.tail)
		}
	}
	if err == nil {
		_, err = file.Seek(l.offset, io.SeekStart)
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	l.file = file
	return nil
}

func (l *logReader) close() { l.file.Close() }

// copy copies the contents and, if the log is followed, what is appended, until ctx is done or the
// container has ended.
func (l *logReader) copy(ctx context.Context) error {
	if err := l.drain(ctx); err != nil || !l.options.follow {
		return done(err)
	}
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for look := 1; ; look++ {
		if err := l.out.flush(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		// Check this before reading, so that everything the container wrote is read.
		over := look%runningEvery == 0 && !l.running()
		if err := l.drain(ctx); err != nil {
			return done(err)
		}
		if err := l.rotate(ctx); err != nil || over {
			return done(err)
		}
	}
}

func done(err error) error {
	if errors.Is(err, errLimit) {
		return nil
	}
	return err
}

// rotate continues with the file that now has the name, if it was replaced or truncated. It first
// reads the old file, which is no longer written, to its end.
func (l *logReader) rotate(ctx context.Context) error {
	have, err := l.file.Stat()
	if err != nil {
		return err
	}
	now, err := l.root.Lstat(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // in the middle of a rotation
	}
	if err != nil {
		return err
	}
	if os.SameFile(have, now) {
		if now.Size() >= l.offset {
			return nil
		}
		l.offset, l.pending, l.skip = 0, nil, false
		_, err := l.file.Seek(0, io.SeekStart)
		return err
	}
	if err := l.drain(ctx); err != nil {
		return err
	}
	next, err := l.openRegular()
	if err != nil {
		return err
	}
	l.file.Close()
	l.file, l.offset, l.pending, l.skip = next, 0, nil, false
	return l.drain(ctx)
}

// drain writes the lines up to the end of the file.
func (l *logReader) drain(ctx context.Context) error {
	buffer := make([]byte, 32<<10)
	for ctx.Err() == nil {
		n, err := l.file.Read(buffer)
		l.offset += int64(n)
		if failed := l.feed(buffer[:n]); failed != nil {
			return failed
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// feed adds data of the file and writes the complete lines.
func (l *logReader) feed(data []byte) error {
	l.pending = append(l.pending, data...)
	rest := l.pending
	for {
		line, after, ok := bytes.Cut(rest, []byte("\n"))
		if !ok {
			break
		}
		rest = after
		if l.skip {
			l.skip = false
			continue
		}
		e, err := parseLine(line)
		if err != nil {
			continue // incomplete after a crash; continue with the next line
		}
		if err := l.out.write(e); err != nil {
			return err
		}
	}
	if len(rest) > maxLogLine {
		l.skip, rest = true, nil
	}
	l.pending = append(l.pending[:0], rest...)
	return nil
}

// tailOffset returns the offset of the last lines of a file of size bytes.
func tailOffset(file io.ReaderAt, size, lines int64) (int64, error) {
	if lines == 0 {
		return size, nil
	}
	buffer := make([]byte, 32<<10)
	// The final newline does not begin another line.
	for end := size - 1; end > 0; {
		begin := max(0, end-int64(len(buffer)))
		block := buffer[:end-begin]
		if _, err := file.ReadAt(block, begin); err != nil && err != io.EOF {
			return 0, err
		}
		for {
			i := bytes.LastIndexByte(block, '\n')
			if i < 0 {
				break
			}
			if lines--; lines == 0 {
				return begin + int64(i) + 1, nil
			}
			block = block[:i]
		}
		end = begin
	}
	return 0, nil
}
