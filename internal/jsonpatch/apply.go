package jsonpatch

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/planekit/planekit/internal/jsonscan"
)

// ErrTest marks the error of a test operation that fails.
var ErrTest = errors.New("test failed")

// These are errors of operations, with the texts of kube-apiserver.
var (
	errMissing = errors.New("missing value")
	errIndex   = errors.New("invalid index referenced")
)

// Limits limits the effects of a patch.
type Limits struct {
	// Depth is the maximum number of levels of objects and arrays in a document.
	Depth int
	// Copied is the maximum number of bytes that copy operations may add in total.
	Copied int
}

// Apply returns document, an object or array, with the changes of p.
func (p Patch) Apply(ctx context.Context, text []byte, limits Limits) ([]byte, error) {
	d, err := scan(ctx, text, limits.Depth)
	if err != nil {
		return nil, fmt.Errorf("the document: %w", err)
	}
	a := application{ctx: ctx, limits: limits, root: d.root()}
	if a.root.open() == nil {
		return nil, fmt.Errorf("%w: the document must be an object or array", ErrMalformed)
	}
	for i := range p {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := a.apply(&p[i]); err != nil {
			return nil, err
		}
	}
	w := writer{ctx: ctx, out: make([]byte, 0, len(text)), depth: limits.Depth, most: -1}
	if err := w.value(&a.root, 0); err != nil {
		return nil, err
	}
	// Values moved into each other may be too deep although each of them was not.
	return w.out, jsonscan.Check(ctx, w.out, limits.Depth)
}

// application is a document that is being patched.
type application struct {
	ctx    context.Context
	limits Limits
	root   node
	copied int
}

func (a *application) apply(o *Operation) error {
	switch o.Kind {
	case "add":
		return a.add(o, o.value)
	case "remove":
		return a.remove("remove", o.Path, o.hasPath)
	case "replace":
		return a.replace(o)
	case "move":
		return a.move(o)
	case "copy":
		return a.copy(o)
	case "test":
		return a.test(o)
	}
	//lint:ignore ST1005 they are kube-apiserver's words
	return fmt.Errorf("Unexpected kind: %s", short(o.Kind))
}

