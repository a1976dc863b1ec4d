package structural

import (
	"slices"
	"strconv"
)

// metaFields are the fields that every resource has.
var metaFields = map[string]bool{"apiVersion": true, "kind": true, "metadata": true}

// Complete removes from obj the fields that the schema does not have and the nulls that it does not allow,
// sets defaults, and returns the sorted paths of the removed fields. A root has the fields of every
// resource, which are left alone.
func (s *Schema) Complete(obj map[string]any, root bool) (unknown []string) {
	if s == nil {
		s = &Schema{}
	}
	c := completion{}
	c.object(obj, s, root || s.Embedded, s.Preserve)
	slices.Sort(c.unknown)
	return c.unknown
}

// completion is one pass over an object.
type completion struct {
	path    []byte
	unknown []string
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
		part, known := s.field(name)
		length := c.key(name)
		switch {
		case v == nil && known && part != nil && !part.Nullable && !c.keepNulls:
			c.replaceNull(obj, name, part)
		case embedded && metaFields[name]:
			if !c.noDefaults && known && part != nil {
				part.fill(v, true)
			}
		case known:
			c.value(v, part, false)
		case preserve:
		default:
			if !metaFields[name] || length > 0 {
				c.unknown = append(c.unknown, string(c.path))
			}
			delete(obj, name)
		}
		c.path = c.path[:length]
	}
	if !c.noDefaults {
		s.setDefaults(obj)
	}
}

// replaceNull sets a field that is null, and may not be, to its default, or removes it.
func (c *completion) replaceNull(obj map[string]any, name string, s *Schema) {
	if s.settled == nil {
		delete(obj, name)
	} else if !c.noDefaults {
		obj[name] = s.newDefault()
	}
}

// removeAll removes all fields of an object of which nothing is known.
func (c *completion) removeAll(obj map[string]any) {
	for name := range obj {
		length := c.key(name)
		c.unknown = append(c.unknown, string(c.path))
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
			items[i] = part.newDefault()
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
