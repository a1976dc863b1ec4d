package streams

import (
	"bytes"
	"context"
	"io"
	"sync"
	"unicode/utf8"
)

// The keys that a terminal acts on, as the line discipline of Linux does by default (termios(3)).
const (
	keyInterrupt = 0x03 // Ctrl-C
	keyEnd       = 0x04 // Ctrl-D
	keyBackspace = 0x08
	keyDelete    = 0x7f
)

const (
	// maxLineLength is the number of bytes of a line that is not complete, and maxLines the number
	// of lines that the program has not read. Further input is discarded.
	maxLineLength = 4095
	maxLines      = 64
)

// terminal is the least of a terminal: it collects lines, echoes them, and interrupts the program.
// Clients set their own terminal to raw mode, so without it no key would end a program.
type terminal struct {
	ctx       context.Context
	interrupt func()
	lines     chan []byte // closed at the end of input

	mu  sync.Mutex // held to write
	out io.Writer

	reading sync.Mutex
	// reading guards the field below.
	rest []byte // of the line that is read
}

func newTerminal(ctx context.Context, out io.Writer, interrupt func()) *terminal {
	return &terminal{ctx: ctx, interrupt: interrupt, lines: make(chan []byte, maxLines), out: out}
}

// Write writes output. Lines end with a carriage return, too.
func (t *terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, err := t.out.Write(bytes.ReplaceAll(p, []byte("\n"), []byte("\r\n"))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Read reads at most one line of input.
func (t *terminal) Read(p []byte) (int, error) {
	t.reading.Lock()
	defer t.reading.Unlock()
	if len(t.rest) == 0 {
		select {
		case line, ok := <-t.lines:
			if !ok {
				return 0, io.EOF
			}
			t.rest = line
		case <-t.ctx.Done():
			return 0, io.EOF
		}
	}
	n := copy(p, t.rest)
	t.rest = t.rest[n:]
	return n, nil
}

// pump takes the keys that a client sends until there are no more.
func (t *terminal) pump(keys io.Reader) {
	var line []byte
	ended := false
	end := func() {
		if !ended {
			close(t.lines)
		}
		ended = true
	}
	defer end()
	buffer := make([]byte, 1024)
	for {
		n, err := keys.Read(buffer)
		var echo []byte
		for _, key := range buffer[:n] {
			var shown string
			line, shown = typed(line, key)
			echo = append(echo, shown...)
			switch {
			case key == keyInterrupt:
				t.Write(echo) // fails only if the client has gone
				echo = nil
				t.interrupt()
			case key == keyEnd && len(line) == 0:
				end()
			case !ended && len(line) > 0 && (key == keyEnd || line[len(line)-1] == '\n'):
				select {
				case t.lines <- line:
				default: // the program does not read
				}
				line = nil
			}
		}
		if len(echo) > 0 {
			t.Write(echo)
		}
		if err != nil {
			return
		}
	}
}

// typed returns the line after a key, and what it shows.
func typed(line []byte, key byte) (after []byte, shown string) {
	switch key {
	case keyInterrupt:
		return nil, "^C\n"
	case keyEnd:
		return line, ""
	case keyBackspace, keyDelete:
		if len(line) == 0 {
			return line, ""
		}
		_, size := utf8.DecodeLastRune(line)
		return line[:len(line)-size], "\b \b"
	case '\r', '\n':
		return append(line, '\n'), "\n"
	}
	if len(line) >= maxLineLength {
		return line, ""
	}
	return append(line, key), string([]byte{key})
}
