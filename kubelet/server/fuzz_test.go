package server

import (
	"bytes"
	"io"
	"testing"
	"time"
)

func TestParseLine(t *testing.T) {
	const now = "2026-01-02T03:04:05.678Z"
	for line, want := range map[string]string{
		now + " stdout F text":        "stdout text",
		now + " stderr F a  b ":       "stderr a  b ",
		now + " stdout F":             "stdout ",
		now + " stdout P:more text":   "stdout+ text",
		now + " stdout F:a:b x":       "stdout x",
		"":                            "",
		now:                           "",
		now + " stdout":               "",
		now + " stdin F text":         "",
		now + " stdout X text":        "",
		"yesterday stdout F text":     "",
		`{"log":"docker's own form"}`: "",
	} {
		e, err := parseLine([]byte(line))
		got := ""
		if err == nil {
			got = e.stream
			if e.partial {
				got += "+"
			}
			got += " " + string(e.text)
		}
		if got != want {
			t.Errorf("%q: %q, %v; want %q", line, got, err, want)
		}
	}
}

// FuzzLogs: however the bytes of a file come in, the same is written, never
// more than the limit, and parsing survives anything.
func FuzzLogs(f *testing.F) {
	f.Add([]byte("2026-01-02T03:04:05Z stdout F a\n2026-01-02T03:04:05Z stderr P b\nrubbish\n2026-01-02T03:04:05Z stderr F c\n"), 7, int64(-1))
	f.Add([]byte("2026-01-02T03:04:05Z stdout F abc\n"), 1, int64(2))
	f.Add([]byte("\n\n x y z \n"), 3, int64(1))
	f.Fuzz(func(t *testing.T, file []byte, cut int, limit int64) {
		if limit == 0 || limit < -1 || cut <= 0 {
			return
		}
		read := func(step int) []byte {
			var out bytes.Buffer
			o := logOptions{limit: limit, timestamps: true, since: time.Unix(0, 0)}
			l := logReader{out: &logOutput{w: &out, options: o, left: limit}}
			for rest := file; len(rest) > 0; {
				n := min(step, len(rest))
				if l.feed(rest[:n]) != nil {
					break
				}
				rest = rest[n:]
			}
			return out.Bytes()
		}
		whole, pieces := read(len(file)+1), read(cut)
		if !bytes.Equal(whole, pieces) && len(file) < maxLogLine {
			t.Errorf("at once %q, in pieces of %d %q", whole, cut, pieces)
		}
		if limit > 0 && int64(len(whole)) > limit {
			t.Errorf("%d bytes written, limit %d", len(whole), limit)
		}
		// A tail is where a line begins.
		for _, lines := range []int64{0, 1, 2, 1000} {
			at, err := tailOffset(bytes.NewReader(file), int64(len(file)), lines)
			if err != nil && err != io.EOF || at < 0 || at > int64(len(file)) || at > 0 && at < int64(len(file)) && file[at-1] != '\n' {
				t.Errorf("tail of %d lines at %d: %v", lines, at, err)
			}
		}
	})
}

// TestLongLines: what no runtime writes is passed over, and memory is bounded.
func TestLongLines(t *testing.T) {
	var out bytes.Buffer
	l := logReader{out: &logOutput{w: &out, options: logOptions{limit: -1}, left: -1}}
	const head = "2026-01-02T03:04:05Z stdout F "
	for _, data := range []string{head, "a\n" + head} {
		if err := l.feed([]byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		if err := l.feed(bytes.Repeat([]byte("x"), maxLogLine/4)); err != nil {
			t.Fatal(err)
		}
		if len(l.pending) > 2*maxLogLine {
			t.Fatalf("%d bytes are held", len(l.pending))
		}
	}
	if err := l.feed([]byte("\n" + head + "b\n")); err != nil || out.String() != "a\nb\n" {
		t.Errorf("feed: %v, the output is %q; want %q", err, out.String(), "a\nb\n")
	}
}
