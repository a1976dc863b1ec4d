package jsonpatch

import (
	"bytes"
	"context"
	"fmt"

	"github.com/planekit/planekit/internal/jsonscan"
)

// Patch is a sequence of operations (RFC 6902). It shares memory with the text that it was
// decoded from.
type Patch []Operation

// Operation is one step of a Patch. Kind, Path and From are empty if the text lacks them or has a
// value other than a string.
type Operation struct {
	Kind       string
	Path, From string
	// hasPath and hasFrom distinguish empty from missing values.
	hasPath, hasFrom bool
	// value is null if the text lacks it; hasValue distinguishes the two.
	value    node
	hasValue bool
}

// Decode parses a patch of at most most operations. If there are more, it returns none of them, and
// their number.
func Decode(ctx context.Context, text []byte, most, depth int) (p Patch, count int, err error) {
	d, err := scan(ctx, text, depth)
	if err != nil {
		return nil, 0, err
	}
	if string(bytes.TrimSpace(text)) == "null" { // which is empty, as for kube-apiserver
		return Patch{}, 0, nil
	}
	if len(d.spans) == 0 || d.isObject(0) {
		return nil, 0, fmt.Errorf("%w: a JSON patch must be an array", ErrMalformed)
	}
	for w := d.walk(0); w.next(); count++ {
		if !d.isObject(w.inside) && w.value()[0] != 'n' {
			return nil, 0, fmt.Errorf("%w: an operation of a JSON patch must be an object", ErrMalformed)
		}
	}
	if count > most {
		return nil, count, nil
	}
	p = make(Patch, 0, count)
	for w := d.walk(0); w.next(); {
		if w.inside < 0 {
			p = append(p, Operation{}) // null, which is invalid
			continue
		}
		p = append(p, d.operation(w.inside))
	}
	return p, count, nil
}

func (d *document) operation(at int) Operation {
	var o Operation
	for w := d.walk(at); w.next(); {
		switch unquoteShort(w.name()) {
		case "op":
			o.Kind, _ = d.textAt(w.start, w.stop)
		case "path":
			o.Path, o.hasPath = d.textAt(w.start, w.stop)
		case "from":
			o.From, o.hasFrom = d.textAt(w.start, w.stop)
		case "value":
			o.value, o.hasValue = d.nodeAt(w.start, w.stop), true
			if o.value.isNull() {
				o.value = explicitNull.root()
			}
		}
	}
	return o
}

// textAt returns the value of the string at start, if the value is a string.
func (d *document) textAt(start, stop int) (string, bool) {
	if d.data[start] != '"' {
		return "", false
	}
	return jsonscan.Unquote(d.data[start:stop]), true
}

// unquoteShort returns the value of a quoted name. The names that matter are short.
func unquoteShort(quoted []byte) string {
	if len(quoted) > 64 {
		return ""
	}
	return jsonscan.Unquote(quoted)
}
