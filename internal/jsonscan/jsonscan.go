// Package jsonscan reads the structure of JSON texts without building values.
//
//	err := jsonscan.Check(ctx, body, 256)
//
// It accepts the same texts as encoding/json, except that it stops with an error where a text is
// nested deeper than the caller allows. It needs no memory except a stack of that depth, and it
// stops when its context ends.
package jsonscan

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// These are the errors that an *Error unwraps to.
var (
	ErrMalformed = errors.New("malformed JSON")
	ErrTooDeep   = errors.New("nested too deeply")
)

// Error describes a problem with a text at Offset, in bytes.
type Error struct {
	Offset int
	What   string
	is     error
}

func (e *Error) Error() string { return fmt.Sprintf("%s at byte %d", e.What, e.Offset) }
func (e *Error) Unwrap() error { return e.is }

// Visitor receives the values of a text in order. If it returns an error, the scan stops.
type Visitor interface {
	// Begin and End are called for an object ('{') or array ('['), with the position of its first
	// byte and the position after its last byte.
	Begin(open byte, at int) error
	End(at int)
	// Name is called before the value of a member. It must not retain quoted.
	Name(quoted []byte) error
	// Scalar is called for every other value, with its text. It must not retain text.
	Scalar(text []byte) error
}

// checkEvery is the number of values between two checks of the context.
const checkEvery = 4096

// Check returns an error unless data is one JSON value with at most depth levels of objects and
// arrays.
func Check(ctx context.Context, data []byte, depth int) error {
	return Scan(ctx, data, depth, nil)
}

// Scan does the same as Check and reports the values to a visitor, unless it is nil.
func Scan(ctx context.Context, data []byte, depth int, v Visitor) error {
	s := scanner{ctx: ctx, data: data, depth: depth, visitor: v}
	s.space()
	if err := s.value(0); err != nil {
		return err
	}
	if s.space(); s.pos != len(data) {
		return s.malformed("text after the value")
	}
	return nil
}

type scanner struct {
	ctx     context.Context
	data    []byte
	pos     int
	depth   int // maximum number of levels
	seen    int // number of values
	visitor Visitor
}

func (s *scanner) malformed(what string) error {
	if s.pos >= len(s.data) {
		what = "unexpected end of JSON input"
	}
	return &Error{s.pos, what, ErrMalformed}
}

func (s *scanner) peek() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

func (s *scanner) space() { s.pos = SkipSpace(s.data, s.pos) }

// SkipSpace returns the position after the white space at pos, if any.
func SkipSpace(data []byte, pos int) int {
	for pos < len(data) && (data[pos] == ' ' || data[pos] == '\n' || data[pos] == '\t' || data[pos] == '\r') {
		pos++
	}
	return pos
}

func (s *scanner) value(level int) error {
	if s.seen++; s.seen%checkEvery == 0 {
		if err := s.ctx.Err(); err != nil {
			return err
		}
	}
	c := s.peek()
	if c == '{' || c == '[' {
		return s.container(c, level+1)
	}
	start := s.pos
	if err := s.scalar(c); err != nil || s.visitor == nil {
		return err
	}
	return s.visitor.Scalar(s.data[start:s.pos])
}

func (s *scanner) scalar(c byte) error {
	switch c {
	case '"':
		return s.text()
	case 'n':
		return s.word("null")
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return s.number()
	}
	return s.malformed("invalid JSON value")
}

func (s *scanner) word(word string) error {
	if len(s.data)-s.pos < len(word) || string(s.data[s.pos:s.pos+len(word)]) != word {
		return s.malformed("invalid JSON value")
	}
	s.pos += len(word)
	return nil
}

