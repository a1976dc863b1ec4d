package jsonpatch

import (
	"context"
	"encoding/json"
	"fmt"
)

// writer writes a value.
type writer struct {
	ctx   context.Context
	out   []byte
	depth int // maximum number of levels
	most  int // maximum number of bytes; less than 0 means no limit
	done  int
}

func (w *writer) value(n *node, level int) error {
	if w.done++; w.done%checkEvery == 0 {
		if err := w.ctx.Err(); err != nil {
			return err
		}
	}
	if w.most >= 0 && len(w.out) > w.most {
		return ErrTooMuchCopied
	}
	if level > w.depth {
		return fmt.Errorf("%w: the patch makes more than %d levels", ErrTooDeep, w.depth)
	}
	switch c := n.inner; {
	case c == nil:
		w.out = append(w.out, n.text()...)
		return nil
	case c.items != nil:
		return w.array(c.items, level)
	default:
		return w.object(c, level)
	}
}

func (w *writer) array(l *list, level int) error {
	w.out = append(w.out, '[')
	begin := len(w.out)
	for i := range l.chunks {
		c := &l.chunks[i]
		if len(w.out) > begin && c.count > 0 {
			w.out = append(w.out, ',')
		}
		if c.items == nil {
			w.out = append(w.out, c.source.data[c.start:c.stop]...)
			continue
		}
		for j := range c.items {
			if j > 0 {
				w.out = append(w.out, ',')
			}
			if err := w.value(&c.items[j], level+1); err != nil {
				return err
			}
		}
	}
	w.out = append(w.out, ']')
	return nil
}

func (w *writer) object(c *container, level int) error {
	w.out = append(w.out, '{')
	begin := len(w.out)
	err := c.each(func(name string, n *node) error {
		if len(w.out) > begin {
			w.out = append(w.out, ',')
		}
		w.out = append(appendQuoted(w.out, name), ':')
		return w.value(n, level+1)
	})
	w.out = append(w.out, '}')
	return err
}

func appendQuoted(out []byte, text string) []byte {
	quoted, _ := json.Marshal(text) // a string: it cannot fail
	return append(out, quoted...)
}
