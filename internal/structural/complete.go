package structural

import (
	"context"
	"slices"
	"strconv"
)

// metaFields are the fields that every resource has.
var metaFields = map[string]bool{"apiVersion": true, "kind": true, "metadata": true}

// Complete removes from obj the fields that the schema does not have and the nulls that it does not allow,
// sets defaults, and returns the sorted paths of the removed fields, of which it leaves out some if there are
// very many. A root has the fields of every resource, which are left alone.
//
// Complete charges the defaults to the budget of ctx. It fails if that does not cover them; obj is then not
// complete.
func (s *Schema) Complete(ctx context.Context, obj map[string]any, root bool) (unknown []string, err error) {
	if s == nil {
		s = &Schema{}
	}
	c := completion{meter: newMeter(ctx)}
	c.object(obj, s, root || s.Embedded, s.Preserve)
	slices.Sort(c.unknown)
	return c.unknown, c.meter.err
}

// Fill sets the defaults in obj, the fields of a resource, and keeps unknown fields. It charges them to the budget of ctx,
// and fails if that does not cover them.
func (s *Schema) Fill(ctx context.Context, obj map[string]any) error {
	m := newMeter(ctx)
	s.fill(obj, true, m)
	return m.err
}

// completion is one pass over an object.
type completion struct {
	path    []byte
	unknown []string
	// named is how long the paths in unknown are.
	named int
	// meter charges defaults; nil without.
	meter *meter
	// noDefaults leaves absent fields absent, and keepNulls those that are null and may not be.
	noDefaults, keepNulls bool
}

func (c *completion) key(name string) int {
	length := len(c.path)
	if length > 0 {
		c.path = append(c.path, '.')
	}
	c.path = append(c.path, name...)
	return length
}

// maxUnknown and maxNamed bound the paths of removed fields, and their length in bytes.
const maxUnknown, maxNamed = 1000, 64 << 10

// remember adds the path to those of the removed fields.
func (c *completion) remember() {
	if len(c.unknown) >= maxUnknown || c.named+len(c.path) > maxNamed {
		return
	}
	c.unknown = append(c.unknown, string(c.path))
	c.named += len(c.path)
}

func (c *completion) index(i int) int {
	length := len(c.path)
	c.path = strconv.AppendInt(append(c.path, '['), int64(i), 10)
	c.path = append(c.path, ']')
	return length
}

// value completes what is in a field or item of schema s. preserve is set below a schema that keeps unknown
// fields, inside lists, which pass that on.
func (c *completion) value(v any, s *Schema, preserve bool) {
	switch v := v.(type) {
	case map[string]any:
		c.object(v, s, s != nil && s.Embedded, preserve || s != nil && s.Preserve)
	case []any:
		c.list(v, s, preserve || s != nil && s.Preserve)
	}
}

func (c *completion) object(obj map[string]any, s *Schema, embedded, preserve bool) {
	if s == nil {
		if !preserve {
			c.removeAll(obj)
		}
		return
	}
	for name, v := range obj {
		if c.meter != nil && c.meter.err != nil {
			return
		}
		part, known := s.field(name)
		length := c.key(name)
		switch {
		case v == nil && known && part != nil && !part.Nullable && !c.keepNulls:
			c.replaceNull(obj, name, part)
		case embedded && metaFields[name]:
			if !c.noDefaults && known && part != nil {
				part.fill(v, true, c.meter)
			}
		case known:
			c.value(v, part, false)
		case preserve:
		default:
			if !metaFields[name] || length > 0 {
				c.remember()
			}
			delete(obj, name)
		}
		c.path = c.path[:length]
	}
	if !c.noDefaults {
		s.setDefaults(obj, c.meter)
	}
}

// replaceNull sets a field that is null, and may not be, to its default, or removes it.
func (c *completion) replaceNull(obj map[string]any, name string, s *Schema) {
	if s.settled == nil {
		delete(obj, name)
	} else if !c.noDefaults {
		obj[name] = s.newDefault(c.meter)
	}
}

// removeAll removes all fields of an object of which nothing is known.
func (c *completion) removeAll(obj map[string]any) {
	for name := range obj {
		length := c.key(name)
		c.remember()
		c.path = c.path[:length]
		delete(obj, name)
	}
}

func (c *completion) list(items []any, s *Schema, preserve bool) {
	var part *Schema
	if s != nil {
		part = s.Items
	}
	for i := range items {
		length := c.index(i)
		if items[i] == nil && part != nil && !part.Nullable && !c.noDefaults {
			items[i] = part.newDefault(c.meter)
		} else if part != nil || !preserve {
			c.value(items[i], part, preserve)
		}
		c.path = c.path[:length]
	}
}

// Prune removes from obj, the fields of a resource, what Complete does, and sets no defaults.
func (s *Schema) Prune(obj map[string]any) {
	c := completion{noDefaults: true}
	c.object(obj, s, true, s.Preserve)
}

// RemoveUnknown removes from v, a value of schema s, the fields that s does not have.
func (s *Schema) RemoveUnknown(v any) {
	c := completion{noDefaults: true, keepNulls: true}
	c.value(v, s, false)
}
