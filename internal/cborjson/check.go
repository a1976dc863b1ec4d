package cborjson

import "fmt"

// The major types of data items that contain others
// (https://www.rfc-editor.org/rfc/rfc8949.html#name-major-types).
const (
	byteString = 2
	textString = 3
	array      = 4
	mapping    = 5
	tag        = 6
)

// What the low five bits of an initial byte say, beside small numbers.
const (
	oneByte    = 24 // the number follows in one byte; 25 to 27 mean 2, 4 and 8 bytes
	indefinite = 31 // up to a break
)

// breaks ends an item of indefinite length.
const breaks = 0xff

// checker goes through the initial bytes of data items.
type checker struct {
	data   []byte
	limits Limits
	items  int
}

// check returns an error if a document is beyond its limits. It passes one that is malformed, which
// the decoder refuses before it builds anything.
func check(data []byte, limits Limits) error {
	c := checker{data: data, limits: limits}
	_, err := c.item(0)
	return err
}

// item passes over a data item. It reports whether there was one, well-formed so far.
func (c *checker) item(depth int) (ok bool, err error) {
	if len(c.data) == 0 {
		return false, nil
	}
	if c.items++; c.items > c.limits.Items {
		return false, fmt.Errorf("it may have at most %d data items: %w", c.limits.Items, ErrTooMuch)
	}
	if depth > c.limits.Depth {
		return false, fmt.Errorf("it may have at most %d levels: %w", c.limits.Depth, ErrTooMuch)
	}
	major, low := c.data[0]>>5, c.data[0]&31
	c.data = c.data[1:]
	n, ok := c.number(low)
	if !ok {
		return false, nil
	}
	switch major {
	case byteString, textString:
		if low == indefinite {
			return c.untilBreak(depth)
		}
		if n > uint64(len(c.data)) {
			return false, nil
		}
		c.data = c.data[n:]
	case tag:
		return c.item(depth + 1)
	case array, mapping:
		if low == indefinite {
			return c.untilBreak(depth)
		}
		for range n {
			if ok, err := c.item(depth + 1); !ok {
				return ok, err
			}
			if major == array {
				continue
			}
			if ok, err := c.item(depth + 1); !ok {
				return ok, err
			}
		}
	}
	return true, nil
}

// number returns the number that low stands for, or that follows it.
func (c *checker) number(low byte) (n uint64, ok bool) {
	switch {
	case low < oneByte:
		return uint64(low), true
	case low == indefinite:
		return 0, true
	case low > oneByte+3:
		return 0, false
	}
	size := 1 << (low - oneByte)
	if len(c.data) < size {
		return 0, false
	}
	for _, b := range c.data[:size] {
		n = n<<8 | uint64(b)
	}
	c.data = c.data[size:]
	return n, true
}

// untilBreak passes over the items of one of indefinite length, and the break.
func (c *checker) untilBreak(depth int) (ok bool, err error) {
	for {
		if len(c.data) > 0 && c.data[0] == breaks {
			c.data = c.data[1:]
			return true, nil
		}
		if ok, err := c.item(depth + 1); !ok {
			return ok, err
		}
	}
}