// container reads an object or array that begins at pos.
func (s *scanner) container(open byte, level int) error {
	if level > s.depth {
		return &Error{s.pos, fmt.Sprintf("exceeded max depth: more than %d levels of nesting", s.depth), ErrTooDeep}
	}
	if s.visitor != nil {
		if err := s.visitor.Begin(open, s.pos); err != nil {
			return err
		}
	}
	s.pos++
	closing := open + 2 // this holds in ASCII
	for first := true; ; first = false {
		s.space()
		c := s.peek()
		if c == closing {
			break
		}
		if !first {
			if c != ',' {
				return s.malformed("invalid JSON: a comma or an end is missing")
			}
			s.pos++
			s.space()
		}
		if open == '{' {
			if err := s.name(); err != nil {
				return err
			}
		}
		if err := s.value(level); err != nil {
			return err
		}
	}
	s.pos++
	if s.visitor != nil {
		s.visitor.End(s.pos)
	}
	return nil
}

// name reads the name of a member, up to its value.
func (s *scanner) name() error {
	if s.peek() != '"' {
		return s.malformed("invalid JSON: a name is missing")
	}
	from := s.pos
	if err := s.text(); err != nil {
		return err
	}
	if s.visitor != nil {
		if err := s.visitor.Name(s.data[from:s.pos]); err != nil {
			return err
		}
	}
	if s.space(); s.peek() != ':' {
		return s.malformed("invalid JSON: a colon is missing")
	}
	s.pos++
	s.space()
	return nil
}

func (s *scanner) text() error {
	for s.pos++; s.pos < len(s.data); s.pos++ {
		switch c := s.data[s.pos]; {
		case c == '"':
			s.pos++
			return nil
		case c < ' ':
			return s.malformed("invalid JSON: a control character in a string")
		case c == '\\':
			if err := s.escape(); err != nil {
				return err
			}
		}
	}
	return s.malformed("")
}

// escape reads an escape of a string, up to its last byte.
func (s *scanner) escape() error {
	s.pos++
	switch s.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return nil
	case 'u':
		for range 4 {
			if s.pos++; !isHex(s.peek()) {
				return s.malformed("invalid JSON: an escape of a string")
			}
		}
		return nil
	}
	return s.malformed("invalid JSON: an escape of a string")
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func (s *scanner) number() error {
	if s.peek() == '-' {
		s.pos++
	}
	if s.peek() == '0' {
		s.pos++
	} else if !s.digits() {
		return s.malformed("invalid JSON number")
	}
	if s.peek() == '.' {
		if s.pos++; !s.digits() {
			return s.malformed("invalid JSON number")
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		if s.pos++; s.peek() == '+' || s.peek() == '-' {
			s.pos++
		}
		if !s.digits() {
			return s.malformed("invalid JSON number")
		}
	}
	return nil
}

func (s *scanner) digits() bool {
	from := s.pos
	for c := s.peek(); '0' <= c && c <= '9'; c = s.peek() {
		s.pos++
	}
	return s.pos > from
}

// SkipText returns the position after the string that begins at pos. The text must have been
// scanned.
func SkipText(data []byte, pos int) int {
	for pos++; data[pos] != '"'; pos++ {
		if data[pos] == '\\' {
			pos++
		}
	}
	return pos + 1
}

// Unquote returns the value of a quoted string, which must have been scanned.
func Unquote(quoted []byte) string {
	inner := quoted[1 : len(quoted)-1]
	if isPlain(inner) {
		return string(inner)
	}
	var text string
	if json.Unmarshal(quoted, &text) != nil {
		return strings.ToValidUTF8(string(inner), "\ufffd")
	}
	return text
}

// Plain does the same as Unquote. It returns a part of quoted if possible.
func Plain(quoted []byte) []byte {
	if inner := quoted[1 : len(quoted)-1]; isPlain(inner) {
		return inner
	}
	return []byte(Unquote(quoted))
}

// isPlain reports whether a quoted string equals its value: it has no escapes and is valid UTF-8.
func isPlain(text []byte) bool { return bytes.IndexByte(text, '\\') < 0 && utf8.Valid(text) }
