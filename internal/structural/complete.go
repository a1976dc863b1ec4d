package structural

import (
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime"
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
	// noDefaults leaves absent fields absent.
	noDefaults bool
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
		if embedded && metaFields[name] {
			if p := s.Properties[name]; p != nil {
				c.metadata(obj, name, p)
			}
			continue
		}
		part, known := s.field(name)
		length := c.key(name)
		switch {
		case known && part != nil && v == nil && !part.Nullable:
			if part.Default == nil {
				delete(obj, name)
				break
			}
			if c.noDefaults {
				break
			}
			obj[name] = c.defaultOf(part)
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
	c.setDefaults(obj, s)
}

// metadata sets the defaults of a field that every resource has.
func (c *completion) metadata(obj map[string]any, name string, s *Schema) {
	v := obj[name]
	if v == nil && !s.Nullable && s.Default != nil {
		obj[name] = runtime.DeepCopyJSONValue(s.Default)
	}
	if fields, ok := obj[name].(map[string]any); ok {
		c.setDefaults(fields, s)
	}
}

// setDefaults adds the fields that are absent and have defaults.
func (c *completion) setDefaults(obj map[string]any, s *Schema) {
	if c.noDefaults {
		return
	}
	for name, part := range s.Properties {
		if part.Default == nil {
			continue
		}
		if _, ok := obj[name]; ok {
			continue
		}
		obj[name] = c.defaultOf(part)
	}
}

// defaultOf returns a copy of the default of s, completed like any value. Fields of it that s does not have are
// not the client's.
func (c *completion) defaultOf(s *Schema) any {
	v := runtime.DeepCopyJSONValue(s.Default)
	reported := len(c.unknown)
	c.value(v, s, false)
	c.unknown = c.unknown[:reported]
	return v
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
		if items[i] == nil && part != nil && !part.Nullable && part.Default != nil && !c.noDefaults {
			items[i] = runtime.DeepCopyJSONValue(part.Default)
		}
		length := c.index(i)
		if part != nil || !preserve {
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
