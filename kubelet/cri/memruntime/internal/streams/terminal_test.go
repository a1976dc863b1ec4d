package streams

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
)

// TestTerminal: keys become lines, and the user sees them.
func TestTerminal(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for name, test := range map[string]struct {
		keys, input, screen string
		interrupted         bool
	}{
		"a line":             {"ls -l\r", "ls -l\n", "ls -l\r\n", false},
		"two lines":          {"a\nb\r", "a\nb\n", "a\r\nb\r\n", false},
		"backspace":          {"ax\x7f\x08\x7f\x7fb\r", "b\n", "ax\b \b\b \bb\r\n", false},
		"backspace in UTF-8": {"aö\x7f\r", "a\n", "aö\b \b\r\n", false},
		"the end":            {"a\r\x04b\r", "a\n", "a\r\nb\r\n", false},
		"a part of a line":   {"a\x04", "a", "a", false},
		"interrupted":        {"a\x03b\r", "b\n", "a^C\r\nb\r\n", true},
		"a long line":        {long + "\r", long[:maxLineLength] + "\n", long[:maxLineLength] + "\r\n", false},
		"nobody reads":       {strings.Repeat("\r", 200), strings.Repeat("\n", maxLines), strings.Repeat("\r\n", 200), false},
	} {
		for _, pieces := range []bool{false, true} {
			var screen bytes.Buffer
			interrupted := false
			term := newTerminal(t.Context(), &screen, func() { interrupted = true })
			var keys io.Reader = strings.NewReader(test.keys)
			if pieces {
				keys = oneByOne{keys}
			}
			term.pump(keys)
			input, err := io.ReadAll(term)
			if err != nil || string(input) != test.input || screen.String() != test.screen || interrupted != test.interrupted {
				t.Errorf("%s: input %q, screen %q, interrupted %t, %v", name, input, &screen, interrupted, err)
			}
		}
	}
}

type oneByOne struct{ io.Reader }

func (o oneByOne) Read(p []byte) (int, error) { return o.Reader.Read(p[:min(len(p), 1)]) }

// FuzzTerminal: input is bounded whatever is typed, lines are whole, and there is no panic.
func FuzzTerminal(f *testing.F) {
	f.Add([]byte("ls\r\x7f\x03\x04ö\x7f"))
	f.Fuzz(func(t *testing.T, keys []byte) {
		term := newTerminal(t.Context(), io.Discard, func() {})
		term.pump(bytes.NewReader(keys))
		for line := range term.lines {
			if len(line) == 0 || len(line) > maxLineLength+1 || bytes.IndexByte(line[:len(line)-1], '\n') >= 0 {
				t.Errorf("a line %q", line)
			}
		}
	})
}

// FuzzSizes: the newest valid size is kept, and nothing waits for a reader.
func FuzzSizes(f *testing.F) {
	f.Add([]byte(`{"Width":80,"Height":24} {"Width":81,"Height":25}`))
	f.Add([]byte(`{"Width":-1}`))
	f.Fuzz(func(_ *testing.T, text []byte) {
		pumpSizes(make(chan Size, 1), bytes.NewReader(text))
	})
}

func TestSizes(t *testing.T) {
	sizes := make(chan Size, 1)
	pumpSizes(sizes, strings.NewReader(`{"Width":80,"Height":24} {"Width":81,"Height":25}`))
	if got := <-sizes; got != (Size{81, 25}) {
		t.Errorf("the newest size is %v", got)
	}
}

// TestTerminalEnds: a read ends with the program.
func TestTerminalEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if n, err := newTerminal(ctx, io.Discard, nil).Read(make([]byte, 10)); n != 0 || err != io.EOF {
		t.Errorf("Read() with an ended context = %d, %v, want 0, EOF", n, err)
	}
}
