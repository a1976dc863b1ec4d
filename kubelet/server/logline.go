package server

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"time"
)

// entry is one line of a log file: a line of the container or a part of one.
type entry struct {
	time    time.Time
	stamp   []byte // time as in the file
	stream  string
	partial bool // the line continues in the next entry of the stream
	text    []byte
}

var errNotCRI = errors.New("not a line of a container's log")

// parseLine parses a line of a log without its newline: TIME STREAM TAGS TEXT, where the first of
// the tags, separated by colons, is P or F. The entry shares line's bytes.
func parseLine(line []byte) (entry, error) {
	var e entry
	stamp, rest, ok := bytes.Cut(line, []byte(" "))
	if !ok {
		return e, errNotCRI
	}
	stream, rest, ok := bytes.Cut(rest, []byte(" "))
	if !ok {
		return e, errNotCRI
	}
	tags, text, _ := bytes.Cut(rest, []byte(" "))
	tag, _, _ := bytes.Cut(tags, []byte(":"))
	switch string(stream) {
	case "stdout", "stderr":
		e.stream = string(stream)
	default:
		return e, errNotCRI
	}
	switch string(tag) {
	case "P":
		e.partial = true
	case "F":
	default:
		return e, errNotCRI
	}
	var err error
	if e.time, err = time.Parse(time.RFC3339Nano, string(stamp)); err != nil {
		return e, errNotCRI
	}
	e.stamp, e.text = stamp, text
	return e, nil
}

// errLimit means that the requested number of bytes was written.
var errLimit = errors.New("limit reached")

// logOutput writes entries in the requested form.
type logOutput struct {
	w       io.Writer
	flush   func() error
	options logOptions
	left    int64 // bytes that may still be written; negative: no limit
	midway  bool  // the last entry was partial: write no time before the next
}

func newLogOutput(w http.ResponseWriter, o logOptions) *logOutput {
	return &logOutput{w: w, flush: http.NewResponseController(w).Flush, options: o, left: o.limit}
}

// write writes one entry, unless it is too old or of another stream.
func (l *logOutput) write(e entry) error {
	if e.time.Before(l.options.since) || l.options.stream != "" && e.stream != l.options.stream {
		return nil
	}
	if l.options.timestamps && !l.midway {
		if err := l.put(e.stamp); err != nil {
			return err
		}
		if err := l.put([]byte(" ")); err != nil {
			return err
		}
	}
	l.midway = e.partial
	if err := l.put(e.text); err != nil || e.partial {
		return err
	}
	return l.put([]byte("\n"))
}

func (l *logOutput) put(data []byte) error {
	cut := l.left >= 0 && int64(len(data)) >= l.left
	if cut {
		data = data[:l.left]
	}
	if _, err := l.w.Write(data); err != nil {
		return err
	}
	if l.left >= 0 {
		l.left -= int64(len(data))
	}
	if cut {
		return errLimit
	}
	return nil
}
