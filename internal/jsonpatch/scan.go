package jsonpatch

import (
	"context"
	"fmt"
	"slices"

	"github.com/planekit/planekit/internal/jsonscan"
)

// span is an object or array of a document: data[start:end]. next is the index of the first span
// that begins after its end.
type span struct{ start, end, next int32 }

// document is a JSON text with its objects and arrays in the order of their beginnings.
type document struct {
	data  []byte
	spans []span
}

// checkEvery is the number of values between two checks of the context.
const checkEvery = 4096

// scan parses data, which must be one JSON value with at most depth levels of objects and arrays.
func scan(ctx context.Context, data []byte, depth int) (*document, error) {
	if len(data) > 1<<30 {
		return nil, fmt.Errorf("%w: %d bytes are too many", ErrMalformed, len(data))
	}
	s := spans{all: make([]span, 0, min(16+len(data)/64, 4096))}
	if err := jsonscan.Scan(ctx, data, depth, &s); err != nil {
		return nil, err
	}
	return &document{data, s.all}, nil
}

// spans is the visitor that records the positions of objects and arrays.
type spans struct {
	all  []span
	open []int32 // open objects and arrays
}

func (s *spans) Begin(_ byte, at int) error {
	s.open = append(s.open, int32(len(s.all)))
	s.all = append(s.all, span{start: int32(at)})
	return nil
}

func (s *spans) End(at int) {
	last := &s.all[s.open[len(s.open)-1]]
	last.end, last.next = int32(at), int32(len(s.all))
	s.open = s.open[:len(s.open)-1]
}

func (s *spans) Name([]byte) error   { return nil }
func (s *spans) Scalar([]byte) error { return nil }

// spanAt returns the index of the span that begins at start.
func (d *document) spanAt(start int) int {
	i, _ := slices.BinarySearchFunc(d.spans, int32(start), func(s span, at int32) int { return int(s.start) - int(at) })
	return i
}

// walk iterates over the values of an object or array, which is span of d.
type walk struct {
	*document
	pos, end int
	span     int // the next one
	object   bool
	// The value is data[start:stop]. In an object, its quoted name is data[named:unnamed].
	named, unnamed int
	start, stop    int
	// inside is the index of the value's span, or -1.
	inside int
}

func (d *document) walk(at int) walk {
	s := d.spans[at]
	return walk{document: d, pos: int(s.start) + 1, end: int(s.end) - 1, span: at + 1, object: d.data[s.start] == '{'}
}

// next advances to the next value and reports whether there is one.
func (w *walk) next() bool {
	data := w.data
	w.pos = jsonscan.SkipSpace(data, w.pos)
	if w.pos >= w.end {
		return false
	}
	if data[w.pos] == ',' {
		w.pos = jsonscan.SkipSpace(data, w.pos+1)
	}
	if w.object {
		w.named = w.pos
		w.pos = jsonscan.SkipText(data, w.pos)
		w.unnamed = w.pos
		w.pos = jsonscan.SkipSpace(data, jsonscan.SkipSpace(data, w.pos)+1) // the colon
	}
	w.start, w.inside = w.pos, -1
	switch data[w.pos] {
	case '{', '[':
		w.inside = w.span
		s := w.spans[w.span]
		w.pos, w.span = int(s.end), int(s.next)
	case '"':
		w.pos = jsonscan.SkipText(data, w.pos)
	default:
		for w.pos < w.end && !endsWord(data[w.pos]) {
			w.pos++
		}
	}
	w.stop = w.pos
	return true
}

func endsWord(c byte) bool {
	switch c {
	case ',', ' ', '\n', '\t', '\r', '}', ']':
		return true
	}
	return false
}

func (w *walk) name() []byte  { return w.data[w.named:w.unnamed] }
func (w *walk) value() []byte { return w.data[w.start:w.stop] }
