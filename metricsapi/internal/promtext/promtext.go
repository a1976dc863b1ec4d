// Package promtext reads Prometheus' text format, version 0.0.4
// (https://prometheus.io/docs/instrumenting/exposition_formats/#text-format-details), from a server
// that is not trusted. It holds one line at a time, and it is strict: the first line that the format
// does not allow ends the reading with an error that has its number.
package promtext

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxLine is the maximum length of a line in bytes. The longest sample of a kubelet has about 1 KiB.
const MaxLine = 16 << 10

// A Sample is one line with a value.
type Sample struct {
	Name   string
	Labels map[string]string // nil if there are none
	Value  float64
	// Time is zero if the line has none.
	Time time.Time
}

// Parse reads r to its end, at most limit bytes, and calls add with each sample. It returns the
// first error of r, of the text or of add.
func Parse(r io.Reader, limit int64, add func(Sample) error) error {
	limited := &io.LimitedReader{R: r, N: limit + 1}
	lines := bufio.NewReaderSize(limited, MaxLine)
	for number := 1; ; number++ {
		line, err := lines.ReadSlice('\n')
		switch {
		case limited.N <= 0:
			return fmt.Errorf("the metrics are longer than %d bytes", limit)
		case errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("line %d of the metrics is longer than %d bytes", number, MaxLine)
		case errors.Is(err, io.EOF) && len(line) > 0:
			return fmt.Errorf("line %d of the metrics is cut off", number)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		sample, ok, err := parseLine(line[:len(line)-1])
		if err == nil && ok {
			err = add(sample)
		}
		if err != nil {
			return fmt.Errorf("line %d of the metrics: %w", number, err)
		}
	}
}

// parseLine returns the sample of a line; ok is false for an empty line and a comment.
func parseLine(line []byte) (s Sample, ok bool, err error) {
	if !utf8.Valid(line) {
		return s, false, errors.New("invalid UTF-8")
	}
	line = bytes.Trim(line, " \t")
	if len(line) == 0 || line[0] == '#' {
		return s, false, nil
	}
	rest := string(line)
	if s.Name, rest = name(rest, ":"); s.Name == "" {
		return s, false, fmt.Errorf("a metric cannot begin with %q", head(rest))
	}
	if after, ok := strings.CutPrefix(trim(rest), "{"); ok {
		if s.Labels, rest, err = labels(after); err != nil {
			return s, false, fmt.Errorf("%s: %w", s.Name, err)
		}
	} else if rest != "" && trim(rest) == rest {
		return s, false, fmt.Errorf("%s: %q follows the name", s.Name, head(rest))
	}
	fields := strings.FieldsFunc(rest, func(r rune) bool { return r == ' ' || r == '\t' })
	if len(fields) < 1 || len(fields) > 2 {
		return s, false, fmt.Errorf("%s: want a value and perhaps a time, not %q", s.Name, head(rest))
	}
	if s.Value, err = value(fields[0]); err != nil {
		return s, false, fmt.Errorf("%s: the value %q is not a number", s.Name, head(fields[0]))
	}
	if len(fields) == 2 {
		milliseconds, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return s, false, fmt.Errorf("%s: the time %q is not a number of milliseconds", s.Name, head(fields[1]))
		}
		s.Time = time.UnixMilli(milliseconds)
	}
	return s, true, nil
}

// labels reads what follows the opening brace, and the closing one.
func labels(text string) (map[string]string, string, error) {
	out := map[string]string{}
	for {
		text = trim(text)
		if rest, ok := strings.CutPrefix(text, "}"); ok {
			return out, rest, nil
		}
		label, rest := name(text, "")
		if label == "" {
			return nil, "", fmt.Errorf("a label cannot begin with %q", head(text))
		}
		rest, ok := strings.CutPrefix(trim(rest), "=")
		if rest = trim(rest); !ok || !strings.HasPrefix(rest, `"`) {
			return nil, "", fmt.Errorf(`label %s: want =" and a value`, label)
		}
		if _, twice := out[label]; twice {
			return nil, "", fmt.Errorf("label %s appears twice", label)
		}
		var err error
		if out[label], rest, err = quoted(rest[1:]); err != nil {
			return nil, "", fmt.Errorf("label %s: %w", label, err)
		}
		rest = trim(rest)
		if text, ok = strings.CutPrefix(rest, ","); !ok && !strings.HasPrefix(rest, "}") {
			return nil, "", fmt.Errorf("label %s: %q follows the value", label, head(rest))
		}
	}
}

// quoted reads what follows the opening quote, and the closing one.
func quoted(text string) (string, string, error) {
	var b strings.Builder
	for {
		i := strings.IndexAny(text, `"\`)
		if i < 0 || text[i] == '\\' && i+1 == len(text) {
			return "", "", errors.New("the value has no end")
		}
		b.WriteString(text[:i])
		if text[i] == '"' {
			return b.String(), text[i+1:], nil
		}
		switch c := text[i+1]; c {
		case 'n':
			b.WriteByte('\n')
		case '"', '\\':
			b.WriteByte(c)
		default:
			return "", "", fmt.Errorf("invalid escape %q", head(text[i:]))
		}
		text = text[i+2:]
	}
}

// name splits text after the name with which it begins. more are further characters of names.
func name(text, more string) (string, string) {
	i := 0
	for ; i < len(text); i++ {
		c := text[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || strings.IndexByte(more, c) >= 0
		if !letter && (i == 0 || c < '0' || c > '9') {
			break
		}
	}
	return text[:i], text[i:]
}

// value parses a number as Prometheus does: without the underscores and the hexadecimal form of Go.
func value(text string) (float64, error) {
	if strings.ContainsAny(text, "pP_") {
		return 0, strconv.ErrSyntax
	}
	v, err := strconv.ParseFloat(text, 64)
	if errors.Is(err, strconv.ErrRange) {
		err = nil // it is infinite, or the nearest number
	}
	return v, err
}

func trim(text string) string { return strings.TrimLeft(text, " \t") }

// head returns the beginning of text for an error.
func head(text string) string {
	if len(text) > 40 {
		return text[:40] + "..."
	}
	return text
}
