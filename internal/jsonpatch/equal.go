package jsonpatch

import (
	"bytes"
	"errors"

	"github.com/planekit/planekit/internal/jsonscan"
)

var errDiffers = errors.New("differs")

// equal reports whether two values are equal: objects with their members in any order, strings with
// any escapes, and numbers digit by digit. It opens copies, so that the memory of the comparison is
// freed.
func equal(a, b node) bool {
	if a.inner == nil && b.inner == nil && bytes.Equal(a.text(), b.text()) {
		return true
	}
	x, y := a.open(), b.open()
	switch {
	case x == nil && y == nil:
		return equalScalars(a.text(), b.text())
	case x == nil || y == nil || (x.items == nil) != (y.items == nil):
		return false
	case x.items != nil:
		return equalLists(x.items, y.items)
	case x.size() != y.size():
		return false
	}
	return x.each(func(name string, n *node) error {
		if other, ok := y.peek(name); !ok || !equal(*n, other) {
			return errDiffers
		}
		return nil
	}) == nil
}

// equalLists compares two lists item by item. Their chunks may differ.
func equalLists(x, y *list) bool {
	if x.length != y.length {
		return false
	}
	at, in := 0, 0
	var others []node
	for _, c := range x.chunks {
		for _, n := range c.open() {
			for in == len(others) {
				c := y.chunks[at]
				others, at, in = c.open(), at+1, 0
			}
			if !equal(n, others[in]) {
				return false
			}
			in++
		}
	}
	return true
}

func equalScalars(a, b []byte) bool {
	return bytes.Equal(a, b) || a[0] == '"' && b[0] == '"' && bytes.Equal(jsonscan.Plain(a), jsonscan.Plain(b))
}