// short returns text shortened for an error.
func short(text string) string {
	const most = 256
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

// parent returns the container of the value at path and the value's key, or nil if there is no such
// container. As in kube-apiserver, anything before the first slash is ignored.
func (a *application) parent(path string) (*container, string) {
	_, path, ok := strings.Cut(path, "/")
	if !ok {
		return nil, ""
	}
	at := a.root.open()
	for at != nil {
		step, rest, more := strings.Cut(path, "/")
		if !more {
			return at, unescape(step)
		}
		next, err := at.get(unescape(step))
		if err != nil || next == nil {
			return nil, ""
		}
		at, path = next.open(), rest
	}
	return nil, ""
}

// unescape decodes a step of a JSON pointer (RFC 6901).
func unescape(step string) string {
	if strings.IndexByte(step, '~') < 0 {
		return step
	}
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
}

// position parses the index of one of count places of an array. As in kube-apiserver, negative
// indexes count from the end.
func position(key string, count int) (int, error) {
	i, err := strconv.Atoi(key)
	if err != nil {
		return 0, fmt.Errorf("value was not a proper array index: '%s'", short(key))
	}
	if i >= count || i < -count {
		//lint:ignore ST1005 they are kube-apiserver's words
		return 0, fmt.Errorf("Unable to access invalid index: %d: %w", i, errIndex)
	}
	if i < 0 {
		i += count
	}
	return i, nil
}

// get returns the value under key, or nil if an object lacks it.
func (c *container) get(key string) (*node, error) {
	if c.items == nil {
		return c.find(key), nil
	}
	i, err := position(key, c.items.length)
	if err != nil {
		return nil, err
	}
	return c.items.get(i), nil
}

// add sets key to n. In an array, it inserts n before the item at key.
func (c *container) add(key string, n node) error {
	if c.items == nil {
		c.set(key, n)
		return nil
	}
	i := c.items.length
	if key != "-" {
		var err error
		if i, err = position(key, c.items.length+1); err != nil {
			return err
		}
	}
	c.items.insert(i, n)
	return nil
}

func (c *container) delete(key string) error {
	if c.items == nil {
		if !c.drop(key) {
			//lint:ignore ST1005 they are kube-apiserver's words
			return fmt.Errorf("Unable to remove nonexistent key: %s: %w", short(key), errMissing)
		}
		return nil
	}
	i, err := position(key, c.items.length)
	if err == nil {
		c.items.remove(i)
	}
	return err
}

func undecoded(kind, what string) error {
	return fmt.Errorf("%s operation failed to decode %s: %w", kind, what, errMissing)
}

func inapplicable(kind, what, path string) error {
	path = short(path)
	if kind == "add" || kind == "remove" { // kube-apiserver quotes only these
		path = `"` + path + `"`
	}
	return fmt.Errorf("%s operation does not apply: doc is missing %s: %s: %w", kind, what, path, errMissing)
}

func inPath(kind, path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("error in %s for path: '%s': %w", kind, short(path), err)
}

func (a *application) add(o *Operation, n node) error {
	if !o.hasPath {
		return undecoded(o.Kind, "path")
	}
	in, key := a.parent(o.Path)
	if in == nil {
		return inapplicable(o.Kind, "path", o.Path)
	}
	return inPath(o.Kind, o.Path, in.add(key, n))
}

func (a *application) remove(kind, path string, has bool) error {
	if !has {
		return undecoded(kind, "path")
	}
	in, key := a.parent(path)
	if in == nil {
		return inapplicable(kind, "path", path)
	}
	return inPath(kind, path, in.delete(key))
}

func (a *application) replace(o *Operation) error {
	if !o.hasPath {
		return undecoded(o.Kind, "path")
	}
	if o.Path == "" {
		root := o.value
		if root.open() == nil {
			return errors.New("replace operation value must be object or array")
		}
		a.root = root
		return nil
	}
	in, key := a.parent(o.Path)
	if in == nil {
		return inapplicable(o.Kind, "path", o.Path)
	}
	if in.items == nil {
		in.set(key, o.value) // whether or not it exists, as in kube-apiserver
		return nil
	}
	old, err := in.get(key)
	if err != nil {
		return inapplicable(o.Kind, "key", o.Path)
	}
	*old = o.value
	return nil
}

// take returns the value at the from path of o.
func (a *application) take(o *Operation) (in *container, key string, n node, err error) {
	if !o.hasFrom {
		return nil, "", node{}, undecoded(o.Kind, "from")
	}
	if in, key = a.parent(o.From); in == nil {
		return nil, "", node{}, inapplicable(o.Kind, "from path", o.From)
	}
	at, err := in.get(key)
	if err == nil && at != nil {
		n = *at
	}
	return in, key, n, inPath(o.Kind, o.From, err)
}

func (a *application) move(o *Operation) error {
	in, key, n, err := a.take(o)
	if err != nil {
		return err
	}
	if err := in.delete(key); err != nil {
		return inPath(o.Kind, key, err)
	}
	return a.add(o, n)
}

func (a *application) copy(o *Operation) error {
	_, _, n, err := a.take(o)
	if err != nil {
		return err
	}
	if n.inner == nil { // its text never changes, so both may share it
		a.copied += len(n.text())
	} else {
		w := writer{ctx: a.ctx, depth: a.limits.Depth, most: a.limits.Copied - a.copied}
		if err := w.value(&n, 0); err != nil {
			return err
		}
		a.copied += len(w.out)
		d, err := scan(a.ctx, w.out, a.limits.Depth)
		if err != nil {
			return err
		}
		n = d.root()
	}
	if a.copied > a.limits.Copied {
		return ErrTooMuchCopied
	}
	return a.add(o, n)
}

func (a *application) test(o *Operation) error {
	if !o.hasPath {
		return undecoded(o.Kind, "path")
	}
	failed := fmt.Errorf("testing value %s failed: %w", short(o.Path), ErrTest)
	if o.Path == "" {
		if !o.hasValue || !equal(a.root, o.value) {
			return failed
		}
		return nil
	}
	in, key := a.parent(o.Path)
	if in == nil {
		return inapplicable(o.Kind, "path", o.Path)
	}
	n, err := in.get(key)
	if err != nil {
		return inPath(o.Kind, o.Path, err)
	}
	if n == nil {
		n = &node{}
	}
	if !equal(*n, o.value) || !o.hasValue && n.source == explicitNull {
		return failed
	}
	return nil
}
